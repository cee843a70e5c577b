"""Chunks of an oversized value as records: how it is cut, and what their headers say.

The first chunk of a set lies before its others in the log: whoever writes them keeps to that. So a
reader that meets a later one first has begun in the middle of the set. `chunk_sets.py` puts
them together again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.record import (
    CHUNK_BYTES,
    CHUNK_COUNT,
    CHUNK_INDEX,
    CHUNK_SET,
    CHUNK_SHA256,
    Header,
)

MAX_BYTES = 16 * 1024 * 1024  # of one value: what a consumer may have to hold in memory
MIN_CHUNK_BYTES = 1024  # a topic whose limit leaves less than this is no place for chunks
MAX_CHUNKS = MAX_BYTES // MIN_CHUNK_BYTES
HEADERS_BYTES = 512  # upper bound of what a chunk's own headers add to its record
_ID_BYTES = 64


class Head(NamedTuple):
    """What a chunk's headers say.

    number: its place among the `total` chunks, from 0.  size, sha256: of the whole value.
    """

    set_id: bytes
    number: int
    total: int
    size: int
    sha256: bytes


class BadChunkError(ValueError):
    """Chunk headers that contradict themselves, or are not all there."""


def cut(value: bytes, limit: int) -> list[bytes]:
    """The value in pieces of at most `limit` bytes."""
    return [value[start : start + limit] for start in range(0, len(value), limit)]


def headers_of(head: Head) -> list[Header]:
    """The headers of one chunk."""
    return [
        (CHUNK_SET, head.set_id),
        (CHUNK_INDEX, b"%d" % head.number),
        (CHUNK_COUNT, b"%d" % head.total),
        (CHUNK_BYTES, b"%d" % head.size),
        (CHUNK_SHA256, head.sha256.hex().encode()),
    ]


def read_head(headers: Sequence[Header]) -> Head | None:
    """The chunk that a record is, or None for any other record. Raises BadChunkError."""
    own = [(name, value or b"") for name, value in headers if name.startswith("hg-chunk-")]
    found = dict(own)
    if CHUNK_SET not in found:
        return None
    if len(found) < len(own):
        raise BadChunkError("a chunk header is there twice")
    try:
        index, count, size = (int(found[each]) for each in (CHUNK_INDEX, CHUNK_COUNT, CHUNK_BYTES))
        digest = bytes.fromhex(found[CHUNK_SHA256].decode())
    except (KeyError, ValueError) as error:
        raise BadChunkError(f"chunk headers that are missing or no numbers: {error}") from None
    head = Head(found[CHUNK_SET], index, count, size, digest)
    is_sane = 0 <= index < count <= MAX_CHUNKS and count <= size <= MAX_BYTES
    if not is_sane or not 0 < len(head.set_id) <= _ID_BYTES or len(head.sha256) != 32:
        raise BadChunkError(f"chunk headers out of range: {head}")
    return head
