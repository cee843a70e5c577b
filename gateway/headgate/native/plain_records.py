"""Kafka's record batches by aiokafka: the Python twin of `_records.c`.

aiokafka is imported with the first batch: the parent process imports this module and builds none.
"""

import struct
from typing import Any

HEADER_BYTES = 61  # of a batch; DefaultRecordBatch.RECORD_BATCH_OVERHEAD in Kafka
_MAGIC = 2
_NO_TIMESTAMP = -1
# Offsets in the batch's header. The length counts the bytes after it; the checksum begins with the
# attributes, whose lowest bits are the codec.
_AFTER_LENGTH, _CRC_AT, _ATTRIBUTES_AT = 12, 17, 21
_LENGTH_AT, _LENGTH = 8, struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_PRODUCER_AT, _PRODUCER = 43, struct.Struct(">qhi")  # id, epoch, base sequence


class Records:
    """A record batch under construction.  max_bytes: of the batch, with its header."""

    __slots__ = ("_encoder", "_max_bytes", "count")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._encoder: Any = _encoder(max_bytes)
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
            self._encoder = _encoder_in_python(self._max_bytes)
        added = self._encoder.append(self.count, timestamp_ms, key, value, headers)
        if added is None:
            return False
        self.count += 1
        return True

    def take(self) -> bytearray:
        batch: bytearray = self._encoder.build()
        return batch


def _encoder(max_bytes: int) -> Any:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    return DefaultRecordBatchBuilder(_MAGIC, 0, 0, 0, 0, 0, max_bytes)


def _encoder_in_python(max_bytes: int) -> Any:
    """Return aiokafka's encoder in Python.

    The compiled encoder takes -1 for a missing timestamp, and uses the next record's instead.
    """
    from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

    # Its limit is one byte higher.
    return _DefaultRecordBatchBuilderPy(_MAGIC, 0, False, 0, 0, 0, max_bytes - 1)


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
