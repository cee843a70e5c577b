"""Metrics of all workers together, also of ended ones; rates of the last minute.

Pure: the parent passes its readings and their times.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from headgate.metrics.snapshot import Labels, Pair, Snapshot, add_table, merge

RATE_SPAN_S = 60.0


class Volume(NamedTuple):
    """Events and bytes: totals, or per second."""

    events: float
    bytes: float


_NOTHING = Volume(0.0, 0.0)


class Fleet:
    """The merged metrics of all workers. Counters never fall: an ended worker's last values stay.

    The counts after its last reading are lost with it (a second's worth).
    """

    def __init__(self) -> None:
        self._live: dict[int, Snapshot] = {}
        self._gone = Snapshot()
        self._own = Snapshot()

    def update(self, worker: int, figures: Snapshot, has_details: bool = True) -> None:
        """Replace a worker's metrics.

        Args:
            worker: Process id of the worker, or another name that is never used again.
            figures: The metrics.
            has_details: Whether the reading has details; otherwise the last details stay.
        """
        before = self._live.get(worker)
        if not has_details and before is not None:
            figures.details, figures.strangers = before.details, before.strangers
        self._live[worker] = figures

    def retire(self, worker: int) -> None:
        """Keep the counters of a worker that has ended."""
        figures = self._live.pop(worker, None)
        if figures is not None:
            self._gone = merge(self._gone, replace(figures, gauges={}))

    def count(self, name: str, labels: Labels = (), by: float = 1) -> None:
        """Add to a counter that is the parent's own."""
        values = self._own.counters.setdefault(name, {})
        values[labels] = values.get(labels, 0) + by

    def set(self, name: str, labels: Labels, value: float) -> None:
        """Set a gauge that is the parent's own."""
        self._own.gauges.setdefault(name, {})[labels] = value

    def own(self, name: str, labels: Labels) -> float | None:
        """Return the gauge that `set` wrote; None if there is none yet."""
        return self._own.gauges.get(name, {}).get(labels)

    def total(self, wanted: Callable[[Pair], bool] | None = None) -> Snapshot:
        """Merge all metrics.

        Args:
            wanted: Selects the pairs with details; None for all. Merging sketches takes long.
        """
        parts = [_chosen(figures, wanted) for figures in self.parts()]
        return reduce(merge, parts)

    def parts(self) -> Iterator[Snapshot]:
        """Yield the parts of `total`: ended workers, this process, and each worker."""
        yield self._gone
        yield self._own
        yield from self._live.values()

    def counter(self, name: str) -> dict[Labels, float]:
        """Return one counter by its labels; much cheaper than `total`, which merges sketches."""
        return self._table(name, (figures.counters for figures in self.parts()))

    def gauge(self, name: str) -> dict[Labels, float]:
        """Return one gauge by its labels."""
        return self._table(name, (figures.gauges for figures in self.parts()))

    @staticmethod
    def _table(
        name: str, tables: Iterable[Mapping[str, Mapping[Labels, float]]]
    ) -> dict[Labels, float]:
        merged: dict[Labels, float] = {}
        for table in tables:
            add_table(name, merged, table.get(name, {}))
        return merged

    def volumes(self) -> dict[Pair, Volume]:
        """Return events and bytes by pair; much cheaper than `total`, which merges sketches."""
        summed: dict[Pair, Volume] = {}
        for figures in (self._gone, *self._live.values()):
            for pair, volume in _volumes(figures):
                before = summed.get(pair, _NOTHING)
                summed[pair] = Volume(before.events + volume.events, before.bytes + volume.bytes)
        return summed


def _chosen(figures: Snapshot, wanted: Callable[[Pair], bool] | None) -> Snapshot:
    if wanted is None:
        return figures
    details = {pair: detail for pair, detail in figures.details.items() if wanted(pair)}
    return replace(figures, details=details)


def _volumes(figures: Snapshot) -> Iterable[tuple[Pair, Volume]]:
    for labels, buckets in figures.histograms.get("headgate_event_bytes", {}).items():
        producer, topic = labels
        yield Pair(producer, topic), Volume(sum(buckets.counts), buckets.sum)


class Rates:
    """Events and bytes per second over the last minute, or since the start if that is shorter."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[Pair, Volume]]] = deque()

    def note(self, now: float, volumes: dict[Pair, Volume]) -> None:
        """Add a reading of the totals; `now` is in seconds of any monotonic clock."""
        readings = self._readings
        readings.append((now, volumes))
        # One reading as old as the span stays, so that the rate covers the whole span.
        while len(readings) > 2 and readings[1][0] <= now - RATE_SPAN_S:
            readings.popleft()

    def rate(self, pair: Pair) -> Volume:
        """Return the pair's rate; zero before the second reading."""
        if len(self._readings) < 2:
            return _NOTHING
        (before, old), (after, new) = self._readings[0], self._readings[-1]
        span = after - before
        if span <= 0:
            return _NOTHING
        then, now = old.get(pair, _NOTHING), new.get(pair, _NOTHING)
        return Volume((now.events - then.events) / span, (now.bytes - then.bytes) / span)
