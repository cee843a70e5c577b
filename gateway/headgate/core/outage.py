"""Whether something that is needed is away, and for how long it was."""

from collections.abc import Callable
from typing import Final


class Outage:
    """clock: monotonic seconds."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: float | None = None

    def begins(self) -> bool:
        """It is away. False: it was already."""
        if self._since is not None:
            return False
        self._since = self._clock()
        return True

    def ends(self) -> float | None:
        """It is there: for how many seconds it was away. None: it was not."""
        since, self._since = self._since, None
        return None if since is None else round(self._clock() - since, 3)
