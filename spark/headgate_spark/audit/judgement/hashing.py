"""Partition rules over columns of keys: Kafka's murmur2 and librdkafka's CRC32.

The scalar rule is `headgate.core.keys`; this is the same arithmetic on whole columns (about
4 million keys a second on one core), since a topic may have tens of millions of keys.
"""

import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.int64(0x7FFFFFFF)


def hashes(data: Bytes, starts: Int64s, lengths: Int64s) -> Int32s:
    """murmur2 of each key, signed. Key i is data[starts[i] : starts[i] + lengths[i]].

    Source: org.apache.kafka.common.utils.Utils.murmur2.
    """
    found = np.empty(len(starts), dtype=np.int32)
    # Keys of one length make a matrix, and its columns of 4 bytes are hashed for all of them.
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        matrix = data[starts[rows, None] + np.arange(length)]
        found[rows] = _hash_matrix(matrix).view(np.int32)
    return found


def _hash_matrix(keys: Bytes) -> NDArray[np.uint32]:
    count, length = keys.shape
    whole = length // 4 * 4
    words = np.ascontiguousarray(keys[:, :whole]).view("<u4").reshape(count, whole // 4)
    h = np.full(count, _SEED ^ np.uint32(length), dtype=np.uint32)
    for column in words.T:
        k = column * _MULTIPLIER
        k ^= k >> np.uint32(24)
        h = (h * _MULTIPLIER) ^ (k * _MULTIPLIER)
    if length > whole:
        rest = np.zeros((count, 4), dtype=np.uint8)
        rest[:, : length - whole] = keys[:, whole:]
        h = (h ^ rest.view("<u4").reshape(count)) * _MULTIPLIER
    h = (h ^ (h >> np.uint32(13))) * _MULTIPLIER
    return h ^ (h >> np.uint32(15))


def hashes_of(keys: Sequence[bytes]) -> Int32s:
    """murmur2 of each key of a list."""
    lengths = np.array([len(key) for key in keys], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    return hashes(data, starts[: len(keys)], lengths)


def partitions_for(hashed: Int32s, partitions: int) -> Int64s:
    """Kafka's default partition of each hash (`headgate.core.keys.partition_for`)."""
    return (hashed.astype(np.int64) & _POSITIVE) % partitions


def crc32_partitions(keys: Sequence[bytes], partitions: int) -> Int64s:
    """The partitions of librdkafka's default partitioner, `consistent_random`: CRC32 of the key.

    Source: rd_kafka_msg_partitioner_consistent in librdkafka's rdkafka_msg.c.
    """
    return np.array([zlib.crc32(key) % partitions for key in keys], dtype=np.int64)
