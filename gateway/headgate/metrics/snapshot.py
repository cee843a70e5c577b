"""A worker's metrics as plain data: serialised, merged and read by the parent.

Pure: no clock, no process. `merge` is associative and commutative up to the sketches' error, so the
parent may fold workers in any order and keep one snapshot for all ended workers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from headgate.metrics import sketches
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.sketches import EMPTY, Sketched

STRANGERS_KEPT = 100  # names chosen by clients, each of at most a hundred characters
REJECTS_KEPT = 20  # per producer and topic: enough for a diagnosis
WINDOW_S = 3600  # an hourly job is always inside the current or the previous window

Labels = tuple[str, ...]


class Pair(NamedTuple):
    """A producer and a topic, by their labels."""

    producer: str
    topic: str


class Exemplar(NamedTuple):
    """One value of a bucket, from a traced request, with its time in seconds since 1970."""

    trace_id: str
    value: float
    at: float


class Buckets(msgspec.Struct, omit_defaults=True):
    """A histogram: counts per bucket (the last one is +Inf, not cumulative) and the sum of values.

    Args:
        exemplars: The newest exemplar of each bucket.
    """

    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = {}


class Reject(msgspec.Struct, frozen=True, order=True):
    """An event that was not written. Its time is in seconds since 1970; the key may be missing."""

    at: float
    outcome: str
    reason: str
    detail: str
    size: int
    key: str | None
    request_id: str = ""


class ProducerHour(msgspec.Struct):
    """The events of one producer on one topic in one hour.

    Args:
        ends: Events by (outcome, reason or "").
        bytes: Bytes of their values.
        sketched: Sketches of their keys and sizes.
        oversize: Events published by a strategy of the oversize policy, by strategy.
        coalesced: Outcomes of held events; in `ends` these events are `held`.
    """

    ends: dict[tuple[str, str], int]
    bytes: int
    sketched: Sketched
    oversize: dict[str, int] = {}
    coalesced: dict[str, int] = {}


class Detail(msgspec.Struct):
    """The details of one pair, with at most two windows by hour (seconds since 1970 / WINDOW_S)."""

    last_seen: float
    rejects: list[Reject]
    windows: dict[int, ProducerHour]


class Stranger(msgspec.Struct, frozen=True):
    """An unconfigured producer. Its events are an upper bound if names had to be dropped."""

    events: int
    last_seen: float


class Snapshot(msgspec.Struct):
    """Metrics by name and label values, in the order of the metric's labels.

    Args:
        strangers: Producers without a label of their own, by name; at most `STRANGERS_KEPT`.
    """

    counters: dict[str, dict[Labels, float]] = {}
    gauges: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, Buckets]] = {}
    details: dict[Pair, Detail] = {}
    strangers: dict[str, Stranger] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    """Return the snapshot as MessagePack."""
    return _ENCODER.encode(snapshot)


def decode(data: bytes) -> Snapshot:
    """Return the snapshot that `encode` wrote.

    Raises:
        msgspec.DecodeError: The data is anything else.
    """
    return _DECODER.decode(data)


def merge(one: Snapshot, other: Snapshot) -> Snapshot:
    """Return both snapshots merged, without changing them. The metric's kind decides for gauges."""
    return Snapshot(
        counters=_merge_tables(one.counters, other.counters),
        gauges=_merge_tables(one.gauges, other.gauges),
        histograms=_merge_histograms(one.histograms, other.histograms),
        details=_merge_details(one.details, other.details),
        strangers=_merge_strangers(one.strangers, other.strangers),
    )


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """Return the counters of an ended worker, without its gauges."""
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
    """Merge values of one metric into others, by the rule of its kind."""
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
    counts = [own + added for own, added in zip(one.counts, other.counts, strict=True)]
    exemplars = dict(one.exemplars)
    for bucket, exemplar in other.exemplars.items():
        before = exemplars.get(bucket)
        if before is None or before.at < exemplar.at:
            exemplars[bucket] = exemplar
    return Buckets(counts, one.sum + other.sum, exemplars)


def _merge_strangers(one: dict[str, Stranger], other: dict[str, Stranger]) -> dict[str, Stranger]:
    """Return the producers with the most events of both."""
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
    """Return both windows merged, also of two producers or topics."""
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
    """Merge the windows of this hour and the previous one; `now` is in seconds since 1970."""
    this_hour = int(now // WINDOW_S)
    merged = ProducerHour({}, 0, EMPTY)
    for hour, window in detail.windows.items():
        if hour >= this_hour - 1:
            merged = merge_windows(merged, window)
    return merged
