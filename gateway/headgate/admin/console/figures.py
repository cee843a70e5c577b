"""Figures of producers and topics: summaries without sketches, and series over time for plots.

The counts of a summary are of this hour and the one before, as in the control plane's `window`;
rates are of the last minute. A summary is cheap enough for a thousand producers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from headgate.admin.console import wording
from headgate.core.outcome import Name
from headgate.metrics import history as recorder
from headgate.metrics.fleet import Fleet, Rates
from headgate.metrics.history import Points, Recorder
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


# ---- series over time: from this process, or from Prometheus if it is configured


_HELD = "headgate_held_"
_PER_PAIR_LABELS = (0, 1)  # of recorder.EVENTS: producer and topic


class Plots(Protocol):
    """Reads figures over time."""

    @property
    def source(self) -> str:
        """Origin of the figures, in words."""
        ...

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """See `History.read`. Raises Refused."""
        ...


class Recorded:
    """Figures from the memory of this process."""

    source = "memory of this gateway, up to 6 h"

    def __init__(self, kept: Recorder) -> None:
        self._kept = kept

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """From the finest history that has these labels."""
        if metric in (recorder.RECORDS_WRITTEN, recorder.BYTES_WRITTEN):
            kept = self._kept.partitions
        elif {*by, *(where or {})}.isdisjoint(_PER_PAIR_LABELS):
            kept = self._kept.whole
        else:
            kept = self._kept.pairs
        return kept.read(metric, by, where, span_s)


class Plot(NamedTuple):
    """id: of the element.  unit: of the values: events, B, records, ...  rows: by name."""

    id: str
    title: str
    unit: str
    metric: str
    points: Points
    rows: Mapping[str, Sequence[float]]
    brush: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """For the page's script."""
        rows = [[name, [_short(value) for value in values]] for name, values in self.rows.items()]
        return {"start": self.points.start, "step": self.points.step_s, "rows": rows}

    @property
    def summary(self) -> str:
        """The plot in words."""
        totals = [sum(step) for step in zip(*self.rows.values(), strict=True)]
        unit = "B" if self.unit == "B" else ""
        now, highest = wording.rate(totals[-1], unit), wording.rate(max(totals), unit)
        of = "" if unit else f" {self.unit}"
        return f"Now {now}{of}; highest {highest}{of}."


def _short(value: float) -> float:
    """Three digits are what a plot shows."""
    return float(f"{value:.3g}")


def named(points: Points) -> dict[str, Sequence[float]]:
    """Rows by their only label, largest first."""
    order = sorted(points.rows.items(), key=lambda row: -sum(row[1]))
    return {labels[0] or "none": values for labels, values in order}


def tail(values: Sequence[float], steps: int) -> Sequence[float]:
    """For a sparkline."""
    return values[-steps:]
