"""A worker's metrics as plain data: serialised, merged and read by the parent.

Pure: no clock, no process. `merge` is associative and commutative up to the sketches' error, so the
parent may fold workers in any order and keep one snapshot for all ended workers.
"""

from collections.abc import Callable, Mapping
from operator import add
from typing import NamedTuple, TypeVar

import msgspec

from headgate.metrics import sketches
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.sketches import EMPTY, Sketched

MAX_UNCONFIGURED = 100  # names chosen by clients, each of at most a hundred characters
REJECTS_KEPT = 20  # per producer and topic: enough for a diagnosis
WINDOW_S = 3600  # an hourly job is always inside the current or the previous window

Labels = tuple[str, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


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

    Attributes:
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

    Attributes:
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


class Unconfigured(msgspec.Struct, frozen=True):
    """An unconfigured producer. Its events are an upper bound if names had to be dropped."""

    events: int
    last_seen: float


class Snapshot(msgspec.Struct):
    """Metrics by name and label values, in the order of the metric's labels.

    Attributes:
        unconfigured: Producers without a label of their own, by name; at most `MAX_UNCONFIGURED`.
        tokens: Last use of configured tokens, in seconds since 1970, by the token's hash.
    """

    counters: dict[str, dict[Labels, float]] = {}
    gauges: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, dict[Labels, Buckets]] = {}
    details: dict[Pair, Detail] = {}
    unconfigured: dict[str, Unconfigured] = {}
    tokens: dict[str, float] = {}


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


def merge(first: Snapshot, second: Snapshot) -> Snapshot:
    """Return both snapshots merged, without changing them. The metric's kind decides for gauges."""
    return Snapshot(
        counters=_merge_tables(first.counters, second.counters),
        gauges=_merge_tables(first.gauges, second.gauges),
        histograms=_joined(first.histograms, second.histograms, _merge_rows),
        details=_joined(first.details, second.details, _merge_detail),
        unconfigured=_merge_unconfigured(first.unconfigured, second.unconfigured),
        tokens=_joined(first.tokens, second.tokens, max),
    )


def _merge_tables(
    first: dict[str, dict[Labels, float]], second: dict[str, dict[Labels, float]]
) -> dict[str, dict[Labels, float]]:
    merged = {name: dict(values) for name, values in first.items()}
    for name, values in second.items():
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


def _joined(
    first: Mapping[Key, Value], second: Mapping[Key, Value], join: Callable[[Value, Value], Value]
) -> dict[Key, Value]:
    """Return both tables as one; `join` makes one value of two."""
    joined = dict(first)
    for key, value in second.items():
        before = joined.get(key)
        joined[key] = value if before is None else join(before, value)
    return joined


def _merge_rows(
    first: dict[Labels, Buckets], second: dict[Labels, Buckets]
) -> dict[Labels, Buckets]:
    return _joined(first, second, _add_buckets)


def _add_buckets(first: Buckets, second: Buckets) -> Buckets:
    counts = [own + added for own, added in zip(first.counts, second.counts, strict=True)]
    exemplars = _joined(first.exemplars, second.exemplars, _newer)
    return Buckets(counts, first.sum + second.sum, exemplars)


def _newer(first: Exemplar, second: Exemplar) -> Exemplar:
    return second if first.at < second.at else first


def _merge_unconfigured(
    first: dict[str, Unconfigured], second: dict[str, Unconfigured]
) -> dict[str, Unconfigured]:
    """Return the producers with the most events of both."""
    ranked = sorted(
        _joined(first, second, _add_unconfigured).items(), key=lambda row: -row[1].events
    )
    return dict(ranked[:MAX_UNCONFIGURED])


def _add_unconfigured(first: Unconfigured, second: Unconfigured) -> Unconfigured:
    return Unconfigured(first.events + second.events, max(first.last_seen, second.last_seen))


def _merge_detail(first: Detail, second: Detail) -> Detail:
    rejects = sorted([*first.rejects, *second.rejects], key=lambda reject: reject.at)
    windows = _joined(first.windows, second.windows, merge_windows)
    newest = max(windows, default=0)
    return Detail(
        last_seen=max(first.last_seen, second.last_seen),
        rejects=rejects[-REJECTS_KEPT:],
        windows={hour: window for hour, window in windows.items() if hour >= newest - 1},
    )


def merge_windows(first: ProducerHour, second: ProducerHour) -> ProducerHour:
    """Return both windows merged, also of two producers or topics."""
    return ProducerHour(
        _joined(first.ends, second.ends, add),
        first.bytes + second.bytes,
        sketches.merge(first.sketched, second.sketched),
        _joined(first.oversize, second.oversize, add),
        _joined(first.coalesced, second.coalesced, add),
    )


def recent(detail: Detail, now_s: float) -> ProducerHour:
    """Merge the windows of this hour and the previous one; `now_s` is in seconds since 1970."""
    this_hour = int(now_s // WINDOW_S)
    merged = ProducerHour({}, 0, EMPTY)
    for hour, window in detail.windows.items():
        if hour >= this_hour - 1:
            merged = merge_windows(merged, window)
    return merged
