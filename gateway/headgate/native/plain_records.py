"""Kafka's record batches by aiokafka: the Python twin of `_records.c`.

aiokafka is imported with the first batch: the parent process imports this module and builds none.
"""

import struct
from typing import Any

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
_LENGTH_AT, _LENGTH = 8, struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_PRODUCER_AT, _PRODUCER = 43, struct.Struct(">qhi")  # id, epoch, base sequence


class Records:
    """A record batch under construction.  max_bytes: of the batch, with its header."""

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
    _LENGTH.pack_into(joined, _LENGTH_AT, len(joined) - _AFTER_LENGTH)
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
