"""Names of record headers as they are in Kafka: bytes, which need not be UTF-8.

Java writes nothing else, but librdkafka lets any bytes through, and aiokafka fails on them in both
directions. Read here they are text in which each strange byte is a lone surrogate (PEP 383), so
that written again they are the same bytes. The classes stand where aiokafka's own stand; they are
given those to build on.
"""

from collections.abc import Callable, Iterator
from typing import Any

_STRANGE = "surrogateescape"
_LENGTH_AT, _AFTER_LENGTH = 8, 12  # of a record batch


class RawName(str):
    """A name that encodes to the bytes it was read from."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = _STRANGE) -> bytes:
        """What is written."""
        return str(self).encode("utf-8", _STRANGE)


def legible(name: str) -> str:
    """A name that any client can write: strange bytes become `\\xNN`."""
    return name.encode("utf-8", _STRANGE).decode("utf-8", "backslashreplace")


class LenientRecords:
    """The record batches of a fetch: aiokafka's, but a strange name stops nothing.

    whole: aiokafka's `MemoryRecords`, which decodes quickly. slow: its batch written in Python,
    which takes over where the quick one fails.
    """

    def __init__(self, data: bytes, whole: Callable[[bytes], Any], slow: type[Any]) -> None:
        self._data, self._slow, self._at = data, slow, 0
        self._inner = whole(data)
        self.has_next = self._inner.has_next
        self.size_in_bytes = self._inner.size_in_bytes

    def next_batch(self) -> Any:
        """The next batch, or None."""
        batch = self._inner.next_batch()
        if batch is None:
            return None
        start, lengths = self._at, self._data[self._at + _LENGTH_AT : self._at + _AFTER_LENGTH]
        self._at += _AFTER_LENGTH + int.from_bytes(lengths)
        return _Batch(batch, memoryview(self._data)[start : self._at], self._slow)


class _Batch:
    """Decodes from the start again where a name is strange: aiokafka leaves out what it has had.

    data: copied only then; a copy of each batch would cost more than the rest of this class.
    """

    def __init__(self, batch: Any, data: memoryview, slow: type[Any]) -> None:
        self._batch, self._data, self._slow = batch, data, slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batch
        except UnicodeDecodeError:
            yield from self._lenient()

    def _lenient(self) -> Any:
        again = self._slow(bytes(self._data))
        again._maybe_uncompress()
        again._buffer = _Bytes(again._buffer)
        return again


class _Bytes(bytearray):
    """Its slices decode whatever they hold."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Bytes(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = _STRANGE) -> str:
        return super().decode("utf-8", _STRANGE)
