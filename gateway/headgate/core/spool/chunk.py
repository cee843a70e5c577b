"""Spooled events as they lie on disk: some of one lane's, in order, packed together.

A chunk is one MessagePack array of records, and a CRC-32 of it stands beside it. Events are packed
by the chunk because they are written, read and done by the chunk: a row for each would cost the
journal three times as much.
"""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

import msgspec

from headgate.core.record import Record
from headgate.core.topics.topic import TopicState

# key, value, headers, timestamp_ms
Packed = tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_topic: Final = msgspec.msgpack.Decoder(TopicState).decode
_decode: Final = msgspec.msgpack.Decoder(list[Packed]).decode


class DamagedChunk(ValueError):
    """A chunk is not what was written."""


def pack(records: Iterable[Record]) -> tuple[bytes, int]:
    """The records of one chunk, and the checksum of that."""
    packed = _encode([(one.key, one.value, one.headers, one.timestamp_ms) for one in records])
    return packed, crc32(packed)


def unpack(packed: bytes, checksum: int) -> list[Packed]:
    """Raises DamagedChunk."""
    if crc32(packed) != checksum:
        raise DamagedChunk("its checksum is another")
    try:
        return _decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedChunk(str(error)) from error


def pack_topic(state: TopicState) -> bytes:
    """What Kafka said of a topic: a gateway that begins while Kafka is away has to know it."""
    return _encode(state)


def unpack_topic(packed: bytes) -> TopicState | None:
    """None where another version, which knew less or more of topics, has written it."""
    try:
        return _decode_topic(packed)
    except msgspec.MsgspecError:
        return None
