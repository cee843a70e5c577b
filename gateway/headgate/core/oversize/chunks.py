"""Chunks of an oversized value as records: how it is cut, and what their headers say.

The first chunk of a set lies before its others in the log: whoever writes them keeps to that. So a
reader that meets a later one first has begun in the middle of the set. `chunk_sets.py` puts
them together again.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, TypedDict
from urllib.parse import urlsplit

import orjson

from headgate.core.content import Digester
from headgate.core.event import RawEvent
from headgate.core.formats import cloudevents
from headgate.core.formats.decode import JSON, BodyKind, Headers, kind_of
from headgate.core.formats.json_stream import JsonStream
from headgate.core.formats.jsontext import KeyReader, elements, members
from headgate.core.keys import KeyRule, parse_pointer
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import streamed_batch
from headgate.core.oversize.strategies import SplitRule, StoredBlob
from headgate.core.record import (
    CHUNK_BYTES,
    CHUNK_COUNT,
    CHUNK_INDEX,
    CHUNK_SET,
    CHUNK_SHA256,
    Header,
)
from headgate.core.refusal import Refused, long_key, malformed
from headgate.core.request import is_array_one_event, is_tombstone, read_options
from headgate.core.topics.policy import fingerprint
from headgate.core.topics.route import Route

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


# Puts chunks together again, whatever arrives: repeated, interleaved, out of order, never all.
#
# Only the first chunk of a set begins it (`chunks.py`). A set whose first chunk lies before where
# reading began had ended for whoever committed that offset: it was done, or given up. Otherwise it
# would have held the offset back. Without this rule its remainder would hold back the next reader.
#
# The gateway writes the chunks of a value without a Kafka transaction: what stands between a
# consumer and half an event is `ChunkSets` alone. It is told the time.
#
# Prior art: linkedin/li-apache-kafka-clients (safe offset, expiry by offset gap, a buffer bounded
# in bytes), Apache Pulsar #21070 (a set that is sent again needs an id of its own).


Place = tuple[str, int]  # topic and partition

_ENDED_REMEMBERED = 1000  # sets of a partition whose late chunks are known to be late


class Dropped(StrEnum):
    """Why a set was given up. Its chunks are skipped, and counted: never silently."""

    HEADLESS = "headless"  # its first chunk lies before where reading began, or was never written
    EXPIRED = "expired"  # still incomplete after max_age_s
    GAP = "gap"  # still incomplete max_gap records after its first chunk
    EVICTED = "evicted"  # the memory was needed
    CONFLICT = "conflict"  # two chunks of one set that disagree about it
    CORRUPT = "corrupt"  # complete, and not of the size or digest that its chunks promised


class Bounds(NamedTuple):
    """max_bytes, max_sets: of all incomplete sets together.  max_age_s: seconds since a set's
    first chunk was read.  max_gap: offsets since its first chunk.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_sets: int = 1000
    max_age_s: float = 300.0
    max_gap: int = 100_000


DEFAULT_BOUNDS = Bounds()


class Chunk(NamedTuple):
    """One chunk as it was read. owner: whose memory it is, the producer's name."""

    place: Place
    offset: int
    key: bytes | None
    head: Head
    value: bytes | None
    owner: bytes = b""


class CompleteValue(NamedTuple):
    """A value whose chunks all arrived and agree."""

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
        """The whole value, or None when it is not what its chunks promised."""
        joined = b"".join(self.chunks[index] for index in range(self.head.total))
        return joined if sha256(joined).digest() == self.head.sha256 else None


class _Partition:
    """sets: incomplete ones, by id, in the order of their first offsets.  ended: ids of others."""

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
    """Incomplete sets of all partitions, bounded. Not safe for use from several threads.

    dropped: how many sets were given up, by `Dropped`.  bytes: held by incomplete sets.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._partitions: dict[Place, _Partition] = {}
        self._ages: OrderedDict[tuple[Place, bytes], _Set] = OrderedDict()  # oldest first
        self._owners: Counter[bytes] = Counter()  # bytes of each owner
        self.bytes = 0
        self._dropped: Counter[Dropped] = Counter()

    def __len__(self) -> int:
        """How many sets are incomplete."""
        return len(self._ages)

    @property
    def dropped(self) -> Mapping[Dropped, int]:
        return self._dropped

    def passed(self, place: Place, offset: int, now_s: float) -> None:
        """Every record read goes through here first, chunk or not, in the order of offsets.

        A lower offset than expected means that the partition is read again from there: what was
        held of it is forgotten, for all of it will come again.
        """
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = _Partition()
        elif offset < partition.next_offset:
            self.forget(place)
            partition = self._partitions[place] = _Partition()
        partition.next_offset = offset + 1
        while partition.sets:
            set_id, oldest = next(iter(partition.sets.items()))
            if offset - oldest.first.offset <= self._bounds.max_gap:
                break
            self._drop(place, set_id, Dropped.GAP)
        self.expire(now_s)

    def add(self, chunk: Chunk, now_s: float) -> CompleteValue | None:
        """Take a chunk (after `passed`); the value when it was the last one that lacked.

        Behind the first chunk of a set, the others may come in any order, more than once, and
        between those of other sets.
        """
        partition = self._partitions[chunk.place]
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
            self._drop(chunk.place, set_id, Dropped.CONFLICT)
            return None
        if chunk.head.number not in chunk_set.chunks:
            self._keep(chunk_set, chunk)
        chunk_set.last_offset = chunk.offset
        return self._finish(partition, chunk_set)

    def low_water(self, place: Place) -> int | None:
        """The offset up to which all is done: it may be committed. None: nothing was read yet."""
        partition = self._partitions.get(place)
        if partition is None:
            return None
        held = self.first_open(place)
        return partition.next_offset if held is None else held

    def first_open(self, place: Place) -> int | None:
        """The first offset of the first incomplete set of a partition; None: it has none."""
        partition = self._partitions.get(place)
        sets = () if partition is None else partition.sets.values()
        return next((chunk_set.first.offset for chunk_set in sets), None)

    def expire(self, now_s: float) -> None:
        """Give up sets that are too old; also where nothing arrives any more."""
        while self._ages:
            (partition, set_id), oldest = next(iter(self._ages.items()))
            if now_s - oldest.born_s <= self._bounds.max_age_s:
                return
            self._drop(partition, set_id, Dropped.EXPIRED)

    def forget(self, place: Place) -> None:
        """The partition belongs to another consumer now, or is read again."""
        partition = self._partitions.pop(place, None)
        if partition is not None:
            for set_id in list(partition.sets):
                self._remove(partition, place, set_id)

    def _begin(self, partition: _Partition, chunk: Chunk, now_s: float) -> _Set:
        chunk_set = partition.sets[chunk.head.set_id] = _Set(chunk._replace(value=None), now_s)
        self._ages[chunk.place, chunk.head.set_id] = chunk_set
        if len(self._ages) > self._bounds.max_sets:
            self._evict(chunk_set)
        return chunk_set

    def _keep(self, one: _Set, chunk: Chunk) -> None:
        value = chunk.value or b""
        one.chunks[chunk.head.number] = value
        one.bytes += len(value)
        self._owners[one.owner] += len(value)
        self.bytes += len(value)
        while self.bytes > self._bounds.max_bytes and len(self._ages) > 1:
            self._evict(one)

    def _evict(self, spare: _Set) -> None:
        """Drop the oldest set of whoever holds most: one producer must not push out the others."""
        greedy = max(self._owners, key=self._owners.__getitem__, default=spare.owner)
        candidates = [each for each in self._ages.items() if each[1] is not spare]
        own_sets = (at for at, each in candidates if each.owner == greedy)
        partition, set_id = next(own_sets, candidates[0][0])
        self._drop(partition, set_id, Dropped.EVICTED)

    def _finish(self, partition: _Partition, one: _Set) -> CompleteValue | None:
        position, head = one.first.place, one.head
        if one.bytes > head.size:
            self._drop(position, head.set_id, Dropped.CORRUPT)
            return None
        if len(one.chunks) < head.total:
            return None
        value = one.value() if one.bytes == head.size else None
        if value is None:
            self._drop(position, head.set_id, Dropped.CORRUPT)
            return None
        self._remove(partition, position, head.set_id)
        return CompleteValue(value, one.last_offset)

    def _drop(self, place: Place, set_id: bytes, why: Dropped) -> None:
        self._dropped[why] += 1
        self._remove(self._partitions[place], place, set_id)

    def _remove(self, partition: _Partition, place: Place, set_id: bytes) -> None:
        removed = partition.sets.pop(set_id)
        del self._ages[place, set_id]
        self.bytes -= removed.bytes
        self._owners[removed.owner] -= removed.bytes
        if self._owners[removed.owner] <= 0:
            del self._owners[removed.owner]
        partition.end(set_id)


# Events too large for memory: their bodies go to the blob store as they arrive.
#
# What is known of such an event beforehand is in its request's headers; what its bytes say is found
# out piece by piece.


_BOM = b"\xef\xbb\xbf"


class Announced(NamedTuple):
    """An event before its body. event: all but its value.  is_json: its body must be JSON.
    may_be_batch: it is one event only if the body is no array."""

    event: RawEvent
    is_json: bool = False
    may_be_batch: bool = False


class Streamed(NamedTuple):
    """An event whose value is in the blob store alone.

    event: all but its value.  digest: of the value, where the topic suppresses.
    """

    event: RawEvent
    stored: StoredBlob
    digest: bytes | None = None


def takes_streams(route: Route) -> bool:
    """Whether an event of any size ends in the topic's blob store.

    A schema needs the document; `notify` before `claim-check` wants no blob.
    """
    strategies = route.strategies
    if "claim-check" not in strategies or route.policy.schema is not None:
        return False
    return "notify" not in strategies[: strategies.index("claim-check")]


def announced(headers: Headers, route: Route) -> Announced | None:
    """The event that a request announces; None where the body must be read to tell.

    Raises Refused: malformed headers; missing_key, invalid_key.
    """
    if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        return None
    event = _announced(headers, route)
    if event is None:
        return None
    key = read_options(headers).key or event.event.key
    if key is None:
        _refuse_keyless(route, event)
    elif len(key) > route.key_max_bytes:
        raise Refused(long_key(route.key_max_bytes))
    return event


def _announced(headers: Headers, route: Route) -> Announced | None:
    if is_tombstone(headers):
        return None
    content_type = headers.get(b"content-type", b"application/octet-stream")
    if b"ce-specversion" in headers:
        if route.policy.cloudevents == "structured":
            return None
        # as with the body there: without one it has no document
        sample = cloudevents.from_headers(b"0", headers, False)
        is_json = sample.document is not None
        return Announced(sample._replace(value=b"", document=None), is_json)
    kind = kind_of(content_type)
    if kind is BodyKind.OPAQUE:
        return Announced(RawEvent(b"", None, content_type=content_type))
    if kind is BodyKind.JSON_ONE:
        return Announced(RawEvent(b"", None, content_type=content_type), True)
    if kind is BodyKind.JSON:
        may_be_batch = not is_array_one_event(headers)
        return Announced(RawEvent(b"", None, content_type=JSON), True, may_be_batch)
    return None


def _refuse_keyless(route: Route, found: Announced) -> None:
    if found.is_json and route.policy.key:
        detail = (
            "the body is larger than http.body_max_bytes and goes straight to the blob store, so "
            "its key cannot be read from it: send Headgate-Key"
        )
    elif route.policy.keyless != "spread":
        detail = "the event has no key, and the body is not searched for one: send Headgate-Key"
    else:
        return
    raise Refused(Failure(Reason.MISSING_KEY, detail))


class BodyInspector:
    """What the gateway must know of a body, from its pieces in their order."""

    def __init__(self, found: Announced, route: Route, json_max_depth: int) -> None:
        self._found = found
        self._is_first = True
        self._text = JsonStream(json_max_depth) if found.is_json else None
        self._digest = None
        if route.digest is not None:
            rules = bytes.fromhex(fingerprint(route.policy))
            self._digest = Digester(rules).begin(found.event.content_type)

    def take(self, piece: bytes) -> None:
        """Raises Refused (malformed)."""
        if self._is_first:
            self._is_first = False
            self._begin(piece)
        if self._text is not None:
            self._text.feed(piece)
        if self._digest is not None:
            self._digest.update(piece)

    def end(self) -> bytes | None:
        """The digest, where the topic suppresses. Raises Refused (malformed)."""
        if self._text is not None:
            self._text.end()
        return None if self._digest is None else self._digest.digest()

    def _begin(self, piece: bytes) -> None:
        if self._found.is_json and piece.startswith(_BOM):
            raise Refused(malformed("the body begins with a byte order mark"))
        if not self._found.may_be_batch:
            return
        opening = piece.lstrip(b" \t\r\n")[:1]
        if opening == b"[":
            raise Refused(streamed_batch())
        if not opening:
            raise Refused(malformed("the body begins with too much white space"))


# A document cut along one of its arrays: an element is a record, the rest is the manifest.
#
# Slices of the text, never reserialised: `rebuild` gives back the document byte for byte. The
# manifest is a JSON object:
#
# {"manifest": 1, "pointer": "/options", "element_key": "/id", "count": 600, "bytes": 812345,
# "sha256": "...", "keys": ["17", ...], "document": {... "options": [] ...}, "at": 123,
# "gaps": ["[", ",", "]"], "around": ["", ""]}
#
# keys: of the elements, in their order.  document: all but the elements, as sent.  at: the offset
# in bytes of the array in it.  gaps: the text before, between and after the elements; of more than
# two elements only three are written when those between are alike.  around: blanks before and after
# the document.  bytes, sha256: of the document.


MAX_ELEMENTS = 10_000
_BLANKS = b" \t\r\n"


class _Manifest(TypedDict):
    keys: list[str]
    at: int
    gaps: list[str]
    around: list[str]
    sha256: str


class Element(NamedTuple):
    """key: of its record.  value: the exact slice of the document."""

    key: bytes
    value: bytes


class Split(NamedTuple):
    """A document in pieces."""

    elements: list[Element]
    manifest: bytes


class NotSplit(Exception):
    """Why a document does not come apart by this rule."""


def split(document: bytes, rule: SplitRule, parent_key: bytes) -> Split:
    """Raises NotSplit. The document is known to be JSON of bounded depth."""
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
    """The document, byte for byte. values: of the elements, by key; more than needed do no harm.

    Raises KeyError (an element is missing) or ValueError (the elements are of another version of
    the document, or this is no manifest).
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
    """Blanks and commas only, so an element's first occurrence behind the last is itself."""
    gaps, at = [], 0
    for value in values:
        start = array.index(value, at + (1 if at == 0 else 0))
        gaps.append(array[at:start])
        at = start + len(value)
    gaps.append(array[at:])
    is_uniform = len(set(gaps[1:-1])) == 1
    return [gaps[0], gaps[1], gaps[-1]] if is_uniform else gaps


# Names of blobs: content-addressed below their topic, and what may be a blob's URL at all.
#
# file:///var/lib/headgate/blobs/documents/3f/3f79bb7b435b0521...   root/topic/two digits/sha256


SCHEMES = ("file", "s3")
_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(r"[\w./\-+=@,~ ]*")  # no %, ?, #, : or control signs: nothing to decode twice


class BlobName(NamedTuple):
    """topic: of the event.  digest: SHA-256 in hexadecimal."""

    topic: str
    digest: str

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{self.topic}/{self.digest[:2]}/{self.digest}"


def blob_name(topic: str, digest: str) -> BlobName:
    """Raises ValueError for a topic or digest that could name anything else."""
    if not _TOPIC.fullmatch(topic) or topic in (".", "..") or not _DIGEST.fullmatch(digest):
        raise ValueError(f"no blob has the name {topic!r} / {digest!r}")
    return BlobName(topic, digest)


def parse_path(path: str) -> BlobName | None:
    """The name of a blob from its path below the root; None for anything that is not one."""
    parts = path.split("/")
    if len(parts) != 3 or not _DIGEST.fullmatch(parts[2]) or parts[1] != parts[2][:2]:
        return None
    try:
        return blob_name(parts[0], parts[2])
    except ValueError:
        return None


def root_problem(url: str) -> str | None:
    """What is wrong with the root of a blob store, or None."""
    split = urlsplit(url)
    if split.scheme not in SCHEMES or not url.startswith(f"{split.scheme}://"):
        return "must begin with file:/// or s3://"
    if split.query or split.fragment or not _PLAIN.fullmatch(split.path):
        return "must be a plain path, without escapes, query or fragment"
    if any(part in (".", "..") for part in split.path.split("/")):
        return "must not have . or .. in it"
    if split.scheme == "file" and (split.netloc or len(split.path) < 2):
        return "must be an absolute path: file:///folder"
    if split.scheme == "s3" and not re.fullmatch(r"[a-z0-9][a-z0-9.\-]{1,62}", split.netloc):
        return "must name a bucket: s3://bucket/prefix"
    return None


def is_below(url: str, root: str) -> bool:
    """Whether a URL names a blob below this root, and nothing else by any reading of it."""
    base = root.rstrip("/") + "/"
    return url.startswith(base) and parse_path(url[len(base) :]) is not None
