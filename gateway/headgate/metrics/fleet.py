"""Metrics of all workers together, also of ended ones: totals, rates, and values over time.

Pure: the parent passes its readings and their times.
"""

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
            figures.details, figures.unconfigured = before.details, before.unconfigured
            figures.tokens = before.tokens
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

    def note(self, now_s: float, volumes: dict[Pair, Volume]) -> None:
        """Add a reading of the totals; `now_s` is in seconds of any monotonic clock."""
        readings = self._readings
        readings.append((now_s, volumes))
        # One reading as old as the span stays, so that the rate covers the whole span.
        while len(readings) > 2 and readings[1][0] <= now_s - RATE_SPAN_S:
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


# ---- metrics over time, in memory: rings of equal steps, bounded in bytes
#
# A series is created when its value first changes. At the limit, the series without a change for
# the longest time are dropped. While all series change, no new one is added.


# Size of a series besides 4 bytes per step: array, key with its texts, and entries in two tables.
_OVERHEAD_BYTES = 600
_DROPPED_PART = 16  # divisor of the number of series to drop at the limit

Table = Mapping[Labels, float]


class Points(NamedTuple):
    """Values over time.

    Attributes:
        start: Beginning of the first step, in seconds since 1970.
        step_s: Length of a step, in seconds.
        rows: One value per step, oldest first: of counters the increase per second, of gauges the
            value at the step's end.
    """

    start: float
    step_s: float
    rows: dict[Labels, list[float]]

    def total(self) -> list[float]:
        """Return the sum of all rows."""
        return [sum(values) for values in zip(*self.rows.values(), strict=True)]


class _Series:
    """A ring of values.

    Attributes:
        counted: Last value of the counter.
        moved: Step of its last change.
    """

    __slots__ = ("counted", "moved", "values")

    def __init__(self, steps: int, moved: int) -> None:
        self.values = array("f", bytes(4 * steps))
        self.counted = 0.0
        self.moved = moved


class History:
    """Series of equal steps.

    Args:
        step_s: Length of a step, in seconds.
        steps: Number of steps that are kept.
        max_bytes: Limit of all series together.
    """

    def __init__(self, step_s: float, steps: int, max_bytes: int) -> None:
        self.step_s = step_s
        self.steps = steps
        self.max_series = max(1, max_bytes // (4 * steps + _OVERHEAD_BYTES))
        self._series: dict[str, dict[Labels, _Series]] = {}
        self._size = 0
        self._has_dropped = False
        self._full_in = -1  # the last step in which series were dropped
        self._first = 0  # the first step that was noted
        self._last = -1

    def is_due(self, now_s: float) -> bool:
        """Return whether a step has ended since the last note; `now_s` is in seconds since 1970."""
        return int(now_s // self.step_s) > self._last

    def note(
        self, now_s: float, counters: Mapping[str, Table], gauges: Mapping[str, Table]
    ) -> None:
        """Close the step that ends now. Omitted counters have not changed."""
        step = int(now_s // self.step_s)
        if step <= self._last:
            return  # the clock was set back: noted steps stay
        if self._last < 0:
            self._first = step
        places = self._open(step)
        self._last = step
        for name, table in counters.items():
            self._count_up(name, table, step, places)
        for name, table in gauges.items():
            self._set(name, table, step)

    def read(
        self,
        name: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """Return the series of one name, summed by some of their labels.

        Args:
            name: Name of the metric.
            by: Positions of the labels to keep.
            where: Accepted values of labels, by position.
            span_s: Length of the time span, in seconds; None for all.
        """
        steps = self._steps_of(span_s)
        start = (self._last - steps + 1) * self.step_s
        rows: dict[Labels, list[float]] = {}
        for labels, series in self._chosen(name, where or {}):
            if series.moved <= self._last - steps:
                continue
            group = tuple(labels[position] for position in by)
            values = self._window(series, steps)
            before = rows.get(group)
            if before is None:
                rows[group] = values
            else:
                rows[group] = [value + other for value, other in zip(before, values, strict=True)]
        return Points(start, self.step_s, rows)

    # ---- internals

    def _chosen(
        self, name: str, where: Mapping[int, Collection[str]]
    ) -> Iterator[tuple[Labels, _Series]]:
        for labels, series in self._series.get(name, {}).items():
            if all(labels[position] in wanted for position, wanted in where.items()):
                yield labels, series

    def _steps_of(self, span_s: float | None) -> int:
        if self._last < 0:
            return 0
        noted = min(self.steps, self._last - self._first + 1)
        return noted if span_s is None else max(1, min(noted, round(span_s / self.step_s)))

    def _window(self, series: _Series, steps: int) -> list[float]:
        end = self._last % self.steps + 1
        values = series.values
        if steps <= end:
            return values[end - steps : end].tolist()
        return (values[end - steps :] + values[:end]).tolist()

    def _open(self, step: int) -> list[int]:
        """Clear the steps since the last note; return their positions."""
        missed = min(self.steps, step - self._last) if self._last >= 0 else 1
        places = [(step - back) % self.steps for back in range(missed)]
        for table in self._series.values():
            for series in table.values():
                for position in places:
                    series.values[position] = 0.0
        return places

    def _count_up(self, name: str, table: Table, step: int, places: Collection[int]) -> None:
        for labels, value in table.items():
            series = self._find(name, labels, value, step)
            if series is None or value <= series.counted:
                continue
            # The increase is spread evenly over the missed steps.
            rate = (value - series.counted) / (self.step_s * len(places))
            series.counted, series.moved = value, step
            for position in places:
                series.values[position] = rate

    def _set(self, name: str, table: Table, step: int) -> None:
        for labels, value in table.items():
            series = self._find(name, labels, value, step)
            if series is not None and value:
                series.moved = step
                series.values[step % self.steps] = value

    def _find(self, name: str, labels: Labels, value: float, step: int) -> _Series | None:
        table = self._series.setdefault(name, {})
        series = table.get(labels)
        if series is None and value and self._has_room(step):
            series = table[labels] = _Series(self.steps, step)
            # After a drop, this may be a dropped series, whose counter did not begin at 0.
            series.counted = value if self._has_dropped else 0.0
            self._size += 1
        return series

    def _has_room(self, step: int) -> bool:
        if self._size < self.max_series:
            return True
        if self._full_in != step:
            self._full_in = step
            self._drop_stillest(step)
        return self._size < self.max_series

    def _drop_stillest(self, step: int) -> None:
        """Drop several series at once, because a search for each one would take long."""
        still = sorted(
            (series.moved, name, labels)
            for name, table in self._series.items()
            for labels, series in table.items()
            if series.moved < step
        )
        for _, name, labels in still[: max(1, self.max_series // _DROPPED_PART)]:
            del self._series[name][labels]
            self._size -= 1
            self._has_dropped = True


# ---- metrics for the plots of the console

_MIB = 1_048_576
EVENTS = "headgate_events_total"
BYTES = "headgate_event_bytes_sum"  # as Prometheus names the sum of a histogram
SAVED = "headgate_suppressed_bytes_total"
RECORDS_WRITTEN = "headgate_partition_records_total"
BYTES_WRITTEN = "headgate_partition_bytes_total"
REQUESTS = "headgate_request_seconds_bucket"  # by route, first digit of the status, and bucket
LIMITED = "headgate_producer_limited_total"
RESTARTS = "headgate_worker_restarts_total"
FAILED = "headgate_replays_failed_total"
KEY_FETCHES = "headgate_issuer_keys_fetches_total"

_OF_PAIRS = (EVENTS, SAVED)
_OF_PARTITIONS = (RECORDS_WRITTEN, BYTES_WRITTEN)
_OF_STATUS = (
    RESTARTS,
    FAILED,
    KEY_FETCHES,
    "headgate_unknown_outcome_total",
    "headgate_suppression_bypassed_total",
    "headgate_identity_bypassed_total",
    "headgate_coalescer_restarts_total",
    "headgate_producer_rebuilds_total",
)
_GAUGES = (
    "headgate_held_keys",
    "headgate_held_lag",
    "headgate_spool_events",
    "headgate_spool_bytes",
    "headgate_in_flight_events",
)


class Recorder:
    """The figures that the parent keeps for the console's plots.

    Four histories, 23 MiB at most together.

    Attributes:
        whole: The whole instance, in steps of 10 s. Producer and topic are empty labels here.
        pairs: Producers and topics, in steps of a minute.
        partitions: Partitions, in steps of a minute.
        recent: Counters that the status needs, in steps of 10 s.
    """

    def __init__(self) -> None:
        self.whole = History(10, 1080, 2 * _MIB)  # 3 h
        self.pairs = History(60, 360, 12 * _MIB)  # 6 h
        self.partitions = History(60, 180, 8 * _MIB)  # 3 h, of some 3,000 partitions
        self.recent = History(10, 360, _MIB)  # 1 h

    def note(self, now_s: float, fleet: Fleet) -> None:
        """Note the metrics that are due; `now_s` is in seconds since 1970."""
        if self.whole.is_due(now_s):
            tables = {name: _without_pairs(table) for name, table in _pairs(fleet).items()}
            gauges = {name: _sum(fleet.gauge(name).values()) for name in _GAUGES}
            self.whole.note(now_s, tables, gauges)
        if self.pairs.is_due(now_s):
            held = {name: fleet.gauge(name) for name in _GAUGES[:2]}
            self.pairs.note(now_s, _pairs(fleet), held)
        if self.partitions.is_due(now_s):
            written = {name: fleet.counter(name) for name in _OF_PARTITIONS}
            self.partitions.note(now_s, written, {})
        if self.recent.is_due(now_s):
            counted = {name: fleet.counter(name) for name in _OF_STATUS}
            limited = _sum(fleet.counter(LIMITED).values())
            self.recent.note(now_s, {**counted, LIMITED: limited, REQUESTS: _requests(fleet)}, {})


def _requests(fleet: Fleet) -> Table:
    """Return the number of requests by route, first digit of the status, and bucket."""
    added: dict[Labels, float] = {}
    for figures in fleet.parts():
        for (route, status), buckets in figures.histograms.get(
            "headgate_request_seconds", {}
        ).items():
            for index, count in enumerate(buckets.counts):
                labels = (route, status[:1], str(index))
                added[labels] = added.get(labels, 0) + count
    return added


def _pairs(fleet: Fleet) -> dict[str, Table]:
    volumes: Table = {
        (pair.producer, pair.topic): volume.bytes for pair, volume in fleet.volumes().items()
    }
    return {**{name: fleet.counter(name) for name in _OF_PAIRS}, BYTES: volumes}


def _without_pairs(table: Mapping[Labels, float]) -> Table:
    added: dict[Labels, float] = {}
    for labels, value in table.items():
        rest = ("", "", *labels[2:])
        added[rest] = added.get(rest, 0) + value
    return added


def _sum(values: Iterable[float]) -> Table:
    return {(): sum(values)}
