"""Spooled events as they lie on disk: some of one lane's, in order, packed together.

A chunk is one MessagePack array of records, and a CRC-32 stands beside it: of that, and of what the
chunk's row says of it, so that nothing is published to another place than it was meant for. Events
are packed by the chunk because they are written, read and done by the chunk: a row for each would
cost the journal three times as much.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from headgate.core.record import Header, Record
from headgate.core.topics.topic import TopicState

# key, value, headers, timestamp_ms
Packed = tuple[bytes | None, bytes | None, list[Header], int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_topic: Final = msgspec.msgpack.Decoder(TopicState).decode
_decode: Final = msgspec.msgpack.Decoder(list[Packed]).decode


class DamagedChunk(ValueError):
    """A chunk is not what was written."""


class Label(NamedTuple):
    """What a chunk's row says of it. partitions: the count that its events were placed by; 0 of
    what was set aside.  at_ms: milliseconds since 1970, when they were spooled."""

    topic: str
    partition: int
    partitions: int
    events: int
    at_ms: int

    def checksum(self, packed: bytes) -> int:
        """Of both together."""
        return crc32(packed, crc32(repr(tuple(self)).encode()))


def pack(records: Sequence[Record]) -> bytes:
    """The records of one chunk."""
    return _encode([(one.key, one.value, one.headers, one.timestamp_ms) for one in records])


def unpack(packed: bytes, checksum: int, label: Label) -> list[Packed]:
    """Raises DamagedChunk."""
    if label.checksum(packed) != checksum:
        raise DamagedChunk("its checksum is another")
    try:
        return _decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedChunk(str(error)) from error


def pack_topic(state: TopicState) -> bytes:
    """What Kafka said of a topic: a gateway that begins while Kafka is away has to know it."""
    return _encode(state)


def unpack_topic(packed: bytes) -> TopicState | None:
    """None where another version, which knew less or more of topics, has written it; or damage."""
    try:
        return _decode_topic(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return None
