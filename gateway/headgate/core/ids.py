"""Event ids: UUIDv7 from a process' random node, a counter and the time (RFC 9562, 5.7 and 6.2).

Two ids of one process differ by the counter, two of different processes by 48 random bits; drawing
random bits for each event would cost four times as much (7-hot-path, "uuid").
"""


class EventIds:
    """Makes event ids. node: 48 random bits of this process."""

    __slots__ = ("_counter", "_node")

    def __init__(self, node: bytes) -> None:
        if len(node) != 6:
            raise ValueError("node is 6 bytes")
        self._node = node.hex()
        self._counter = int.from_bytes(node, "big") & 0x3FFFFFF

    def take(self, now_ms: int) -> str:
        """The next id. now_ms: milliseconds since 1970, at most 48 bits."""
        self._counter = counter = (self._counter + 1) & 0x3FFFFFF
        time = f"{now_ms:012x}"
        high = 0x7000 | (counter >> 14)
        low = 0x8000 | (counter & 0x3FFF)
        return f"{time[:8]}-{time[8:]}-{high:x}-{low:x}-{self._node}"
