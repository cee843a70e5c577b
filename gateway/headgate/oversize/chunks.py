"""Oversized values in pieces: chunks of a value, and elements of a split document.

Writers put the first chunk of a set before its other chunks in the log. A reader that finds a later
chunk first has therefore begun in the middle of the set. `ChunkSets` reassembles the chunks.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, TypedDict

import orjson

from headgate.formats.json_text import KeyReader, elements, members
from headgate.model.keys import KeyRule, parse_pointer
from headgate.model.outcome import Refused
from headgate.model.oversize import SplitRule
from headgate.model.record import (
    CHUNK_BYTES,
    CHUNK_COUNT,
    CHUNK_INDEX,
    CHUNK_SET,
    CHUNK_SHA256,
    Header,
)

MAX_BYTES = 16 * 1024 * 1024  # of one value, which a consumer may have to hold in memory
MIN_CHUNK_BYTES = 1024  # a topic with a lower limit cannot have chunks
MAX_CHUNKS = MAX_BYTES // MIN_CHUNK_BYTES
HEADERS_BYTES = 512  # upper bound of the bytes of a chunk's own headers
_ID_BYTES = 64


class Head(NamedTuple):
    """The data in a chunk's headers.

    Attributes:
        set_id: The id of the set.
        number: The index of the chunk, from 0.
        total: The number of chunks.
        size: The bytes of the whole value.
        sha256: The digest of the whole value.
    """

    set_id: bytes
    number: int
    total: int
    size: int
    sha256: bytes


class BadChunkError(ValueError):
    """Chunk headers that are inconsistent or incomplete."""


def cut(value: bytes, limit: int) -> list[bytes]:
    """Cut a value into pieces of at most `limit` bytes."""
    return [value[start : start + limit] for start in range(0, len(value), limit)]


def headers_of(head: Head) -> list[Header]:
    """Return the headers of a chunk."""
    return [
        (CHUNK_SET, head.set_id),
        (CHUNK_INDEX, b"%d" % head.number),
        (CHUNK_COUNT, b"%d" % head.total),
        (CHUNK_BYTES, b"%d" % head.size),
        (CHUNK_SHA256, head.sha256.hex().encode()),
    ]


def read_head(headers: Sequence[Header]) -> Head | None:
    """Return the data in a chunk's headers, or None for any other record. Raises BadChunkError."""
    own = [(name, value or b"") for name, value in headers if name.startswith("hg-chunk-")]
    values = dict(own)
    if CHUNK_SET not in values:
        return None
    if len(values) < len(own):
        raise BadChunkError("a chunk header is there twice")
    try:
        index, count, size = (int(values[each]) for each in (CHUNK_INDEX, CHUNK_COUNT, CHUNK_BYTES))
        digest = bytes.fromhex(values[CHUNK_SHA256].decode())
    except (KeyError, ValueError) as error:
        raise BadChunkError(f"chunk headers that are missing or no numbers: {error}") from None
    head = Head(values[CHUNK_SET], index, count, size, digest)
    is_sane = 0 <= index < count <= MAX_CHUNKS and count <= size <= MAX_BYTES
    if not is_sane or not 0 < len(head.set_id) <= _ID_BYTES or len(head.sha256) != 32:
        raise BadChunkError(f"chunk headers out of range: {head}")
    return head


# ---- reassembly of chunks that are repeated, interleaved, out of order or incomplete
#
# Only its first chunk begins a set. If the first chunk is before the begin of reading, the set had
# ended for the consumer that committed this offset: it was done or given up. Otherwise it would
# have held the offset back. Without this rule the rest of the set would hold back the next reader.
#
# The gateway writes the chunks of a value without a Kafka transaction: only `ChunkSets` protects a
# consumer from half an event. Callers pass the time.
#
# Prior art: linkedin/li-apache-kafka-clients (safe offset, expiry by offset gap, a buffer bounded
# in bytes), Apache Pulsar #21070 (a set that is sent again needs an id of its own).


Source = tuple[str, int]  # topic and partition of chunks

_ENDED_REMEMBERED = 1000  # ended sets of a partition whose late chunks are recognised


class Dropped(StrEnum):
    """Reason for giving up a set. Its chunks are skipped and counted, never silently."""

    HEADLESS = "headless"  # its first chunk is before the begin of reading, or was never written
    EXPIRED = "expired"  # still incomplete after max_age_s
    GAP = "gap"  # still incomplete max_gap records after its first chunk
    EVICTED = "evicted"  # its memory was needed
    CONFLICT = "conflict"  # two chunks of one set have different headers
    CORRUPT = "corrupt"  # complete, but with another size or digest than its headers have


class Bounds(NamedTuple):
    """Limits of incomplete sets.

    Attributes:
        max_bytes: Bytes of all incomplete sets together.
        max_sets: The number of incomplete sets.
        max_age_s: Seconds since a set's first chunk was read.
        max_gap: Offsets since a set's first chunk.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_sets: int = 1000
    max_age_s: float = 300.0
    max_gap: int = 100_000


DEFAULT_BOUNDS = Bounds()


class Chunk(NamedTuple):
    """A chunk as it was read; `owner` is the producer that its memory counts for."""

    source: Source
    offset: int
    key: bytes | None
    head: Head
    value: bytes | None
    owner: bytes = b""


class CompleteValue(NamedTuple):
    """A value whose chunks have all arrived with consistent headers."""

    value: bytes
    last_offset: int


class _Set:
    __slots__ = ("born_s", "bytes", "chunks", "first", "head", "key", "last_offset", "owner")

    def __init__(self, chunk: Chunk, now_s: float) -> None:
        self.head = chunk.head
        self.key = chunk.key
        self.owner = chunk.owner
        self.first = chunk
        self.last_offset = chunk.offset
        self.born_s = now_s
        self.bytes = 0
        self.chunks: dict[int, bytes] = {}

    def agrees(self, chunk: Chunk) -> bool:
        expected = self.head._replace(number=chunk.head.number)
        return expected == chunk.head and self.key == chunk.key

    def value(self) -> bytes | None:
        """Return the whole value, or None if its digest is wrong."""
        joined = b"".join(self.chunks[index] for index in range(self.head.total))
        return joined if sha256(joined).digest() == self.head.sha256 else None


class _Partition:
    """State of one partition.

    Attributes:
        next_offset: The next offset to read.
        sets: The incomplete sets by id, in the order of their first offsets.
        ended: The ids of ended sets.
    """

    __slots__ = ("ended", "next_offset", "sets")

    def __init__(self) -> None:
        self.next_offset = -1
        self.sets: OrderedDict[bytes, _Set] = OrderedDict()
        self.ended: OrderedDict[bytes, None] = OrderedDict()

    def end(self, set_id: bytes) -> None:
        self.ended[set_id] = None
        if len(self.ended) > _ENDED_REMEMBERED:
            self.ended.popitem(last=False)


class ChunkSets:
    """Incomplete sets of all partitions, with limits. Not thread-safe.

    Attributes:
        bytes: The bytes of incomplete sets.
        dropped: The number of sets that were given up, by reason.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._partitions: dict[Source, _Partition] = {}
        self._ages: OrderedDict[tuple[Source, bytes], _Set] = OrderedDict()  # oldest first
        self._owners: Counter[bytes] = Counter()  # bytes of each owner
        self.bytes = 0
        self._dropped: Counter[Dropped] = Counter()

    def __len__(self) -> int:
        """Return the number of incomplete sets."""
        return len(self._ages)

    @property
    def dropped(self) -> Mapping[Dropped, int]:
        return self._dropped

    def passed(self, source: Source, offset: int, now_s: float) -> None:
        """Record that a record was read; call it for every record in the order of offsets.

        A lower offset than expected means that the partition is read again from there. Its sets are
        forgotten then, because all their chunks will come again.
        """
        partition = self._partitions.get(source)
        if partition is None:
            partition = self._partitions[source] = _Partition()
        elif offset < partition.next_offset:
            self.forget(source)
            partition = self._partitions[source] = _Partition()
        partition.next_offset = offset + 1
        while partition.sets:
            set_id, oldest = next(iter(partition.sets.items()))
            if offset - oldest.first.offset <= self._bounds.max_gap:
                break
            self._drop(source, set_id, Dropped.GAP)
        self.expire(now_s)

    def add(self, chunk: Chunk, now_s: float) -> CompleteValue | None:
        """Add a chunk (after `passed`), and return the value if the chunk completes it.

        After the first chunk of a set, the others may come in any order, more than once, and
        between chunks of other sets.
        """
        partition = self._partitions[chunk.source]
        set_id = chunk.head.set_id
        if set_id in partition.ended:
            return None
        chunk_set = partition.sets.get(set_id)
        if chunk_set is None:
            if chunk.head.number > 0:
                self._dropped[Dropped.HEADLESS] += 1
                partition.end(set_id)
                return None
            chunk_set = self._begin(partition, chunk, now_s)
        if not chunk_set.agrees(chunk):
            self._drop(chunk.source, set_id, Dropped.CONFLICT)
            return None
        if chunk.head.number not in chunk_set.chunks:
            self._keep(chunk_set, chunk)
        chunk_set.last_offset = chunk.offset
        return self._finish(partition, chunk_set)

    def low_water(self, source: Source) -> int | None:
        """Return the offset that may be committed; None if nothing was read yet."""
        partition = self._partitions.get(source)
        if partition is None:
            return None
        held = self.first_open(source)
        return partition.next_offset if held is None else held

    def first_open(self, source: Source) -> int | None:
        """Return the first offset of a partition's first incomplete set; None if there is none."""
        partition = self._partitions.get(source)
        sets = () if partition is None else partition.sets.values()
        return next((chunk_set.first.offset for chunk_set in sets), None)

    def expire(self, now_s: float) -> None:
        """Give up sets that are too old, also in partitions without new records."""
        while self._ages:
            (partition, set_id), oldest = next(iter(self._ages.items()))
            if now_s - oldest.born_s <= self._bounds.max_age_s:
                return
            self._drop(partition, set_id, Dropped.EXPIRED)

    def forget(self, source: Source) -> None:
        """Forget a partition that another consumer owns now, or that is read again."""
        partition = self._partitions.pop(source, None)
        if partition is not None:
            for set_id in list(partition.sets):
                self._remove(partition, source, set_id)

    def _begin(self, partition: _Partition, chunk: Chunk, now_s: float) -> _Set:
        chunk_set = partition.sets[chunk.head.set_id] = _Set(chunk._replace(value=None), now_s)
        self._ages[chunk.source, chunk.head.set_id] = chunk_set
        if len(self._ages) > self._bounds.max_sets:
            self._evict(chunk_set)
        return chunk_set

    def _keep(self, chunk_set: _Set, chunk: Chunk) -> None:
        value = chunk.value or b""
        chunk_set.chunks[chunk.head.number] = value
        chunk_set.bytes += len(value)
        self._owners[chunk_set.owner] += len(value)
        self.bytes += len(value)
        while self.bytes > self._bounds.max_bytes and len(self._ages) > 1:
            self._evict(chunk_set)

    def _evict(self, spare: _Set) -> None:
        """Drop the oldest set of the producer that holds most bytes, to protect the others."""
        greedy = max(self._owners, key=self._owners.__getitem__, default=spare.owner)
        candidates = [each for each in self._ages.items() if each[1] is not spare]
        own_sets = (at for at, each in candidates if each.owner == greedy)
        partition, set_id = next(own_sets, candidates[0][0])
        self._drop(partition, set_id, Dropped.EVICTED)

    def _finish(self, partition: _Partition, chunk_set: _Set) -> CompleteValue | None:
        position, head = chunk_set.first.source, chunk_set.head
        if chunk_set.bytes > head.size:
            self._drop(position, head.set_id, Dropped.CORRUPT)
            return None
        if len(chunk_set.chunks) < head.total:
            return None
        value = chunk_set.value() if chunk_set.bytes == head.size else None
        if value is None:
            self._drop(position, head.set_id, Dropped.CORRUPT)
            return None
        self._remove(partition, position, head.set_id)
        return CompleteValue(value, chunk_set.last_offset)

    def _drop(self, source: Source, set_id: bytes, why: Dropped) -> None:
        self._dropped[why] += 1
        self._remove(self._partitions[source], source, set_id)

    def _remove(self, partition: _Partition, source: Source, set_id: bytes) -> None:
        removed = partition.sets.pop(set_id)
        del self._ages[source, set_id]
        self.bytes -= removed.bytes
        self._owners[removed.owner] -= removed.bytes
        if self._owners[removed.owner] <= 0:
            del self._owners[removed.owner]
        partition.end(set_id)


# ---- documents split at one of their arrays: elements become records, the rest is the manifest
#
# The parts are slices of the text, so `rebuild` returns the document byte for byte. The manifest is
# a JSON object:
#
# {"manifest": 1, "pointer": "/options", "element_key": "/id", "count": 600, "bytes": 812345,
# "sha256": "...", "keys": ["17", ...], "document": {... "options": [] ...}, "at": 123,
# "gaps": ["[", ",", "]"], "around": ["", ""]}
#
# keys: the keys of the elements, in their order.  document: the document without the elements.
# at: the byte offset of the array in it.  gaps: the text before, between and after the elements; if
# all gaps between elements are equal, only one of them is written.  around: blanks before and after
# the document.  bytes, sha256: size and digest of the document.


MAX_ELEMENTS = 10_000
_BLANKS = b" \t\r\n"


class _Manifest(TypedDict):
    keys: list[str]
    at: int
    gaps: list[str]
    around: list[str]
    sha256: str


class Element(NamedTuple):
    """An element of a split document: the key of its record, and its exact slice."""

    key: bytes
    value: bytes


class Split(NamedTuple):
    """A split document: its elements and its manifest."""

    elements: list[Element]
    manifest: bytes


class NotSplit(Exception):
    """A document that cannot be split by the rule; the message has the reason."""


def split(document: bytes, rule: SplitRule, parent_key: bytes) -> Split:
    """Split a document, which must be valid JSON of bounded depth. Raises NotSplit."""
    array = _array(document, rule.pointer)
    at = document.find(array)
    if document.find(array, at + 1) >= 0:
        raise NotSplit(f"the text of the array at {rule.pointer} occurs twice")
    values = elements(array)
    if not 0 < len(values) <= MAX_ELEMENTS:
        raise NotSplit(f"{rule.pointer} has {len(values)} elements, not 1 to {MAX_ELEMENTS}")
    pieces = [*map(Element, _keys(values, rule, parent_key), values)]
    rest = document[:at] + b"[]" + document[at + len(array) :]
    lead, trailing = len(rest) - len(rest.lstrip(_BLANKS)), len(rest.rstrip(_BLANKS))
    about = {
        "manifest": 1,
        "pointer": rule.pointer,
        "element_key": rule.key,
        "count": len(pieces),
        "bytes": len(document),
        "sha256": sha256(document).hexdigest(),
        "keys": [each.key.decode() for each in pieces],
        "document": orjson.Fragment(rest[lead:trailing]),
        "at": at - lead,
        "gaps": [gap.decode() for gap in _gaps(array, values)],
        "around": [rest[:lead].decode(), rest[trailing:].decode()],
    }
    return Split(pieces, orjson.dumps(about))


def rebuild(manifest: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """Return the document, byte for byte.

    Args:
        manifest: The value of the manifest.
        values: The values of the elements by key; additional ones are ignored.

    Raises:
        KeyError: An element is missing.
        ValueError: The elements belong to another version of the document, or the manifest is
            malformed.
    """
    try:
        about: _Manifest = orjson.loads(manifest)
        rest, keys = members(manifest)["document"], [key.encode() for key in about["keys"]]
        at, gaps, digest = about["at"], [gap.encode() for gap in about["gaps"]], about["sha256"]
        lead, trailing = (blanks.encode() for blanks in about["around"])
    except (KeyError, TypeError, AttributeError, Refused) as error:
        raise ValueError(f"not a manifest: {error!r}") from None
    between = gaps[1:-1] if len(gaps) == len(keys) + 1 else gaps[1:2] * (len(keys) - 1)
    parts = [lead, rest[:at], gaps[0]]
    for number, key in enumerate(keys):
        parts += [between[number - 1]] if number else []
        parts.append(values[key])
    document = b"".join([*parts, gaps[-1], rest[at + 2 :], trailing])
    if sha256(document).hexdigest() != digest:
        raise ValueError("the elements are of another version of the document")
    return document


def _array(document: bytes, pointer: str) -> bytes:
    value = document
    for token in parse_pointer(pointer):
        try:
            value = members(value).get(token, b"") if value.lstrip()[:1] == b"{" else b""
        except Refused as refused:
            raise NotSplit(str(refused)) from None
    if value[:1] != b"[" or not parse_pointer(pointer):
        raise NotSplit(f"there is no array at {pointer}")
    return value


def _keys(values: Sequence[bytes], rule: SplitRule, parent_key: bytes) -> list[bytes]:
    read = KeyReader(KeyRule.parse((rule.key,)))
    try:
        keys = [read(value) or b"" for value in values]
    except Refused as refused:
        raise NotSplit(f"an element has no key: {refused}") from None
    if len({*keys, parent_key}) <= len(keys):
        raise NotSplit("two elements have one key, or that of the whole")
    return keys


def _gaps(array: bytes, values: Sequence[bytes]) -> list[bytes]:
    """Return the gaps between elements.

    They are only blanks and commas, so the first occurrence of an element's text after the previous
    element is the element itself.
    """
    gaps, at = [], 0
    for value in values:
        start = array.index(value, at + (1 if at == 0 else 0))
        gaps.append(array[at:start])
        at = start + len(value)
    gaps.append(array[at:])
    is_uniform = len(set(gaps[1:-1])) == 1
    return [gaps[0], gaps[1], gaps[-1]] if is_uniform else gaps
