"""Predictions for the same keys with another partition count, pins or salts."""

import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate_spark.audit.figures import KeyFigures, Prediction, TopicFigures
from headgate_spark.audit.measures import Load, effective_partitions, max_over_mean

# ---- partition rules over columns of keys: Kafka's murmur2 and librdkafka's CRC32
#
# The scalar rule is `headgate.model.keys`; this is the same arithmetic on whole columns (about
# 4 million keys a second on one core), since a topic may have tens of millions of keys.


Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.int64(0x7FFFFFFF)


def hashes(data: Bytes, starts: Int64s, lengths: Int64s) -> Int32s:
    """Return the signed murmur2 of each key. Key i is data[starts[i] : starts[i] + lengths[i]].

    Source: org.apache.kafka.common.utils.Utils.murmur2.
    """
    hashed = np.empty(len(starts), dtype=np.int32)
    # Keys of one length make a matrix, and its columns of 4 bytes are hashed for all of them.
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        matrix = data[starts[rows, None] + np.arange(length)]
        hashed[rows] = _hash_matrix(matrix).view(np.int32)
    return hashed


def _hash_matrix(keys: Bytes) -> NDArray[np.uint32]:
    count, length = keys.shape
    word_bytes = length // 4 * 4
    words = np.ascontiguousarray(keys[:, :word_bytes]).view("<u4").reshape(count, word_bytes // 4)
    h = np.full(count, _SEED ^ np.uint32(length), dtype=np.uint32)
    for column in words.T:
        k = column * _MULTIPLIER
        k ^= k >> np.uint32(24)
        h = (h * _MULTIPLIER) ^ (k * _MULTIPLIER)
    if length > word_bytes:
        rest = np.zeros((count, 4), dtype=np.uint8)
        rest[:, : length - word_bytes] = keys[:, word_bytes:]
        h = (h ^ rest.view("<u4").reshape(count)) * _MULTIPLIER
    h = (h ^ (h >> np.uint32(13))) * _MULTIPLIER
    return h ^ (h >> np.uint32(15))


def hashes_of(keys: Sequence[bytes]) -> Int32s:
    """Return the murmur2 of each key of a list."""
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    return hashes(data, starts[: len(keys)], lengths)


def partitions_for(hashed: Int32s, partitions: int) -> Int64s:
    """Return Kafka's default partition of each hash (`headgate.model.keys.partition_for`)."""
    return (hashed.astype(np.int64) & _POSITIVE) % partitions


def crc32_partitions(keys: Sequence[bytes], partitions: int) -> Int64s:
    """Return the partitions of librdkafka's default partitioner, `consistent_random`.

    It is the CRC32 of the key. Source: rd_kafka_msg_partitioner_consistent in librdkafka's
    rdkafka_msg.c.
    """
    return np.array([zlib.crc32(key) % partitions for key in keys], dtype=np.int64)


# ---- predicted loads


# The usual partition counts of topics, and powers of two.
_USUAL = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128)
_MULTIPLES = (0.25, 0.5, 0.75, 1.5, 2, 3, 4, 8)
_MAX_COUNT = 1000
# Bars of a chart: more cannot be distinguished, and all counts together stay below 20 kB of JSON.
MAX_BARS = 96


class WhatIf(NamedTuple):
    """One predicted partition count. `moved_share` is a share of the distinct keys."""

    partitions: int
    max_over_mean_records: float
    max_over_mean_bytes: float
    effective_partitions: float
    moved_share: float


class Shape(NamedTuple):
    """The shape of a load: each partition's load over the mean.

    `of` is `partitions`, by number, or `quantiles` if there are too many: MAX_BARS of them,
    lightest first; the last one is the fullest.
    """

    of: str
    records: list[float]
    bytes: list[float]


class Fix(NamedTuple):
    """The balance after a change: max/mean of records and of bytes."""

    max_over_mean_records: float
    max_over_mean_bytes: float


def candidates(partitions: int, more: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the counts to try: near the present one, its multiples, the usual ones, and `more`."""
    near = range(partitions - 1, partitions + 4)
    multiples = (int(partitions * factor) for factor in _MULTIPLES)
    wanted = {*near, *multiples, *_USUAL, *more, partitions}
    return tuple(sorted(count for count in wanted if 1 <= count <= max(_MAX_COUNT, partitions)))


def with_keyless(prediction: Prediction, records: int, sizes: int) -> Prediction:
    """Add the records without a key, which may go anywhere, evenly to all partitions."""
    n = prediction.partitions
    return prediction._replace(
        records=prediction.records + records / n, bytes=prediction.bytes + sizes / n
    )


def what_if(figures: TopicFigures) -> list[WhatIf]:
    """Return the predictions in their published form."""
    keys = max(1, figures.distinct_keys)
    return [
        WhatIf(
            prediction.partitions,
            max_over_mean(prediction.records),
            max_over_mean(prediction.bytes),
            effective_partitions(prediction.records),
            prediction.moved_keys / keys,
        )
        for prediction in figures.predictions
    ]


def shape(prediction: Prediction) -> Shape:
    """Return the prediction in its form for charts."""
    of = "partitions" if prediction.partitions <= MAX_BARS else "quantiles"
    return Shape(of, _bars(prediction.records), _bars(prediction.bytes))


def _bars(load: Load) -> list[float]:
    mean = load.mean()
    over = load / mean if mean > 0 else load
    if load.size > MAX_BARS:
        over = np.sort(over)[np.linspace(0, load.size - 1, MAX_BARS).round().astype(int)]
    return [round(float(ratio), 2) for ratio in over]


def without(prediction: Prediction, keys: Sequence[KeyFigures]) -> Prediction:
    """Return the prediction without these keys."""
    records, sizes = prediction.records.copy(), prediction.bytes.copy()
    for key, partition in zip(keys, partitions_of(keys, prediction.partitions), strict=True):
        records[partition] -= key.records
        sizes[partition] -= key.bytes
    return prediction._replace(records=records, bytes=sizes)


def partitions_of(keys: Sequence[KeyFigures], partitions: int) -> Int64s:
    """Return the partitions of these keys by Kafka's rule."""
    return partitions_for(hashes_of([key.key for key in keys]), partitions)


def pinned(prediction: Prediction, keys: Sequence[KeyFigures], *, by_bytes: bool) -> Fix:
    """Place each key, heaviest first, on the partition with the least load; order is kept."""
    rest = without(prediction, keys)
    load = rest.bytes if by_bytes else rest.records
    for key in sorted(
        keys, key=lambda candidate: weight(candidate, by_bytes=by_bytes), reverse=True
    ):
        partition = int(load.argmin())  # of the load that counts
        rest.records[partition] += key.records
        rest.bytes[partition] += key.bytes
    return Fix(max_over_mean(rest.records), max_over_mean(rest.bytes))


def salted(prediction: Prediction, keys: Sequence[KeyFigures], salts: Sequence[int]) -> Fix:
    """Spread each key over `salts[i]` equal keys, `<key>#0` ...; per-key order is lost."""
    rest = without(prediction, keys)
    for key, count in zip(keys, salts, strict=True):
        names = [key.key + b"#%d" % number for number in range(count)]
        for partition in partitions_for(hashes_of(names), prediction.partitions):
            rest.records[partition] += key.records / count
            rest.bytes[partition] += key.bytes / count
    return Fix(max_over_mean(rest.records), max_over_mean(rest.bytes))


def lessened(
    prediction: Prediction, key: KeyFigures, records: float, sizes: float
) -> tuple[Load, Load]:
    """Return the loads if only so many records and bytes of this key remain."""
    rest = without(prediction, [key])
    partition = partitions_of([key], prediction.partitions)[0]
    rest.records[partition] += records
    rest.bytes[partition] += sizes
    return rest.records, rest.bytes


def weight(key: KeyFigures, *, by_bytes: bool) -> int:
    """Return the weight of the key in the dimension that matters."""
    return key.bytes if by_bytes else key.records
