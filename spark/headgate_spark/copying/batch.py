"""A record batch of copied records: what aiokafka's sender asks of its own `BatchBuilder`.

aiokafka's compiled encoder takes the timestamp -1, which means that a record has none, for one
that was not given, and so gives such records the next one's; it refuses header names that are not
UTF-8; and it compresses what only grows by that, so that a record that the source has taken may
be larger than the target takes. Its encoder in Python does none of this. It takes those batches
in which that matters, and the compiled one, which is five times as fast, takes all others. How
large a batch may be is up to who opens the producer (`mirror.writer`, `replay.replay_writer`).
Private parts of aiokafka 0.14: both encoders, and what the producer's accumulator knows.
"""

from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import (
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
)

from headgate.core.replays.segments import NO_TIMESTAMP
from headgate.kafka.lenient_records import RawName

_MAGIC = 2
_PLAIN = 0

Header = tuple[str, bytes | None]
_Row = tuple[int, bytes | None, bytes | None, list[Header]]


class Batch:
    """codec: its number in the protocol.  max_bytes: of several records, uncompressed; the first
    one fits, whatever its size."""

    def __init__(self, codec: int, max_bytes: int) -> None:
        self._codec, self._max_bytes = codec, max_bytes
        self._rows: list[_Row] = []
        self._encoder: Any = None
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    @classmethod
    def of(cls, producer: AIOKafkaProducer) -> "Batch":
        """An empty one as this producer would make it."""
        accumulator = producer._message_accumulator
        return cls(accumulator._compression_type, accumulator._batch_size)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> bool:
        """Add a record; False: another batch must take it."""
        row = (timestamp, key, value, list(headers))  # the compiled encoder takes no tuple
        try:
            taken = self._take(row)
        except UnicodeEncodeError:
            if self._rows:
                return False
            self._encoder = self._encoder_in_python(self._codec)
            taken = self._take(row)
        if taken:
            self._rows.append(row)
        return taken

    def close(self) -> None:
        """Takes no more."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def record_count(self) -> int:
        return len(self._rows)

    def size(self) -> int:
        return len(self._buffer) if self._buffer is not None else int(self._encoder.size())

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            uncompressed = self._encoder.size()
            self._buffer = self._built(self._encoder)
            if len(self._buffer) > uncompressed:
                self._buffer = self._built(self._encoded_again())
        return self._buffer

    def _built(self, encoder: Any) -> bytearray:
        encoder.set_producer_state(*self._producer)
        built: bytearray = encoder.build()
        return built

    def _encoded_again(self) -> Any:
        self._encoder = self._compiled_encoder(_PLAIN)
        rows, self._rows = self._rows, []
        for row in rows:
            self._take(row)
            self._rows.append(row)
        return self._encoder

    def _take(self, row: _Row) -> bool:
        timestamp, key, value, headers = row
        if self._encoder is None:
            is_odd = timestamp == NO_TIMESTAMP
            make = self._encoder_in_python if is_odd else self._compiled_encoder
            self._encoder = make(self._codec)
        if type(self._encoder) is _DefaultRecordBatchBuilderPy:
            headers = [(RawName(name), value) for name, value in headers]
        added = self._encoder.append(len(self._rows), timestamp, key, value, headers)
        return added is not None

    def _compiled_encoder(self, codec: int) -> Any:
        return DefaultRecordBatchBuilder(_MAGIC, codec, 1, -1, -1, 0, self._max_bytes)

    def _encoder_in_python(self, codec: int) -> Any:
        return _DefaultRecordBatchBuilderPy(_MAGIC, codec, True, -1, -1, 0, self._max_bytes)
