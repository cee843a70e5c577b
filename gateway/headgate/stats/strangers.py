"""Who posts without being configured: the busiest names, in bounded memory.

Space-saving (Metwally, Agrawal and El Abbadi, 2005): a new name takes the place of the one with
the fewest events, and its count, so that a busy one is never missing.
"""

from collections.abc import Sequence

from headgate.core.outcome import Outcome
from headgate.stats.series import Series
from headgate.stats.snapshot import STRANGERS_KEPT, Stranger


class Strangers:
    """The names of one worker."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._seen: dict[str, float] = {}

    def add(self, name: str, events: int, now: float) -> None:
        """Count events. now: seconds since 1970."""
        before = self._counts.get(name)
        if before is None:
            before = self._make_room()
        self._counts[name] = before + events
        self._seen[name] = now

    def _make_room(self) -> int:
        if len(self._counts) < STRANGERS_KEPT:
            return 0
        least = min(self._counts, key=self._counts.__getitem__)
        del self._seen[least]
        return self._counts.pop(least)

    def collect(self) -> dict[str, Stranger]:
        """By name."""
        return {name: Stranger(count, self._seen[name]) for name, count in self._counts.items()}


class StrangersSeries:
    """A series that many unknown producers share, and the name of one of them."""

    __slots__ = ("_name", "_series", "_strangers")

    def __init__(self, name: str, series: Series, strangers: Strangers) -> None:
        self._name = name
        self._series = series
        self._strangers = strangers

    def add(
        self, now: float, outcomes: Sequence[Outcome], sizes: Sequence[int], request_id: str
    ) -> None:
        """As `Series`."""
        self._series.add(now, outcomes, sizes, request_id)
        self._strangers.add(self._name, len(outcomes), now)

    def oversized(self, now: float, action: str) -> None:
        """As `Series`."""
        self._series.oversized(now, action)

    def coalesced(self, now: float, outcome: str, events: int, size: int) -> None:
        """As `Series`."""
        self._series.coalesced(now, outcome, events, size)
