"""A record batch of copied records: what aiokafka's sender asks of its own `BatchBuilder`.

aiokafka's compiled encoder takes the timestamp -1, which means that a record has none, for one
that was not given, and so gives such records the next one's; it refuses header names that are not
UTF-8; and it compresses what only grows by that, so that a record that the source has taken may
be larger than the target takes. Its encoder in Python does none of this. It takes those batches
in which that matters, and the compiled one, which is five times as fast, takes all others. How
large a batch may be is up to who opens the producer (`mirror.writer`, `replay.registry`).
Private parts of aiokafka 0.14: both encoders, and what the producer's accumulator knows.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import (
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
)

from headgate.kafka.aiokafka_internals import RawName
from headgate.replays.segments import NO_TIMESTAMP
from headgate_spark.copying.chunks import SourceRecord

_MAGIC = 2
_PLAIN = 0

Header = tuple[str, bytes | None]


class _StrangeNameError(Exception):
    """The compiled encoder refused a header's name. taken: how many records it has."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken


class Batch:
    """codec: its number in the protocol.  max_bytes: of several records, uncompressed; the first
    one fits, whatever its size."""

    def __init__(self, codec: int, max_bytes: int) -> None:
        self._codec, self._max_bytes = codec, max_bytes
        self._records: Sequence[SourceRecord] = ()
        self._added: Sequence[Header] = ()
        self._first = self._count = 0
        self._encoder: Any = None
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    @classmethod
    def of(cls, producer: AIOKafkaProducer) -> "Batch":
        """An empty one as this producer would make it."""
        accumulator = producer._message_accumulator
        return cls(accumulator._compression_type, accumulator._batch_size)

    def fill(
        self, records: Sequence[SourceRecord], first: int = 0, added: Sequence[Header] = ()
    ) -> int:
        """Take records from `first` on, with these headers behind their own. Where it ends:
        another batch must take what is there."""
        self._records, self._first, self._added = records, first, added
        is_odd = first < len(records) and records[first].timestamp == NO_TIMESTAMP
        self._encoder = (self._encoder_in_python if is_odd else self._compiled_encoder)(self._codec)
        try:
            self._count = self._append_all()
        except _StrangeNameError as error:
            self._count = error.taken
            if not self._count:
                self._encoder = self._encoder_in_python(self._codec)
                self._count = self._append_all()
        return first + self._count

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
        self._append_all(self._count)
        return self._encoder

    def _append_all(self, limit: int | None = None) -> int:
        """How many records the encoder has taken."""
        append, added, number = self._encoder.append, self._added, 0
        end = None if limit is None else self._first + limit
        is_raw = type(self._encoder) is _DefaultRecordBatchBuilderPy
        # A call and a kept object less a record are felt: so much a bare copying loop costs.
        for one in islice(self._records, self._first, end):
            headers = [*one.headers, *added]  # the compiled encoder takes no tuple
            if is_raw:
                headers = [(RawName(name), value) for name, value in headers]
            try:
                if append(number, one.timestamp, one.key, one.value, headers) is None:
                    break
            except UnicodeEncodeError as error:
                raise _StrangeNameError(number) from error
            number += 1
        return number

    def _compiled_encoder(self, codec: int) -> Any:
        return DefaultRecordBatchBuilder(_MAGIC, codec, 1, -1, -1, 0, self._max_bytes)

    def _encoder_in_python(self, codec: int) -> Any:
        return _DefaultRecordBatchBuilderPy(_MAGIC, codec, True, -1, -1, 0, self._max_bytes)
