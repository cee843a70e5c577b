"""A lane's batch under construction: what aiokafka's sender asks of its own `BatchBuilder`.

aiokafka's takes a record through three Python calls by keyword and encodes it piece by piece; this
one is told a whole record at once, and leaves a batch as it was when a record does not fit.
"""

from headgate.core.record import Record
from headgate.native.chosen import Records, seal
from headgate.native.records import compressed


class Builder:
    """compression: a codec's number in the protocol.  max_bytes: of the batch, uncompressed."""

    __slots__ = ("_buffer", "_compression", "_is_closed", "_producer", "_records")

    def __init__(self, compression: int, max_bytes: int) -> None:
        self._compression = compression
        self._records = Records(max_bytes)
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    def append(self, record: Record) -> bool:
        """Add a record; False: it is full. The first one fits, whatever its size.

        Raises TypeError, ValueError or AttributeError where a record cannot be encoded.
        """
        return self._records.append(record.timestamp_ms, record.key, record.value, record.headers)

    def close(self) -> None:
        """Takes no more."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def record_count(self) -> int:
        return self._records.count

    def size(self) -> int:
        return len(self._buffer) if self._buffer is not None else self._records.size

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            batch = compressed(self._records.take(), self._compression)
            seal(batch, *self._producer)
            self._buffer = batch
        return self._buffer
