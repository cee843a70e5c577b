"""Puts chunks together again, whatever arrives: repeated, interleaved, out of order, never all.

Only the first chunk of a set begins it (`chunks.py`). A set whose first chunk lies before where
reading began had ended for whoever committed that offset: it was done, or given up. Otherwise it
would have held the offset back. Without this rule its remainder would hold back the next reader.

The gateway writes the chunks of a value without a Kafka transaction: what stands between a
consumer and half an event is `ChunkSets` alone. It is told the time.

Prior art: linkedin/li-apache-kafka-clients (safe offset, expiry by offset gap, a buffer bounded
in bytes), Apache Pulsar #21070 (a set that is sent again needs an id of its own).
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from headgate.core.oversize.chunks import Head

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
        mine = self.head._replace(number=chunk.head.number)
        return mine == chunk.head and self.key == chunk.key

    def value(self) -> bytes | None:
        """The whole value, or None when it is not what its chunks promised."""
        whole = b"".join(self.chunks[index] for index in range(self.head.total))
        return whole if sha256(whole).digest() == self.head.sha256 else None


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
        one = partition.sets.get(set_id)
        if one is None:
            if chunk.head.number > 0:
                self._dropped[Dropped.HEADLESS] += 1
                partition.end(set_id)
                return None
            one = self._begin(partition, chunk, now_s)
        if not one.agrees(chunk):
            self._drop(chunk.place, set_id, Dropped.CONFLICT)
            return None
        if chunk.head.number not in one.chunks:
            self._keep(one, chunk)
        one.last_offset = chunk.offset
        return self._finish(partition, one)

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
        return next((one.first.offset for one in sets), None)

    def expire(self, now_s: float) -> None:
        """Give up sets that are too old; also where nothing arrives any more."""
        while self._ages:
            (place, set_id), oldest = next(iter(self._ages.items()))
            if now_s - oldest.born_s <= self._bounds.max_age_s:
                return
            self._drop(place, set_id, Dropped.EXPIRED)

    def forget(self, place: Place) -> None:
        """The partition belongs to another consumer now, or is read again."""
        partition = self._partitions.pop(place, None)
        if partition is not None:
            for set_id in list(partition.sets):
                self._remove(partition, place, set_id)

    def _begin(self, partition: _Partition, chunk: Chunk, now_s: float) -> _Set:
        one = partition.sets[chunk.head.set_id] = _Set(chunk._replace(value=None), now_s)
        self._ages[chunk.place, chunk.head.set_id] = one
        if len(self._ages) > self._bounds.max_sets:
            self._evict(one)
        return one

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
        mine = (at for at, each in candidates if each.owner == greedy)
        place, set_id = next(mine, candidates[0][0])
        self._drop(place, set_id, Dropped.EVICTED)

    def _finish(self, partition: _Partition, one: _Set) -> CompleteValue | None:
        place, head = one.first.place, one.head
        if one.bytes > head.size:
            self._drop(place, head.set_id, Dropped.CORRUPT)
            return None
        if len(one.chunks) < head.total:
            return None
        value = one.value() if one.bytes == head.size else None
        if value is None:
            self._drop(place, head.set_id, Dropped.CORRUPT)
            return None
        self._remove(partition, place, head.set_id)
        return CompleteValue(value, one.last_offset)

    def _drop(self, place: Place, set_id: bytes, why: Dropped) -> None:
        self._dropped[why] += 1
        self._remove(self._partitions[place], place, set_id)

    def _remove(self, partition: _Partition, place: Place, set_id: bytes) -> None:
        one = partition.sets.pop(set_id)
        del self._ages[place, set_id]
        self.bytes -= one.bytes
        self._owners[one.owner] -= one.bytes
        if self._owners[one.owner] <= 0:
            del self._owners[one.owner]
        partition.end(set_id)
