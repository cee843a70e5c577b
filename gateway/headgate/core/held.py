"""Records of held topics: an event on its way to its topic, a done mark, the end of a burst.

The gateway writes events there with the headers that their record will have, and the coalescer
reads them back (9-coalescer-model; H = the held topic, O = the topic).
"""

from typing import NamedTuple

from headgate.core.record import (
    BURST,
    BURST_END,
    DONE,
    FORCED,
    PRODUCER,
    RECEIVED_AT,
    WANTED_TIMESTAMP,
    size_of,
)

HELD_PREFIX = "headgate.held."
Headers = list[tuple[str, bytes]]
_OVERHEAD = 300  # bytes that an event costs in memory beside key, value and headers


def held_topic(topic: str) -> str:
    """The name of the topic that holds a coalescing topic's events."""
    return HELD_PREFIX + topic


def topic_of(held: str) -> str | None:
    """The topic whose events are held in this one; None if it is not a held topic."""
    return held[len(HELD_PREFIX) :] if held.startswith(HELD_PREFIX) else None


class Held(NamedTuple):
    """A held event. offset: in H, its name from now on.

    headers: those of its record.  arrived_ms: at its gateway.  forced: publish even if unchanged.
    size: bytes that it costs while it is held.
    """

    offset: int
    key: bytes
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    arrived_ms: int
    producer: str
    forced: bool
    burst: bytes | None
    size: int


class Mark(NamedTuple):
    """A done mark: the key's event at that offset of H, and all before it, need nothing more.

    topic_id: of that H, in hex. Whoever has not seen yet that H was made anew still marks what it
    read of the old one, and such a mark lies in the new one.
    """

    key: bytes
    done: int
    topic_id: str


class BurstEnd(NamedTuple):
    """No more events of this burst follow."""

    burst: bytes


class Foreign(NamedTuple):
    """A record that no gateway wrote."""

    offset: int


HeldRecord = Held | Mark | BurstEnd | Foreign


def mark_headers(mark: Mark) -> Headers:
    """The headers of a done mark; its key is the event's, its value is empty."""
    return [(DONE, f"{mark.done} {mark.topic_id}".encode())]


def burst_end_headers(burst: bytes) -> Headers:
    """The headers of the end of a burst, a record without a key."""
    return [(BURST_END, burst)]


def read_held(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int,
    headers: "tuple[tuple[str, bytes], ...] | Headers",
) -> HeldRecord:
    """What a record of H is. timestamp_ms: of the record in H, its arrival."""
    found = dict(headers)
    if BURST_END in found:
        return BurstEnd(found[BURST_END])
    producer = found.get(PRODUCER)
    if key is None:
        return Foreign(offset)
    if DONE in found:
        done, _, topic_id = found[DONE].partition(b" ")
        is_mark = done.isdigit() and topic_id.isalnum()
        return Mark(key, int(done), topic_id.decode()) if is_mark else Foreign(offset)
    if producer is None:
        return Foreign(offset)
    kept = [pair for pair in headers if pair[0] != FORCED and pair[0] != WANTED_TIMESTAMP]
    return Held(
        offset,
        key,
        value,
        kept,
        _number(found.get(WANTED_TIMESTAMP), timestamp_ms),
        _number(found.get(RECEIVED_AT), timestamp_ms),
        producer.decode("utf-8", "replace"),
        FORCED in found,
        found.get(BURST),
        _OVERHEAD + size_of(key, value, kept),
    )


def _number(text: bytes | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdigit() else otherwise


class Metadata(NamedTuple):
    """What is committed beside the held group's offset.

    topic_id: of H, in hex; an offset of a topic that is another now says nothing.
    is_blind: something was published without asking Redis and is not settled yet (rule 12).
    """

    topic_id: str
    is_blind: bool

    def text(self) -> str:
        return f"1 {self.topic_id} {int(self.is_blind)}"

    @classmethod
    def read(cls, text: str | None) -> "Metadata | None":
        """None: somebody else's, or of an unknown version."""
        parts = (text or "").split(" ")
        if len(parts) != 3 or parts[0] != "1" or parts[2] not in ("0", "1"):
            return None
        return cls(parts[1], parts[2] == "1")
