"""Reads one partition of the source in chunks, from an offset on, and skips nothing silently."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate_spark.copying.chunks import Chunk, SourceRecord
from headgate_spark.copying.copy_plan import CHUNK_S, CopyOptions
from headgate_spark.copying.throttle import BrokerBuckets
from headgate_spark.job.connections import Connection
from headgate_spark.job.errors import SayingError, in_words
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS, open_consumer
from headgate_spark.kafka.topic_ids import topic_id

_STEP_S = 25.0
_FETCH_WAIT_MS = 100  # other partitions may wait so long for a fetch of those that have no records
_RECORD_BYTES = 40  # what a record has beside key and value, roughly
_KEY_BYTES, _VALUE_BYTES = attrgetter("serialized_key_size"), attrgetter("serialized_value_size")


class ReadError(SayingError):
    """It could not be read now."""


class GoneError(SayingError):
    """The offset to be read next is not in the log."""


class RecreatedError(Exception):  # its name is what people are told
    """The topic is another one: it was deleted and recreated."""


class SourceConsumer:
    """The consumer of some partitions of one cluster, which their readers share.

    It has one connection to a broker, and sends one fetch at a time on it, which names every
    partition that is being read. A partition whose reader has reached the end is paused: Kafka
    keeps a fetch of partitions without records, and the others would wait for it.

    A private part of aiokafka 0.14: after an error of its own, such as two answers for a partition
    whose leader has changed, the tasks of a consumer end, and it returns no records for good. Then
    the next reader that starts makes a new one, and readers of the old one fail.
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
            count: Called with the bytes of the partition in each answer.

        Raises:
            KafkaError, OSError, AssertionError: It could not start.
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
        """End it at once."""
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
        self._buckets.throttle(consumer._client, self._count)
        consumer.assign(self._tps)
        consumer.pause(*self._tps)
        for tp in self._tps:  # without a position it would look for a group's
            consumer.seek(tp, 0)
        self._made.append(consumer)

    def _count(self, tp: TopicPartition, size: int) -> None:
        count = self._counts.get(tp)
        if count is not None:
            count(size)


def is_running(consumer: AIOKafkaConsumer) -> bool:
    """Return whether the tasks of a consumer that was started go on."""
    return not (consumer._fetcher._fetch_task.done() or consumer._client._sync_task.done())


class SourceReader:
    """Reads one partition. Every call but `drop` raises ReadError.

    is_behind: whether there was more when the last chunk was read. What comes while that is being
    written does not count: who writes small chunks all the time would never rest.
    """

    def __init__(
        self,
        tp: TopicPartition,
        options: CopyOptions,
        buckets: BrokerBuckets,
        shared: SourceConsumer | None = None,
    ) -> None:
        """Make a reader that has not been started.

        Args:
            tp: The partition.
            options: The cluster, and the size of a chunk.
            buckets: The rate, if the reader has a consumer of its own.
            shared: The consumer to read with; None = one of its own.
        """
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
        """The log's first offset, and the one behind the last stable one."""
        async with self._translated():
            begins = await self.consumer.beginning_offsets([self._tp])
            ends = await self.consumer.end_offsets([self._tp])
        return begins[self._tp], ends[self._tp]

    def seek(self, offset: int) -> None:
        """Go on there."""
        self.consumer.seek(self._tp, offset)

    async def check(self, source_id: str) -> None:
        """Raise RecreatedError unless what was read so far is this topic's."""
        async with self._translated():
            found = await topic_id(self.consumer._client, self._tp)
        if found != source_id:
            raise RecreatedError(f"its id is {found}, it was {source_id}")

    async def read(self, end: int | None) -> Chunk:
        """The next records, as many as a chunk takes or come in 200 ms, none from `end` on.

        Raises GoneError.
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
        """The consumer that it reads with. Raises ReadError if that has ended."""
        if self._joined is None or not is_running(self._joined):
            raise ReadError(f"cluster {self._options.source.name}: its consumer has ended")
        return self._joined

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Bound what is asked of the cluster."""
        try:
            async with asyncio.timeout(_STEP_S):
                yield
        except CLIENT_ERRORS as error:
            place = f"partition {self._tp.partition} of {self._tp.topic}"
            why = in_words(error)
            raise ReadError(f"cluster {self._options.source.name}: {place}: {why}") from error

    def _count(self, size: int) -> None:
        self.bytes += size
        self._answers += 1

    async def _more(self, limit: int, wait_s: float) -> list[SourceRecord]:
        try:
            found = await self.consumer.getmany(
                self._tp, timeout_ms=int(wait_s * 1000), max_records=limit
            )
        except OffsetOutOfRangeError as error:
            raise GoneError(str(error)) from error
        records: list[SourceRecord] = found.get(self._tp, [])
        return records


def _bytes_of(records: Sequence[Any]) -> int:
    """aiokafka has measured them; the -1 of a key or value that is None does not matter here."""
    found: int = sum(map(_KEY_BYTES, records)) + sum(map(_VALUE_BYTES, records))
    return found + len(records) * _RECORD_BYTES


def _cut(records: list[SourceRecord], end: int) -> Chunk:
    while records and records[-1].offset >= end:
        records.pop()
    return Chunk(records, end)
