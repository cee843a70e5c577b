"""The Python twins of C functions: framing, hashes, depth, digests, Redis commands, batches.

`plain_answers` is apart, because a compiled build uses it, too.
"""

import re
import struct
from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final

# ---- the framing of HTTP requests in received bytes, and the values that each request has alone


# `http.header_max_bytes` is at least 1024, far more than any value here. If a value has another
# shape, the second group is missing: the head would look like one without its value.
_OWN_VALUES: Final = re.compile(
    rb"\r\n((?i:content-length|x-request-id|traceparent|idempotency-key"
    rb"|headgate-(?:key|event-id|timestamp))):(?: ?([!-~]{1,128})(?=\r\n))?"
)
_LENGTH: Final = b"content-length"
_LENGTH_DIGITS: Final = 9
_END: Final = b"\r\n\r\n"
_HEAD_MAX_BYTES: Final = 4096


def framed(data: bytes, /) -> tuple[bytes, dict[bytes, bytes], int, int] | None:
    """Frame the request at the beginning of the data.

    Returns:
        The head without the request's own values; these values by name in lower case, without the
        length; and the beginning and the end of the body. None if the head is incomplete or long,
        has no length, or has one of the values twice or not as a plain word.
    """
    stop = data.find(_END, 0, _HEAD_MAX_BYTES)
    if stop < 0:
        return None
    parts: list[bytes] = []
    own: dict[bytes, bytes] = {}
    length, at = b"", 0
    for match in _OWN_VALUES.finditer(data, 0, stop + 2):
        name, value = match[1].lower(), match[2]
        if value is None:
            return None
        begin = match.start(2)
        parts.append(data[at:begin])
        at = begin + len(value)
        if name == _LENGTH and not length:
            length = value
        elif name in own or name == _LENGTH:
            return None
        else:
            own[name] = value
    if not length.isdigit() or len(length) > _LENGTH_DIGITS:
        return None
    parts.append(data[at:stop])
    start = stop + len(_END)
    return b"".join(parts), own, start, start + int(length)


# ---- Kafka's hash of keys


_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_PIECE_BYTES: Final = 4096  # words of one piece are in memory as integers together


def murmur2(key: bytes, /) -> int:
    """Return Kafka's murmur2 as a signed 32-bit integer.

    Source: org.apache.kafka.common.utils.Utils.murmur2; murmur2(b"foobar") == -790332482.
    """
    length = len(key)
    aligned = length & ~3
    h = _SEED ^ (length & _MASK)
    for at in range(0, aligned, _PIECE_BYTES):
        words = min(_PIECE_BYTES, aligned - at) >> 2
        for k in struct.unpack_from(f"<{words}I", key, at):
            k = (k * _MULTIPLIER) & _MASK
            k ^= k >> 24
            h = ((h * _MULTIPLIER) & _MASK) ^ ((k * _MULTIPLIER) & _MASK)
    rest = key[aligned:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


# ---- the depth of JSON


_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # signed: 1 is down, -1 is up


def is_too_deep(document: bytes, limit: int, /) -> bool:
    """Return whether arrays and objects nest deeper than `limit`. Brackets in texts do not count.

    Args:
        document: JSON document.
        limit: Largest depth.
    """
    if document.count(b"[") + document.count(b"{") <= limit:
        return False
    outside = document.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    steps = b"".join(outside).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > limit


# ---- digests of the names and contents that idempotency compares


def digested(person: bytes, parts: list[bytes], tail: bytes, /) -> bytes:
    """Return a BLAKE2b digest of 16 bytes.

    Args:
        person: Kind of digest, up to 16 bytes.
        parts: Parts to digest, each with its length before it. So different lists of parts have
            different digests.
        tail: Bytes to digest after the parts, without their length.
    """
    state = blake2b(digest_size=16, person=person)
    for part in parts:
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    state.update(tail)
    return state.digest()


# ---- commands of Redis as bytes

# The format is RESP (https://redis.io/docs/latest/develop/reference/protocol-spec/). A call of the
# script has hundreds of arguments. hiredis' `pack_command` takes 0.2 us for each, which is 4 % of
# an event in a batch.


# Bytes before an argument, by its length: the end of the argument before it, and the length.
_BEFORE: Final = [b"\r\n$%d\r\n" % length for length in range(1024)]


def packed(name: bytes, arguments: Iterable[bytes | int], /) -> bytes:
    """Return a command as bytes.

    Args:
        name: Name of the command.
        arguments: Its arguments; an int is sent as its digits.
    """
    parts: list[bytes] = []
    length, count = len(name), 1
    parts.append(b"$%d\r\n" % length)
    parts.append(name)
    for argument in arguments:
        text = argument if isinstance(argument, bytes) else b"%d" % argument
        length = len(text)
        parts.append(_BEFORE[length] if length < 1024 else b"\r\n$%d\r\n" % length)
        parts.append(text)
        count += 1
    parts.append(b"\r\n")
    return b"*%d\r\n" % count + b"".join(parts)


# ---- Kafka's record batches, by aiokafka
#
# aiokafka is imported with the first batch: the parent process imports this module and builds none.


HEADER_BYTES = 61  # of a batch; DefaultRecordBatch.RECORD_BATCH_OVERHEAD in Kafka
_MAGIC = 2
# The compiled encoder takes -1, the timestamp of records without one, for a missing timestamp, and
# uses the next record's instead. If the first record has none, all timestamps are encoded later by
# this much, and the batch's own two timestamps, which the others are relative to, are set back.
_NO_TIMESTAMP, _SHIFT_MS = -1, 1
_TIMES_AT, _TIMES = 27, struct.Struct(">qq")  # of the first record, and the newest one
# Offsets in the batch's header. The length counts the bytes after it; the checksum begins with the
# attributes, whose lowest bits are the codec.
_AFTER_LENGTH, _CRC_AT, _ATTRIBUTES_AT = 12, 17, 21
_LENGTH_AT, _BATCH_LENGTH = 8, struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_PRODUCER_AT, _PRODUCER = 43, struct.Struct(">qhi")  # id, epoch, base sequence


class Records:
    """A record batch under construction.

    Args:
        max_bytes: Largest size of the batch, with its header.
    """

    __slots__ = ("_encoder", "_shift_ms", "count")

    def __init__(self, max_bytes: int) -> None:
        self._encoder: Any = _encoder(max_bytes)
        self._shift_ms = 0
        self.count = 0

    @property
    def size(self) -> int:
        return int(self._encoder.size())

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
    ) -> bool:
        if self.count == 0 and timestamp_ms == _NO_TIMESTAMP:
            self._shift_ms = _SHIFT_MS
        at_ms = timestamp_ms + self._shift_ms
        added = self._encoder.append(self.count, at_ms, key, value, headers)
        if added is None:
            return False
        self.count += 1
        return True

    def take(self) -> bytearray:
        batch: bytearray = self._encoder.build()
        if self._shift_ms:
            first_ms, newest_ms = _TIMES.unpack_from(batch, _TIMES_AT)
            shift_ms = self._shift_ms
            _TIMES.pack_into(batch, _TIMES_AT, first_ms - shift_ms, newest_ms - shift_ms)
        return batch


def _encoder(max_bytes: int) -> Any:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    return DefaultRecordBatchBuilder(_MAGIC, 0, 0, 0, 0, 0, max_bytes)


def with_body(batch: bytearray, codec: int, body: bytes) -> bytearray:
    """Return a batch with compressed records.

    Args:
        batch: Batch with the header.
        codec: Number of the codec.
        body: Compressed records.
    """
    joined = batch[:HEADER_BYTES] + body
    _BATCH_LENGTH.pack_into(joined, _LENGTH_AT, len(joined) - _AFTER_LENGTH)
    _ATTRIBUTES.pack_into(joined, _ATTRIBUTES_AT, codec)
    return joined


def seal(batch: bytearray, producer_id: int, epoch: int, base_sequence: int) -> None:
    """Write the last fields of a batch: the producer, and the checksum.

    Args:
        batch: Batch to complete.
        producer_id: Id of the producer.
        epoch: Epoch of the producer.
        base_sequence: Sequence number of the first record.
    """
    from aiokafka.record.util import calc_crc32c

    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_AT, calc_crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
