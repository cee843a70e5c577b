"""A batch of one large record, compressed in a thread instead of on the event loop.

aiokafka compresses when it builds a batch, on the loop: 16 MB take 50 ms. Here everything but the
header is made beforehand, so that its size is known exactly before anything is handed over, and
the producer's state (id, epoch, sequence) is all that is written later. The format is Kafka's
record batch, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).
"""

import sys

from headgate.core.record import BATCH_OVERHEAD, Record
from headgate.native.chosen import Records, seal, with_body

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # what Kafka's own producer takes when none is given
_ZSTD = 4


class LoneBatch:
    """One record as a batch. size: bytes of the whole batch as the broker measures it.

    Making it compresses (and releases the interpreter's lock meanwhile): not on the event loop.
    """

    __slots__ = ("_batch", "size")

    def __init__(self, record: Record) -> None:
        plain = _plain(record)
        body = zstd.compress(memoryview(plain)[BATCH_OVERHEAD:], level=_LEVEL)
        self._batch = with_body(plain, _ZSTD, body)
        self.size = len(self._batch)

    def builder(self) -> "LoneBuilder":
        """What the producer takes; a new one for each hand-over."""
        return LoneBuilder(self._batch)


class LoneBuilder:
    """Does what aiokafka asks of its `BatchBuilder` between `send_batch` and the wire."""

    def __init__(self, batch: bytearray) -> None:
        self._batch = batch
        self._producer = (-1, -1, -1)
        self._buffer: bytearray | None = None

    def close(self) -> None:
        """Takes no more from the start."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return len(self._batch)

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            self._buffer = bytearray(self._batch)
            seal(self._buffer, *self._producer)
        return self._buffer


def _plain(record: Record) -> bytearray:
    """The batch, uncompressed."""
    records = Records(0)  # the first one always fits
    records.append(record.timestamp_ms, record.key, record.value, record.headers)
    return records.take()
