"""Decoded events of a request, before any decision about them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.model.outcome import Failure
from headgate.model.record import Header

SPREAD = -1  # a partition: any partition for events without a key, whatever `keyless` is


class RawEvent(NamedTuple):
    """One decoded event.

    Args:
        value: The exact bytes for Kafka; None is a tombstone.
        document: The JSON text for the topic's key pointers; None for opaque bytes.
        key: A key from outside the document.
        event_id: The id that the client gave the event.
        timestamp_ms: The event's own time, in milliseconds since 1970.
        content_type: The content type of the value.
        headers: Record headers of this event only.
        partition: The client's choice, or SPREAD; None applies the topic's rule.
        source: The source of a CloudEvent.
    """

    value: bytes | None
    document: bytes | None = None
    key: bytes | None = None
    event_id: str | None = None
    timestamp_ms: int | None = None
    content_type: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    source: str | None = None


Event = bytes | RawEvent | Failure


class Decoded:
    """Events of a request, in their order.

    Args:
        events: A Failure replaces an event that could not be decoded. Bytes are a JSON document
            without further attributes, the case that must be cheap.
        is_batch: Whether the response is a batch response.
        is_plain: Whether the scanner read all events as plain documents (`formats.decode`).
        keys: The keys that the scanner found; None if the topic has no key rule.
        partitions: The partitions of these keys.
        digests: The digests; None if the topic does not suppress or has no keys. A digest is None
            if the slow path must make the canonical form.
    """

    __slots__ = ("digests", "events", "is_batch", "is_plain", "keys", "partitions")

    def __init__(
        self,
        events: Sequence[Event],
        is_batch: bool,
        *,
        is_plain: bool = False,
        keys: list[bytes] | None = None,
        partitions: list[int] | None = None,
        digests: list[bytes | None] | None = None,
    ) -> None:
        self.events = events
        self.is_batch: Final = is_batch
        self.is_plain: Final = is_plain
        self.keys: Final = keys
        self.partitions: Final = partitions
        self.digests: Final = digests

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decoded) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash((len(self.events), self.is_batch))

    def __repr__(self) -> str:
        return f"Decoded{self._all()}"

    def _all(self) -> tuple[object, ...]:
        read = (self.is_batch, self.is_plain, self.keys, self.partitions, self.digests)
        return ([*self.events], *read)


# Event ids: UUIDv7 from a process' random node, a counter and the time (RFC 9562, 5.7 and 6.2).
#
# Ids of one process differ by the counter, ids of two processes by 48 random bits. Random bits for
# each event would cost four times as much (docs/design/measured.md#small-things).


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
