"""Records of held topics: an event on its way to its topic, a done mark, the end of a burst.

The gateway writes events there with the headers that their record will have, and the coalescer
reads them back (docs/design/coalescing-protocol.md; H = the held topic, O = the topic).
"""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from headgate.core.record import (
    BURST,
    BURST_END,
    CONTENT_TYPE,
    DONE,
    FORCED,
    PRODUCER,
    RECEIVED_AT,
    SCHEMA,
    WANTED_TIMESTAMP,
    Header,
)

HELD_PREFIX = "headgate.held."
Headers = list[Header]
# Name, content, name, content: the collector need not look at it.
Packed = tuple[str | bytes | None, ...]

# Bytes of memory in CPython 3.11, as malloc gives them: an event with its window, its
# place among the windows and among what is due; a header; an object of bytes.
_EVENT, _HEADER, _OBJECT = 576, 16, 33 + 15
_SHARED_BYTES = 200  # contents up to there that recur are kept once
_RECURRING = frozenset({CONTENT_TYPE, PRODUCER, SCHEMA, BURST})


def held_topic(topic: str) -> str:
    """The name of the topic that holds a coalescing topic's events."""
    return HELD_PREFIX + topic


def topic_of(held: str) -> str | None:
    """The topic whose events are held in this one; None if it is not a held topic."""
    return held[len(HELD_PREFIX) :] if held.startswith(HELD_PREFIX) else None


class HeldEvent(NamedTuple):
    """A held event. offset: in H, its name from now on.

    packed: the headers of its record.  arrived_ms: at its gateway.  forced: publish even if
    unchanged.  size: bytes of memory that it costs while it is the newest of its key.
    """

    offset: int
    key: bytes
    value: bytes | None
    packed: Packed
    timestamp_ms: int
    arrived_ms: int
    producer: str
    forced: bool
    burst: bytes | None
    size: int

    @property
    def headers(self) -> Headers:
        """The headers of its record."""
        names, contents = self.packed[::2], self.packed[1::2]
        return list(zip(names, contents, strict=True))  # type: ignore[arg-type]


class DoneMark(NamedTuple):
    """A done mark: the key's event at that offset of H, and all before it, need nothing more.

    topic_id: of that H, in hex. Whoever has not seen yet that H was recreated still marks what it
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


HeldRecord = HeldEvent | DoneMark | BurstEnd | Foreign


def mark_headers(mark: DoneMark) -> Headers:
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
    headers: "tuple[Header, ...] | Headers",
) -> HeldRecord:
    """What a record of H is. timestamp_ms: of the record in H, its arrival."""
    found = {name: content for name, content in headers if content is not None}
    if BURST_END in found:
        return BurstEnd(found[BURST_END])
    producer = found.get(PRODUCER)
    if key is None:
        return Foreign(offset)
    if DONE in found:
        done, _, topic_id = found[DONE].partition(b" ")
        is_mark = done.isdigit() and topic_id.isalnum()
        return DoneMark(key, int(done), topic_id.decode()) if is_mark else Foreign(offset)
    if producer is None:
        return Foreign(offset)
    kept = [pair for pair in headers if pair[0] != FORCED and pair[0] != WANTED_TIMESTAMP]
    arrived_ms = _number(found.get(RECEIVED_AT), timestamp_ms)
    wanted_ms = _number(found.get(WANTED_TIMESTAMP), timestamp_ms)
    burst = found.get(BURST)
    return HeldEvent(
        offset,
        key,
        value,
        packed(kept),
        arrived_ms if wanted_ms == arrived_ms else wanted_ms,  # one object less
        arrived_ms,
        intern(producer.decode("utf-8", "replace")),
        FORCED in found,
        None if burst is None else _same(burst),
        _cost(key, value, kept),
    )


def packed(headers: Iterable[Header]) -> Packed:
    """Headers as they are kept: names once for all events, and contents that recur."""
    flat: list[str | bytes | None] = []
    for name, content in headers:
        flat.append(intern(name))
        flat.append(
            _same(content) if content is not None and _is_shared(name, content) else content
        )
    return tuple(flat)


@lru_cache(1024)
def _same(content: bytes) -> bytes:
    return content


def _is_shared(name: str, content: bytes) -> bool:
    return name in _RECURRING and len(content) <= _SHARED_BYTES


def _cost(key: bytes, value: bytes | None, headers: Headers) -> int:
    """See `_EVENT`."""
    cost = _EVENT + _OBJECT + len(key) + _HEADER * len(headers)
    cost += 0 if value is None else _OBJECT + len(value)
    own = [
        len(content) + _OBJECT
        for name, content in headers
        if content is not None and not _is_shared(name, content)
    ]
    return cost + sum(own)


def _number(text: bytes | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdigit() else otherwise


class Metadata(NamedTuple):
    """What is committed beside the held group's offset.

    topic_id: of H, in hex; an offset of a topic that is another now says nothing.
    has_unreserved: something was published without asking Redis and is not settled yet (rule 12).
    """

    topic_id: str
    has_unreserved: bool

    def text(self) -> str:
        return f"1 {self.topic_id} {int(self.has_unreserved)}"

    @classmethod
    def read(cls, text: str | None) -> "Metadata | None":
        """None: somebody else's, or of an unknown version."""
        parts = (text or "").split(" ")
        if len(parts) != 3 or parts[0] != "1" or parts[2] not in ("0", "1"):
            return None
        return cls(parts[1], parts[2] == "1")
