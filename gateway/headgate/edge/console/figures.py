"""Producers and topics in numbers, without their sketches: cheap enough for a thousand of each.

The counts are of this hour and the one before, as in the control plane's `window`; rates are of
the last minute.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.outcome import Name
from headgate.metrics.fleet import Fleet, Rates
from headgate.metrics.snapshot import WINDOW_S, Pair, ProducerHour

End = tuple[str, str]  # outcome, and reason or ""


@dataclass(slots=True)
class Summary:
    """ends: events by how they ended; of those that were held what became of them, too."""

    events_per_s: float = 0.0
    bytes_per_s: float = 0.0
    events: int = 0
    bytes: int = 0
    last_seen: float = 0.0
    ends: dict[End, int] = field(default_factory=dict)

    def of(self, outcome: str) -> int:
        """Events that ended so."""
        return sum(count for (name, _), count in self.ends.items() if name == outcome)

    def share(self, *outcomes: str) -> float:
        """Of the events that have ended (0 to 1)."""
        ended = sum(count for (name, _), count in self.ends.items() if name != Name.HELD)
        return sum(map(self.of, outcomes)) / ended if ended else 0.0

    @property
    def mean_bytes(self) -> float | None:
        return self.bytes / self.events if self.events else None

    def add(self, other: "Summary") -> None:
        """Count both together."""
        self.events_per_s += other.events_per_s
        self.bytes_per_s += other.bytes_per_s
        self.events += other.events
        self.bytes += other.bytes
        self.last_seen = max(self.last_seen, other.last_seen)
        for end, count in other.ends.items():
            self.ends[end] = self.ends.get(end, 0) + count


def by_pair(fleet: Fleet, rates: Rates, now: float) -> dict[Pair, Summary]:
    """Each pair of a producer and a topic. now: seconds since 1970."""
    found: dict[Pair, Summary] = {}
    first = int(now // WINDOW_S) - 1
    for figures in fleet.parts():
        for pair, detail in figures.details.items():
            summary = found.setdefault(pair, Summary())
            summary.last_seen = max(summary.last_seen, detail.last_seen)
            for hour, window in detail.windows.items():
                if hour >= first:
                    _count(summary, window)
    for pair, summary in found.items():
        summary.events_per_s, summary.bytes_per_s = rates.rate(pair)
    return found


def _count(into: Summary, window: ProducerHour) -> None:
    into.bytes += window.bytes
    for end, count in window.ends.items():
        into.events += count
        into.ends[end] = into.ends.get(end, 0) + count
    for outcome, count in window.coalesced.items():
        into.ends[outcome, ""] = into.ends.get((outcome, ""), 0) + count


def grouped(
    pairs: Mapping[Pair, Summary], name: Callable[[Pair], str], known: Iterable[str] = ()
) -> dict[str, Summary]:
    """Added up by producer or topic. known: names that are listed though nothing came."""
    found = {one: Summary() for one in known}
    for pair, summary in pairs.items():
        found.setdefault(name(pair), Summary()).add(summary)
    return found
