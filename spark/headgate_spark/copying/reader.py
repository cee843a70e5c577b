"""A reader of one partition of the source, in chunks. It skips nothing silently."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import (
    AIOKafkaClient,
    FetchRequest,
    client_of,
    drop_consumer,
    is_running,
)
from headgate.replays.offset_map import Layout, MapAddress, PartitionMap, map_partition
from headgate.replays.segments import FOREIGN, Segment
from headgate_spark.copying.batches import MAX_BATCH_BYTES, Chunk, SourceRecord
from headgate_spark.copying.cluster import CLIENT_ERRORS, open_consumer, topic_id
from headgate_spark.job.command_line import SayingError, in_words
from headgate_spark.job.options import Connection

# ---- speed: a bucket of bytes for each broker, which may run into debt (pure)
#
# A fetch's size is known when its answer has come, so the answer is paid for by waiting before the
# next request: over any time longer than an answer's the rate is kept.


_MIN_FETCH_BYTES, MAX_FETCH_BYTES = 65_536, 4_194_304
_MAX_ANSWER_BYTES = 16_777_216  # of several partitions
_SAVED_S = 0.5
_FETCHES_A_SECOND = 4  # an answer is at most so much of a second's bytes


class Bucket:
    """A rate limit, in bytes per second.

    Unused allowance of a pause, such as the one between two chunks, is kept for at most half a
    second.
    """

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._free_at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Return the seconds to wait before the next request."""
        return max(0.0, self._free_at_s - now_s)

    def spend(self, count: int, now_s: float) -> None:
        """Take the bytes of an answer from the bucket."""
        self._free_at_s = max(self._free_at_s, now_s - _SAVED_S) + count / self._rate


class BrokerBuckets:
    """One bucket for each source broker, shared by all readers of a task.

    Args:
        rate: Bytes per second; None for no limit.
        within: A bucket that all reads count against, too.
    """

    def __init__(self, rate: float | None, within: "BrokerBuckets | None" = None) -> None:
        self._rate = rate
        self._within = within
        self._buckets: dict[int, Bucket] = {}

    def fetch_bytes(self) -> int:
        """Return the bytes to request at a time from one partition."""
        if self._within is not None:
            alone = BrokerBuckets(self._rate)
            return min(alone.fetch_bytes(), self._within.fetch_bytes())
        if self._rate is None:
            return MAX_FETCH_BYTES
        wanted = int(self._rate / _FETCHES_A_SECOND)
        return min(MAX_FETCH_BYTES, max(_MIN_FETCH_BYTES, wanted))

    def answer_bytes(self) -> int:
        """Return the bytes to request at a time from all partitions."""
        return self.fetch_bytes() if self._is_limited else _MAX_ANSWER_BYTES

    @property
    def _is_limited(self) -> bool:
        return self._rate is not None or (self._within is not None and self._within._is_limited)

    def throttle(
        self, client: AIOKafkaClient, count: Callable[[TopicPartition, int], None]
    ) -> None:
        """Delay this client's fetches.

        Args:
            client: The client.
            count: Called for each partition of a response with the bytes of its records, as
                they came.
        """
        send = client.send
        clock = asyncio.get_running_loop().time

        async def send_in_time(node: int, request: Any, **options: Any) -> Any:
            if not isinstance(request, FetchRequest):
                return await send(node, request, **options)
            buckets = self._of(node, clock())
            if buckets:
                await asyncio.sleep(max(bucket.wait_s(clock()) for bucket in buckets))
            begun_s = clock()
            answer = await send(node, request, **options)
            size = 0
            for topic, partitions in answer.topics:
                for partition in partitions:
                    records = len(partition[-1] or b"")
                    count(TopicPartition(topic, partition[0]), records)
                    size += records
            for bucket in buckets:
                bucket.spend(size, begun_s)
            return answer

        client.send = send_in_time

    def _of(self, node: int, now_s: float) -> list[Bucket]:
        outer = [] if self._within is None else self._within._of(node, now_s)
        if self._rate is None:
            return outer
        if node not in self._buckets:
            self._buckets[node] = Bucket(self._rate, now_s)
        return [self._buckets[node], *outer]


# ---- units, options and results of a task: plain values for Spark


# Limits of one transaction. `MAX_BATCH_BYTES` of copying/batches.py limits each batch in it.
CHUNK_RECORDS, CHUNK_BYTES, CHUNK_S = 5_000, 4_194_304, 0.2


@dataclass(frozen=True, slots=True)
class MapState:
    """The part of a partition's map that the driver has read, and its end in the map topic.

    Attributes:
        map_offset: The task itself reads the map from here on.
        position: None if nothing is mapped.
        layout: The newest recorded layout; 0 if there is none.
        ids: The topics of that layout.
        target_end: End of the mirror's own records on the target; None if it is unknown.
        reported_at: Position before which foreign records were found and reported last; -1 if
            never.
        is_mapped: Whether these two topics have a segment.
        newest: The segments behind the last block, which become a part of the next one.
    """

    map_offset: int = 0
    position: int | None = None
    layout: int = 0
    ids: tuple[str, str] = ("", "")
    target_end: int | None = 0
    reported_at: int = -1
    is_mapped: bool = False
    newest: tuple[Segment, ...] = ()

    def is_longer(self, end: int) -> bool:
        """Return whether the target's log has more than the mirror's records and last marker."""
        return self.target_end is not None and end > self.target_end + (self.target_end > 0)

    @classmethod
    def of(cls, partition_map: PartitionMap, map_offset: int) -> "MapState":
        """Return the part that a task needs of a map."""
        table = partition_map.table
        foreign = [gap.source for gap in table.gaps if gap.reason == FOREIGN]
        return cls(
            map_offset, table.position, partition_map.newest, partition_map.ids,
            partition_map.target_end, max(foreign, default=-1), bool(table), tuple(table.newest()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """One partition to copy. `address` includes the active layout.

    Attributes:
        end: The offset at which to stop, fixed by the driver; None to continue until the end of
            the lease.
        max_message_bytes: The target topic's max.message.bytes.
    """

    address: MapAddress
    layout: Layout
    end: int | None
    map_state: MapState = MapState()
    max_message_bytes: int = MAX_BATCH_BYTES

    @property
    def map_partition(self) -> int:
        """Return the partition of the map topic."""
        return map_partition(self.address.topic, self.address.partition)

    def transactional_id(self, source_cluster: str) -> str:
        """Return the id of a partition's one writer, which fences earlier ones when it starts."""
        return f"headgate.mirror.{source_cluster}.{self.address.topic}.{self.address.partition}"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of a copying task.

    Attributes:
        bytes_per_s: Limit of this task's reads from each source broker; None for no limit.
        interval_s: Interval while the task follows and no replay waits.
        lease_s: Lifetime of a task that follows.
        patience_s: Time for which errors may stop a partition before the task fails.
    """

    source: Connection
    target: Connection
    bytes_per_s: float | None = None
    interval_s: float = 60.0
    lease_s: float = 600.0
    patience_s: float = 300.0
    chunk_records: int = CHUNK_RECORDS
    chunk_bytes: int = CHUNK_BYTES


class Copied(NamedTuple):
    """The result of a unit.

    Attributes:
        trouble: Reason of an early end, for people; None without one.
        bytes: Bytes that were read from the source's brokers.
        lost: Records in gaps, as far as offsets show.
        is_stale: The plan was older than the topic or the map; another plan may succeed.
        foreign: Records of the target that another program wrote.
        foreign_at: Offset of the first of them.
    """

    topic: str
    partition: int
    records: int
    bytes: int
    transactions: int
    position: int
    lost: int
    trouble: str | None
    is_stale: bool = False
    foreign: int = 0
    foreign_at: int = -1


# ---- the consumer of a source cluster, and the reader of one partition


_STEP_S = 25.0
_FETCH_WAIT_MS = 100  # other partitions may wait so long for a fetch of those that have no records
_RECORD_BYTES = 40  # what a record has beside key and value, roughly
_KEY_BYTES, _VALUE_BYTES = attrgetter("serialized_key_size"), attrgetter("serialized_value_size")


class ReadError(SayingError):
    """A partition that cannot be read at the moment."""


class GoneError(SayingError):
    """An offset that is no longer in the log."""


class RecreatedError(Exception):  # people see its name
    """A topic that was deleted and recreated."""


class SourceConsumer:
    """The consumer of some partitions of one cluster, shared by their readers.

    It has one connection to each broker, and one fetch at a time on it, for all partitions that are
    being read. A partition is paused once its reader has reached the end: Kafka delays a fetch of
    partitions without records, and the others would wait for it.

    After an internal error of aiokafka, such as two responses for a partition whose leader has
    changed, the tasks of a consumer end, and it returns no more records. Then the next reader that
    starts creates a new one, and readers of the old one fail.
    """

    def __init__(
        self, connection: Connection, buckets: BrokerBuckets, tps: Sequence[TopicPartition]
    ) -> None:
        self._connection, self._buckets, self._tps = connection, buckets, tps
        self._made: list[AIOKafkaConsumer] = []  # the newest last
        self._making = asyncio.Lock()
        self._counts: dict[TopicPartition, Callable[[int], None]] = {}

    async def join(self, tp: TopicPartition, count: Callable[[int], None]) -> AIOKafkaConsumer:
        """Return the consumer, in which the partition is paused.

        Args:
            tp: One of the partitions.
            count: Called with the bytes of the partition in each response.

        Raises:
            KafkaError, OSError, AssertionError: The consumer could not start.
        """
        async with self._making:
            if not self._made or not is_running(self._made[-1]):
                await self._make()
        self._counts[tp] = count
        return self._made[-1]

    def leave(self, tp: TopicPartition) -> None:
        """Pause a partition and forget the records of it that were fetched ahead."""
        self._counts.pop(tp, None)
        if self._made:
            self._made[-1].pause(tp)
            self._made[-1].seek(tp, 0)

    async def drop(self) -> None:
        """End the consumer at once."""
        for consumer in self._made:  # the old ones, too: a late request may have reconnected them
            await drop_consumer(consumer)

    async def _make(self) -> None:
        if self._made:
            await drop_consumer(self._made[-1])
        consumer = open_consumer(
            self._connection,
            max_partition_fetch_bytes=self._buckets.fetch_bytes(),
            fetch_max_bytes=self._buckets.answer_bytes(),
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        try:
            await consumer.start()
        except BaseException:
            await drop_consumer(consumer)
            raise
        self._buckets.throttle(client_of(consumer), self._count)
        consumer.assign(self._tps)
        consumer.pause(*self._tps)
        for tp in self._tps:  # without a position it would look for a group's
            consumer.seek(tp, 0)
        self._made.append(consumer)

    def _count(self, tp: TopicPartition, size: int) -> None:
        count = self._counts.get(tp)
        if count is not None:
            count(size)


class SourceReader:
    """A reader of one partition. Every call but `drop` raises ReadError.

    `is_behind` is whether more records were available when the last chunk was read. Records that
    arrive while the chunk is written do not count; otherwise the copier of a busy partition with
    small chunks would never rest.

    Args:
        tp: The partition.
        options: The cluster, and the size of a chunk.
        buckets: The rate, if the reader has a consumer of its own.
        shared: The consumer to read with; None for one of its own.
    """

    def __init__(
        self,
        tp: TopicPartition,
        options: CopyOptions,
        buckets: BrokerBuckets,
        shared: SourceConsumer | None = None,
    ) -> None:
        self._tp, self._options = tp, options
        self._is_shared = shared is not None
        self._source = shared or SourceConsumer(options.source, buckets, [tp])
        self._joined: AIOKafkaConsumer | None = None
        self.bytes = 0  # that have come, compressed as they are
        self.is_behind = True
        self._answers = 0

    async def start(self) -> None:
        """Connect."""
        async with self._translated():
            self._joined = await self._source.join(self._tp, self._count)

    async def bounds(self) -> tuple[int, int]:
        """Return the log's first offset, and the one behind the last stable offset."""
        async with self._translated():
            begins = await self.consumer.beginning_offsets([self._tp])
            ends = await self.consumer.end_offsets([self._tp])
        return begins[self._tp], ends[self._tp]

    def seek(self, offset: int) -> None:
        """Continue from this offset."""
        self.consumer.seek(self._tp, offset)

    async def check(self, source_id: str) -> None:
        """Raise RecreatedError unless the records read so far belong to this topic."""
        async with self._translated():
            current_id = await topic_id(client_of(self.consumer), self._tp)
        if current_id != source_id:
            raise RecreatedError(f"its id is {current_id}, it was {source_id}")

    async def read(self, end: int | None) -> Chunk:
        """Return the next records before `end`: one chunk, or those that arrive within 200 ms.

        Raises:
            GoneError: The next offset is no longer in the log.
        """
        options, clock = self._options, asyncio.get_running_loop().time
        records: list[SourceRecord] = []
        size, until_s = 0, clock() + CHUNK_S
        answers, self.is_behind = self._answers, True
        async with self._translated():
            self.consumer.resume(self._tp)
            while len(records) < options.chunk_records and size < options.chunk_bytes:
                wait_s = until_s - clock()
                if wait_s <= 0:
                    break
                try:
                    more = await self._more(options.chunk_records - len(records), wait_s)
                except GoneError:
                    if records:  # they were there still: the next call says what is gone
                        return Chunk(records, records[-1].offset + 1)
                    raise
                records += more
                size += _bytes_of(more)
                position = await self.consumer.position(self._tp)
                if end is not None and position >= end:
                    return _cut(records, end)
            position = await self.consumer.position(self._tp)
            # An answer of before does not know the end of now: it was fetched ahead.
            stable = self.consumer.last_stable_offset(self._tp) or 0
            self.is_behind = position < stable or answers == self._answers
            if not self.is_behind:
                self.consumer.pause(self._tp)
            return Chunk(records, position)

    async def drop(self) -> None:
        """End it at once."""
        self._source.leave(self._tp)
        if not self._is_shared:
            await self._source.drop()

    @property
    def consumer(self) -> AIOKafkaConsumer:
        """Return the reader's consumer. Raises ReadError if it has ended."""
        if self._joined is None or not is_running(self._joined):
            raise ReadError(f"cluster {self._options.source.name}: its consumer has ended")
        return self._joined

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Limit the time of requests to the cluster, and translate their errors."""
        try:
            async with asyncio.timeout(_STEP_S):
                yield
        except CLIENT_ERRORS as error:
            partition = f"partition {self._tp.partition} of {self._tp.topic}"
            why = in_words(error)
            raise ReadError(f"cluster {self._options.source.name}: {partition}: {why}") from error

    def _count(self, size: int) -> None:
        self.bytes += size
        self._answers += 1

    async def _more(self, limit: int, wait_s: float) -> list[SourceRecord]:
        try:
            fetched = await self.consumer.getmany(
                self._tp, timeout_ms=int(wait_s * 1000), max_records=limit
            )
        except OffsetOutOfRangeError as error:
            raise GoneError(str(error)) from error
        records: list[SourceRecord] = fetched.get(self._tp, [])
        return records


def _bytes_of(records: Sequence[Any]) -> int:
    """Return the bytes that aiokafka has measured; it counts a missing key or value as -1."""
    measured: int = sum(map(_KEY_BYTES, records)) + sum(map(_VALUE_BYTES, records))
    return measured + len(records) * _RECORD_BYTES


def _cut(records: list[SourceRecord], end: int) -> Chunk:
    while records and records[-1].offset >= end:
        records.pop()
    return Chunk(records, end)
