"""A lane's batch under construction: what aiokafka's sender asks of its own `BatchBuilder`.

aiokafka's takes a record through three Python calls by keyword; this one goes to the compiled
encoder at once, and leaves a batch as it was when a record does not fit.
"""

from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headgate.core.record import Record

_MAGIC = 2  # org.apache.kafka.common.record.DefaultRecordBatch


class Builder:
    """compression: a codec's number in the protocol.  most_bytes: of the batch, uncompressed."""

    __slots__ = ("_buffer", "_count", "_encoder", "_is_closed")

    def __init__(self, compression: int, most_bytes: int) -> None:
        self._encoder: Any = DefaultRecordBatchBuilder(
            _MAGIC,
            compression,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=0,
            batch_size=most_bytes,
        )
        self._count = 0
        self._is_closed = False
        self._buffer: bytearray | None = None

    def append(self, record: Record) -> bool:
        """Add a record; False: it is full. The first one fits, whatever its size.

        Raises TypeError, ValueError or AttributeError where a record cannot be encoded.
        """
        added = self._encoder.append(
            self._count, record.timestamp_ms, record.key, record.value, record.headers
        )
        if added is None:
            return False
        self._count += 1
        return True

    def close(self) -> None:
        """Takes no more."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def record_count(self) -> int:
        return self._count

    def size(self) -> int:
        return len(self._buffer) if self._buffer is not None else int(self._encoder.size())

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._encoder.set_producer_state(producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            self._buffer = self._encoder.build()
            self._encoder = None  # it builds only once
        return self._buffer
