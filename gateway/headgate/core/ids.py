"""Event ids: UUIDv7 from a process' random node, a counter and the time (RFC 9562, 5.7 and 6.2).

Ids of one process differ by the counter, ids of two processes by 48 random bits. Random bits for
each event would cost four times as much (docs/design/measured.md#small-things).
"""


class RequestIds:
    """Generator of request ids: unique among processes, and short enough to read aloud.

    Args:
        node: 48 random bits of this process.
    """

    __slots__ = ("_count", "_start")

    def __init__(self, node: bytes) -> None:
        self._start = node.hex() + "-"
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return self._start + hex(self._count)[2:]


class EventIds:
    """Generator of event ids.

    Up to 16,384 ids of a millisecond differ only in the two bytes before the node, which come from
    a lookup table. Formatting each complete id costs three times as much.

    Args:
        node: 48 random bits of this process.
    """

    __slots__ = ("_bytes", "_counter", "_ends", "_high", "_now_ms", "_start")

    def __init__(self, node: bytes) -> None:
        if len(node) != 6:
            raise ValueError("node is 6 bytes")
        self._bytes = [f"{byte:02x}" for byte in range(256)]
        self._ends = [f"{byte:02x}-{node.hex()}" for byte in range(256)]
        self._counter = int.from_bytes(node, "big") & 0x3FFFFFF
        self._now_ms = -1
        self._high = -1
        self._start = ""

    def take(self, now_ms: int) -> str:
        """Return the next id for a time in milliseconds since 1970 (at most 48 bits)."""
        self._counter = counter = (self._counter + 1) & 0x3FFFFFF
        high = counter >> 14
        if now_ms != self._now_ms or high != self._high:
            self._begin(now_ms, high)
        return f"{self._start}{self._bytes[counter >> 8 & 0x3F | 0x80]}{self._ends[counter & 0xFF]}"

    def _begin(self, now_ms: int, high: int) -> None:
        text = f"{now_ms:012x}"
        self._now_ms, self._high = now_ms, high
        self._start = f"{text[:8]}-{text[8:]}-{0x7000 | high:x}-"
