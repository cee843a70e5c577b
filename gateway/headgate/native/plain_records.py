"""Kafka's record batches by aiokafka and Python: what `_records.c` is, where it is not compiled.

aiokafka is imported with the first batch: a parent imports what is chosen here, and makes none.
"""

import struct
from typing import Any

HEADER_BYTES = 61  # of a batch; DefaultRecordBatch.RECORD_BATCH_OVERHEAD in Kafka
_MAGIC = 2
_NO_TIMESTAMP = -1
# Places in the batch's header. The length counts from what is behind it, the checksum from the
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
    """The compiled one takes -1 for a timestamp that was not given, and the next one's instead."""
    from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

    # It takes one byte more.
    return _DefaultRecordBatchBuilderPy(_MAGIC, 0, False, 0, 0, 0, max_bytes - 1)


def with_body(batch: bytearray, codec: int, body: bytes) -> bytearray:
    """The header of a batch, and its compressed records."""
    whole = batch[:HEADER_BYTES] + body
    _LENGTH.pack_into(whole, _LENGTH_AT, len(whole) - _AFTER_LENGTH)
    _ATTRIBUTES.pack_into(whole, _ATTRIBUTES_AT, codec)
    return whole


def seal(batch: bytearray, producer_id: int, epoch: int, base_sequence: int) -> None:
    """Write what is known last: who produces it, and the checksum over all that follows it."""
    from aiokafka.record.util import calc_crc32c

    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_AT, calc_crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
