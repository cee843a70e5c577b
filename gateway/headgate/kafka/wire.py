"""Reads Kafka's flexible encoding (KIP-482)."""

import struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Reader:
    """A cursor over one answer. Raises struct.error or IndexError when it is cut short."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        self._position += count

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        start = self._position
        self._position += count
        return self._data[start : self._position]

    def int16(self) -> int:
        """Return a big-endian signed 16-bit number."""
        number: int = _INT16.unpack_from(self._data, self._position)[0]
        self._position += 2
        return number

    def int32(self) -> int:
        """Return a big-endian signed 32-bit number."""
        number: int = _INT32.unpack_from(self._data, self._position)[0]
        self._position += 4
        return number

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Return several numbers at once."""
        numbers = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return numbers

    def varint(self) -> int:
        """Return an unsigned varint."""
        number = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def count(self) -> int:
        """Return the length of a compact array; a null array counts as empty."""
        return max(0, self.varint() - 1)

    def text(self) -> str | None:
        """Return a compact nullable string."""
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode()

    def tags(self) -> None:
        """Pass over tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())
