"""Event ids: UUIDv7 from a process' random node, a counter and the time (RFC 9562, 5.7 and 6.2).

Two ids of one process differ by the counter, two of different processes by 48 random bits; drawing
random bits for each event would cost four times as much (7-hot-path, "uuid").
"""


class RequestIds:
    """Makes request ids: unique among processes, and short enough to be read out.

    node: 48 random bits of this process.
    """

    __slots__ = ("_count", "_node")

    def __init__(self, node: bytes) -> None:
        self._node = node.hex()
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"{self._node}-{self._count:x}"


class EventIds:
    """Makes event ids. node: 48 random bits of this process."""

    __slots__ = ("_counter", "_node", "_now_ms", "_time")

    def __init__(self, node: bytes) -> None:
        if len(node) != 6:
            raise ValueError("node is 6 bytes")
        self._node = node.hex()
        self._counter = int.from_bytes(node, "big") & 0x3FFFFFF
        self._now_ms = -1
        self._time = ""

    def take(self, now_ms: int) -> str:
        """The next id. now_ms: milliseconds since 1970, at most 48 bits."""
        self._counter = counter = (self._counter + 1) & 0x3FFFFFF
        if now_ms != self._now_ms:
            text = f"{now_ms:012x}"
            self._now_ms, self._time = now_ms, f"{text[:8]}-{text[8:]}-"
        high = 0x7000 | (counter >> 14)
        low = 0x8000 | (counter & 0x3FFF)
        return f"{self._time}{high:x}-{low:x}-{self._node}"
