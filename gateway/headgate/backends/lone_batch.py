"""A batch of one large record, compressed in a thread instead of on the event loop.

aiokafka compresses when it builds a batch, on the loop: 16 MB take 50 ms. Here everything but the
header is made beforehand, so that its size is known exactly before anything is handed over, and
the producer's state (id, epoch, sequence) is all that is written later. The format is Kafka's
record batch, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).
"""

import struct
import sys
from collections.abc import Sequence

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.util import calc_crc32c

from headgate.core.record import Record

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # what Kafka's own producer takes when none is given
_ZSTD = 4
# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta,
# baseTimestamp, maxTimestamp, producerId, producerEpoch, baseSequence, records count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21


class LoneBatch:
    """One record as a batch. size: bytes of the whole batch as the broker measures it.

    Making it compresses (and releases the interpreter's lock meanwhile): not on the event loop.
    """

    __slots__ = ("_body", "_timestamp_ms", "size")

    def __init__(self, record: Record) -> None:
        self._timestamp_ms = record.timestamp_ms
        self._body = zstd.compress(_encoded(record), level=_LEVEL)
        self.size = _HEADER.size + len(self._body)

    def builder(self) -> "LoneBuilder":
        """What the producer takes; a new one for each hand-over."""
        return LoneBuilder(self._body, self._timestamp_ms)


class LoneBuilder:
    """Does what aiokafka asks of its `BatchBuilder` between `send_batch` and the wire."""

    def __init__(self, body: bytes, timestamp_ms: int) -> None:
        self._body = body
        self._timestamp_ms = timestamp_ms
        self._state = (-1, -1, -1)
        self._buffer: bytearray | None = None

    def close(self) -> None:
        """Takes no more from the start."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return _HEADER.size + len(self._body)

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._state = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            buffer = bytearray(_HEADER.size) + self._body
            length, at = len(buffer) - _AFTER_LENGTH, self._timestamp_ms
            _HEADER.pack_into(buffer, 0, 0, length, -1, 2, 0, _ZSTD, 0, at, at, *self._state, 1)
            struct.pack_into(
                ">I", buffer, _CRC_AT, calc_crc32c(memoryview(buffer)[_ATTRIBUTES_AT:])
            )
            self._buffer = buffer
        return self._buffer


def _encoded(record: Record) -> bytes:
    """The record as it stands in a batch, by aiokafka's own encoder."""
    headers: Sequence[tuple[str, bytes]] = record.headers
    plain = _DefaultRecordBatchBuilderPy(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=sys.maxsize,
    )  # fmt: skip
    plain.append(0, record.timestamp_ms, record.key, record.value, headers)
    return bytes(memoryview(plain._buffer)[_HEADER.size :])
