"""Assembly of chunked events (the oversize policy's `chunk`).

Pass every record to the assembler, in the order of each partition. It returns complete events:
ordinary records unchanged, and a chunked event with its last chunk. Commit `low_water`, never the
position. It stays before the first chunk of any incomplete set, so that a restarted consumer reads
those sets from their beginning. Complete events behind such a set then come once more
(at-least-once, as everywhere in Kafka; `hg-event-id` identifies repeats).

    class Forget(ConsumerRebalanceListener):
        def __init__(self, assembler):
            self.assembler = assembler

        async def on_partitions_revoked(self, revoked):
            for tp in revoked:
                self.assembler.revoked(tp.topic, tp.partition)

        async def on_partitions_assigned(self, assigned):
            pass

    async def archive(bootstrap, handle):
        assembler = Assembler()                                  # chunks: bounded, checked
        claims = ClaimChecks("file:///var/lib/headgate/blobs")   # reads below this root only
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id="archive",
            enable_auto_commit=False, auto_offset_reset="earliest",
        )
        consumer.subscribe(["documents"], listener=Forget(assembler))
        await consumer.start()
        try:
            while True:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    for record in records:
                        event = assembler.add(record)            # None: chunks are missing
                        if event is not None:
                            await handle(event, await claims.value(event))
                if marks := assembler.committable():             # never past an incomplete set
                    await consumer.commit(marks)
        finally:
            await consumer.stop()

A test runs exactly this, and docs/publish/oversize.md shows it.

A set that stays incomplete (the gateway died between two chunks; the producer's retry is another
set) is dropped after `Bounds.max_age_s` or `Bounds.max_gap` offsets, counted in `dropped`, and
logged. Its event either got an error response, or comes again in a complete set.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headgate.model.record import PRODUCER
from headgate.oversize.chunks import (
    DEFAULT_BOUNDS,
    BadChunkError,
    Bounds,
    Chunk,
    ChunkSets,
    Dropped,
    read_head,
)

__all__ = ["Assembler", "Bounds", "Dropped", "Event", "ReadRecord"]

log = logging.getLogger("headgate.consumer")

_CHUNK_PREFIX = "hg-chunk-"

Headers = Sequence[tuple[str, bytes | None]]


class ReadRecord(Protocol):
    """A record as aiokafka and kafka-python hand it out (`ConsumerRecord`)."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Any: ...
    @property
    def timestamp(self) -> int: ...


class Event(NamedTuple):
    """A complete event.

    Attributes:
        offset: Offset of the record, or of the chunk that completed the event.
        timestamp: Milliseconds since 1970.
        headers: Headers without those of the chunks.
        records: Number of its records in Kafka.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    records: int = 1

    def header(self, name: str) -> bytes | None:
        """Return the last header of a name."""
        return dict(self.headers).get(name)


class Assembler:
    """An assembler of the events of any number of partitions. See the module.

    It is not thread-safe.

    Args:
        bounds: Limits of all incomplete sets.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, bounds: Bounds = DEFAULT_BOUNDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sets = ChunkSets(bounds)
        self._clock = clock
        self._places: set[tuple[str, int]] = set()
        self._bad = 0
        self._reported: dict[Dropped, int] = {}

    @property
    def dropped(self) -> Mapping[str, int]:
        """Return the dropped sets, by reason, and the skipped `malformed` chunks."""
        malformed = {"malformed": self._bad} if self._bad else {}
        return {str(why): count for why, count in self._sets.dropped.items()} | malformed

    @property
    def incomplete(self) -> int:
        """Return the number of incomplete sets."""
        return len(self._sets)

    @property
    def bytes(self) -> int:
        """Return the memory of incomplete sets, in bytes."""
        return self._sets.bytes

    def add(self, record: ReadRecord) -> Event | None:
        """Take the next record of its partition; return the event if it is complete."""
        now_s = self._clock()
        tp = (record.topic, record.partition)
        self._places.add(tp)
        self._sets.passed(tp, record.offset, now_s)
        try:
            head = read_head(record.headers)
        except BadChunkError as error:
            self._bad += 1
            log.warning("record %s-%s at offset %s skipped: %s", *tp, record.offset, error)
            return None
        if head is None:
            self._report()
            return _event(record, record.value, record.headers, 1)
        owner = dict(record.headers).get(PRODUCER) or b""
        chunk = Chunk(tp, record.offset, record.key, head, record.value, owner)
        complete = self._sets.add(chunk, now_s)
        self._report()
        if complete is None:
            return None
        headers = [each for each in record.headers if not each[0].startswith(_CHUNK_PREFIX)]
        return _event(record, complete.value, headers, head.total)

    def low_water(self, topic: str, partition: int) -> int | None:
        """Return the offset that may be committed; None before anything was read."""
        self._sets.expire(self._clock())
        self._report()
        return self._sets.low_water((topic, partition))

    def first_open(self, topic: str, partition: int) -> int | None:
        """Return the first offset of a partition's first incomplete set; None without one."""
        self._sets.expire(self._clock())
        self._report()
        return self._sets.first_open((topic, partition))

    def committable(self) -> dict[Any, int]:
        """Return the low-water marks of all partitions, for `AIOKafkaConsumer.commit`."""
        from aiokafka import TopicPartition  # the pure parts are of use without it

        marks = {tp: self.low_water(*tp) for tp in self._places}
        return {TopicPartition(*tp): mark for tp, mark in marks.items() if mark is not None}

    def revoked(self, topic: str, partition: int) -> None:
        """Forget a partition that has another owner, with its incomplete sets."""
        self._places.discard((topic, partition))
        self._sets.forget((topic, partition))

    def _report(self) -> None:
        for why, count in self._sets.dropped.items():
            if count > self._reported.get(why, 0):
                self._reported[why] = count
                # A headless set began before the committed offset: the earlier consumer had it.
                level = logging.DEBUG if why is Dropped.HEADLESS else logging.WARNING
                log.log(level, "incomplete set of chunks dropped: %s (%d so far)", why, count)


def _event(record: ReadRecord, value: "bytes | None", headers: Headers, records: int) -> Event:
    return Event(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=value,
        headers=headers,
        timestamp=record.timestamp,
        records=records,
    )
