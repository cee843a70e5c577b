"""Begin, end and duration of a dependency's outage."""

from collections.abc import Callable
from typing import Final


class Outage:
    """State of one dependency; `clock` is monotonic, in seconds."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: float | None = None

    def begins(self) -> bool:
        """Record the begin of an outage; return False if it had begun already."""
        if self._since is not None:
            return False
        self._since = self._clock()
        return True

    def ends(self) -> float | None:
        """Record the end of an outage; return its duration in seconds, or None."""
        since, self._since = self._since, None
        return None if since is None else round(self._clock() - since, 3)
