"""What a worker has counted, as plain data: serialised, merged and read by the parent.

Pure: no clock, no process. `merge` is associative and commutative up to the sketches' error, so
the parent may fold workers in any order and keep one snapshot for all workers that have died.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from headgate.metrics import sketches
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.sketches import EMPTY, Sketched

STRANGERS_KEPT = 100  # names that clients choose, of a hundred characters at most
REJECTS_KEPT = 20  # per producer and topic: enough to see what is wrong, bounded
WINDOW_S = 3600  # an hourly job is always inside the current or the previous window

Labels = tuple[str, ...]


class Pair(NamedTuple):
    """A producer and a topic, as they are labelled."""

    producer: str
    topic: str


class Exemplar(NamedTuple):
    """One value of a bucket, of a request that is traced: which one, and when (s since 1970)."""

    trace_id: str
    value: float
    at: float


class Buckets(msgspec.Struct, omit_defaults=True):
    """A histogram: counts per bucket (the last one is +Inf, not cumulative) and the values' sum.

    exemplars: by bucket, the newest.
    """

    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = {}


class Reject(msgspec.Struct, frozen=True, order=True):
    """An event that was not written: when (s since 1970), why, how big, which key (None: none),
    and in which request."""

    at: float
    outcome: str
    reason: str
    detail: str
    size: int
    key: str | None
    request_id: str = ""


class ProducerHour(msgspec.Struct):
    """What one producer sent to one topic in one hour. ends: events by (outcome, reason or "").

    oversize: events that a strategy of the oversize policy published, by strategy.
    coalesced: what became of events that were held, by outcome; in `ends` they are `held`.
    """

    ends: dict[tuple[str, str], int]
    bytes: int
    sketched: Sketched
    oversize: dict[str, int] = {}
    coalesced: dict[str, int] = {}


class Detail(msgspec.Struct):
    """One pair beyond its counters. windows: by hour (s since 1970 // WINDOW_S), two at most."""

    last_seen: float
    rejects: list[Reject]
    windows: dict[int, ProducerHour]


class Stranger(msgspec.Struct, frozen=True):
    """A producer that is not configured: events, an upper bound once others had to make room."""

    events: int
    last_seen: float


class Snapshot(msgspec.Struct):
    """Figures by metric name and label values, in the order of the metric's labels.

    strangers: producers without a label of their own, by name; `STRANGERS_KEPT` at most.
    """

    counters: dict[str, dict[Labels, float]] = {}
    gauges: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, Buckets]] = {}
    details: dict[Pair, Detail] = {}
    strangers: dict[str, Stranger] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as MessagePack."""
    return _ENCODER.encode(snapshot)


def decode(data: bytes) -> Snapshot:
    """The snapshot that `encode` wrote. Raises msgspec.DecodeError on anything else."""
    return _DECODER.decode(data)


def merge(one: Snapshot, other: Snapshot) -> Snapshot:
    """Both together; neither argument is changed. Gauges merge as the metric's kind says."""
    return Snapshot(
        counters=_merge_tables(one.counters, other.counters),
        gauges=_merge_tables(one.gauges, other.gauges),
        histograms=_merge_histograms(one.histograms, other.histograms),
        details=_merge_details(one.details, other.details),
        strangers=_merge_strangers(one.strangers, other.strangers),
    )


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """What stays of a worker that has died: what it counted, not what it held."""
    return Snapshot(
        snapshot.counters, {}, snapshot.histograms, snapshot.details, snapshot.strangers
    )


def _merge_tables(
    one: dict[str, dict[Labels, float]], other: dict[str, dict[Labels, float]]
) -> dict[str, dict[Labels, float]]:
    merged = {name: dict(values) for name, values in one.items()}
    for name, values in other.items():
        add_table(name, merged.setdefault(name, {}), values)
    return merged


def add_table(name: str, into: dict[Labels, float], values: Mapping[Labels, float]) -> None:
    """Merge the figures of one metric into others of it, as its kind says."""
    largest = METRICS[name].kind is MetricKind.MAX
    for labels, value in values.items():
        before = into.get(labels)
        if before is None:
            into[labels] = value
        else:
            into[labels] = max(before, value) if largest else before + value


def _merge_histograms(
    one: dict[str, dict[Labels, Buckets]], other: dict[str, dict[Labels, Buckets]]
) -> dict[str, dict[Labels, Buckets]]:
    merged = {name: dict(values) for name, values in one.items()}
    for name, values in other.items():
        into = merged.setdefault(name, {})
        for labels, buckets in values.items():
            before = into.get(labels)
            into[labels] = buckets if before is None else _add_buckets(before, buckets)
    return merged


def _add_buckets(one: Buckets, other: Buckets) -> Buckets:
    counts = [left + right for left, right in zip(one.counts, other.counts, strict=True)]
    exemplars = dict(one.exemplars)
    for bucket, exemplar in other.exemplars.items():
        before = exemplars.get(bucket)
        if before is None or before.at < exemplar.at:
            exemplars[bucket] = exemplar
    return Buckets(counts, one.sum + other.sum, exemplars)


def _merge_strangers(one: dict[str, Stranger], other: dict[str, Stranger]) -> dict[str, Stranger]:
    """Those with the most events."""
    merged = dict(one)
    for name, stranger in other.items():
        before = merged.get(name, Stranger(0, 0.0))
        seen = max(before.last_seen, stranger.last_seen)
        merged[name] = Stranger(before.events + stranger.events, seen)
    most = sorted(merged.items(), key=lambda row: -row[1].events)
    return dict(most[:STRANGERS_KEPT])


def _merge_details(one: dict[Pair, Detail], other: dict[Pair, Detail]) -> dict[Pair, Detail]:
    merged = dict(one)
    for pair, detail in other.items():
        before = merged.get(pair)
        merged[pair] = detail if before is None else _merge_detail(before, detail)
    return merged


def _merge_detail(one: Detail, other: Detail) -> Detail:
    rejects = sorted([*one.rejects, *other.rejects], key=lambda reject: reject.at)
    windows = dict(one.windows)
    for hour, window in other.windows.items():
        before = windows.get(hour)
        windows[hour] = window if before is None else merge_windows(before, window)
    newest = max(windows, default=0)
    return Detail(
        last_seen=max(one.last_seen, other.last_seen),
        rejects=rejects[-REJECTS_KEPT:],
        windows={hour: window for hour, window in windows.items() if hour >= newest - 1},
    )


def merge_windows(one: ProducerHour, other: ProducerHour) -> ProducerHour:
    """Both together, also of two producers or topics."""
    ends, oversize, coalesced = dict(one.ends), dict(one.oversize), dict(one.coalesced)
    for end, count in other.ends.items():
        ends[end] = ends.get(end, 0) + count
    for strategy, count in other.oversize.items():
        oversize[strategy] = oversize.get(strategy, 0) + count
    for outcome, count in other.coalesced.items():
        coalesced[outcome] = coalesced.get(outcome, 0) + count
    sketched = sketches.merge(one.sketched, other.sketched)
    return ProducerHour(ends, one.bytes + other.bytes, sketched, oversize, coalesced)


def recent(detail: Detail, now: float) -> ProducerHour:
    """The detail's windows of this hour and the one before as one; now in s since 1970."""
    this_hour = int(now // WINDOW_S)
    merged = ProducerHour({}, 0, EMPTY)
    for hour, window in detail.windows.items():
        if hour >= this_hour - 1:
            merged = merge_windows(merged, window)
    return merged
