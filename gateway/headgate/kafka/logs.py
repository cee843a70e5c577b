"""Readers of whole topics, from the begin or a time to the end at the reading's begin."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headgate.errors_in_words import connection_error
from headgate.kafka.aiokafka_internals import client_of, drop_consumer, open_consumer
from headgate.kafka.group_reader import describe_consumer
from headgate.kafka.groups import Described
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import admin_of
from headgate.kafka.wire import any_node, read_metadata
from headgate.model.outcome import brief

_SCAN_SILENCE_S = 60.0  # longer than any leader change
_SCAN_POLL_MS = 1000

LogRecord: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


class CutShortError(Exception):
    """A reading that ended before all records were read."""


class Reach(NamedTuple):
    """Progress of a reading: the records so far, and the offsets so far of `total`."""

    records: int
    offsets: int
    total: int


class LogScan:
    """A reading of one topic.

    Args:
        options: The cluster.
        topic: The topic.
        partitions: The number of partitions.
        client_id: The client id for Kafka.
        begin_ms: Begin with the first record of this time or later; None for the first record.
        committed: Whether to omit records of aborted and open transactions.
    """

    def __init__(
        self,
        options: ClusterOptions,
        topic: str,
        partitions: int,
        client_id: str,
        *,
        begin_ms: int | None = None,
        committed: bool = False,
    ) -> None:
        self._options, self._client_id = options, client_id
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._topic, self._begin_ms, self._committed = topic, begin_ms, committed
        self.has_before = False

    async def run(self, see: Callable[[LogRecord], None], report: Callable[[Reach], None]) -> int:
        """Pass every record to `see`.

        Afterwards `has_before` is whether the topic has or had records before these.

        Args:
            see: Receives each record.
            report: Receives the progress from time to time.

        Returns:
            The number of records.

        Raises:
            CutShortError: Not all records could be read.
        """
        isolation = "read_committed" if self._committed else "read_uncommitted"
        opened = consumer_of(self._options, isolation, self._client_id, _SCAN_SILENCE_S)
        try:
            # Retention may delete the first records meanwhile: then reading goes on behind them.
            async with opened as consumer:
                return await self._read(consumer, see, report)
        except (KafkaError, OSError, TimeoutError) as error:
            text = f"topic {self._topic} cannot be read: {connection_error(error)}"
            raise CutShortError(text) from error

    async def _read(
        self,
        consumer: AIOKafkaConsumer,
        see: Callable[[LogRecord], None],
        report: Callable[[Reach], None],
    ) -> int:
        consumer.assign(self._places)
        async with asyncio.timeout(_SCAN_SILENCE_S):
            ends = await consumer.end_offsets(self._places)
            begins = await self._begins(consumer, ends)
        self.has_before = any(begins.values())
        at = {tp: begin for tp, begin in begins.items() if begin < ends[tp]}
        total = sum(ends[tp] - begin for tp, begin in at.items())
        for tp, offset in at.items():
            consumer.seek(tp, offset)
        loop, count = asyncio.get_running_loop(), 0
        moved = loop.time()
        while at:
            batches = await consumer.getmany(*at, timeout_ms=_SCAN_POLL_MS)
            for records in batches.values():
                for record in records:
                    see(record)
                count += len(records)
            before = at
            at = await _positions(consumer, at, ends)
            unread = sum(ends[tp] - offset for tp, offset in at.items())
            report(Reach(count, total - unread, total))
            if batches or at != before:
                moved = loop.time()
            elif loop.time() - moved > _SCAN_SILENCE_S:
                stuck = ", ".join(f"{tp.partition} at {offset}" for tp, offset in at.items())
                raise CutShortError(f"topic {self._topic}: nothing comes of partitions {stuck}")
        return count

    async def _begins(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self._begin_ms is None:
            begins: dict[TopicPartition, int] = await consumer.beginning_offsets(self._places)
            return begins
        wanted: Any = dict.fromkeys(self._places, self._begin_ms)
        by_time = await consumer.offsets_for_times(wanted)
        return {
            tp: ends[tp] if (match := by_time.get(tp)) is None else match.offset
            for tp in self._places
        }


async def _positions(
    consumer: AIOKafkaConsumer, at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the positions in the partitions that are not at their end."""
    now = {tp: await consumer.position(tp) for tp in at}
    return {tp: offset for tp, offset in now.items() if offset < ends[tp]}


# ---- repeated reading of a compacted topic, each time the new records
#
# No connection stays open, because operators read these topics only a few times a minute.


See = Callable[[int, bytes | None, bytes | None], None]
SILENCE_S = 15.0  # longer than an ordinary leader loss
_POLL_MS = 200
_AT_ONCE = 200  # records between two turns of the event loop, some 10 us each


class NoTopicError(OSError):
    """A topic that does not exist."""


class CompactedTopic:
    """Reader that passes every committed record of some partitions once, in order.

    Args:
        options: The cluster.
        topic: The topic.
        see: Receives partition, key and value of each record.
        restart: Receives each partition that is read from its beginning, at first or because its
            log was replaced.
    """

    def __init__(
        self, options: ClusterOptions, topic: str, see: See, restart: Callable[[int], None]
    ) -> None:
        self.topic = topic
        self._options = options
        self._see = see
        self._restart = restart
        self._at: dict[int, int] = {}

    def forget(self, partition: int) -> None:
        """Read a partition from its beginning the next time."""
        self._at.pop(partition, None)

    async def read_new(self, partitions: Iterable[int], *, past_open: bool = False) -> None:
        """Read the records that were committed since the last call.

        Args:
            partitions: The partitions.
            past_open: Whether to wait for transactions that are open now, which hide committed
                records behind them.

        Raises:
            NoTopicError: The topic does not exist.
            KafkaError, OSError, TimeoutError: Kafka does not answer.
        """
        async with consumer_of(self._options) as consumer:
            if self.topic not in await consumer.topics():
                raise NoTopicError(f"there is no topic {self.topic}: run `headgate init`")
            tps = [TopicPartition(self.topic, partition) for partition in sorted(set(partitions))]
            ends = await self._ends(consumer, tps, past_open)
            begins = await consumer.beginning_offsets(tps)
            consumer.assign(tps)
            for tp in tps:
                consumer.seek(tp, self._start(tp, begins, ends))
            await self._read(consumer, ends)

    async def _ends(
        self, consumer: AIOKafkaConsumer, places: list[TopicPartition], past_open: bool
    ) -> Mapping[TopicPartition, int]:
        if not past_open:
            return await ends_of(consumer, places)
        async with consumer_of(self._options, isolation_level="read_uncommitted") as other:
            return await ends_of(other, places)

    def _start(
        self,
        tp: TopicPartition,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> int:
        offset = self._at.get(tp.partition)
        if offset is not None and offset > ends[tp]:
            offset = None
        if offset is None:
            self._restart(tp.partition)
            offset = begins[tp]
        return max(offset, begins[tp])

    async def _read(self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> None:
        waiting = {tp for tp, end in ends.items() if await consumer.position(tp) < end}
        self._at |= {tp.partition: end for tp, end in ends.items() if tp not in waiting}
        async with asyncio.timeout(None) as bound:
            loop = asyncio.get_running_loop()
            while waiting:
                bound.reschedule(loop.time() + SILENCE_S)
                batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
                for tp, records in batches.items():
                    for record in records:
                        self._see(tp.partition, record.key, record.value)
                    self._at[tp.partition] = records[-1].offset + 1
                waiting = await self._unread(consumer, waiting, ends, bool(batches))

    async def _unread(
        self,
        consumer: AIOKafkaConsumer,
        waiting: set[TopicPartition],
        ends: Mapping[TopicPartition, int],
        moved: bool,
    ) -> set[TopicPartition]:
        unread = set()
        for tp in waiting:
            position = await consumer.position(tp)
            if position > self._at.get(tp.partition, -1):
                self._at[tp.partition] = position
            if position < ends[tp]:
                unread.add(tp)
        return unread


@asynccontextmanager
async def consumer_of(
    options: ClusterOptions,
    isolation_level: str = "read_committed",
    client_id: str = "headgate-control",
    start_s: float = SILENCE_S,
) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a consumer without a group, and drop it at the end."""
    consumer = open_consumer(
        options,
        client_id=client_id,
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    )
    try:
        async with asyncio.timeout(start_s):
            await consumer.start()
        yield consumer
    finally:
        await drop_consumer(consumer)


async def ends_of(
    consumer: AIOKafkaConsumer, places: list[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return the end offsets of existing partitions at the consumer's isolation level."""
    consumer.assign(places)  # aiokafka requests the leaders of assigned topics only
    consumer.pause(*places)
    try:
        async with asyncio.timeout(SILENCE_S):
            ends: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
    finally:
        consumer.resume(*places)
    return ends


# ---- offsets of topics and states of groups, for planning a replay


_SAMPLE_S = 3.0
_SAMPLE_RECORDS = 500


class Extent(NamedTuple):
    """The first offset of a log, and the end of its committed records."""

    start: int
    end: int


class Sample(NamedTuple):
    """A sample of a tier's records.

    Attributes:
        records: The number of records.
        offsets: The number of offsets that were read, including those without a record.
        bytes: The bytes of keys, values and headers.
    """

    records: int
    offsets: int
    bytes: int


class TierView:
    """View of one cluster. Every method may raise KafkaError, OSError or TimeoutError."""

    def __init__(self, options: ClusterOptions, consumer: AIOKafkaConsumer) -> None:
        self._options = options
        self._consumer = consumer

    async def partitions(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if it does not exist."""
        if topic not in await self._consumer.topics():
            return None
        await ends_of(self._consumer, _places(topic, [0]))  # reads the topic's partitions
        return len(self._consumer.partitions_for_topic(topic) or ()) or None

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of the existing ones of these topics, in the form of Kafka's tools."""
        client = client_of(self._consumer)
        metadata = (await read_metadata(client, any_node(client))).topics
        return {topic: metadata[topic].uuid for topic in topics if topic in metadata}

    async def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic; None if it does not exist."""
        return (await self.topic_ids([topic])).get(topic)

    async def extents(self, topic: str, partitions: Iterable[int]) -> dict[int, Extent]:
        """Return the begin and the end (last stable offset) of each partition."""
        tps = _places(topic, partitions)
        ends = await ends_of(self._consumer, tps)
        begins = await self._consumer.beginning_offsets(tps)
        return {tp.partition: Extent(begins[tp], ends[tp]) for tp in tps}

    async def at(
        self, topic: str, partitions: Iterable[int], time_ms: int
    ) -> dict[int, int | None]:
        """Return the first offset of this time or later in each partition, or None."""
        tps = _places(topic, partitions)
        await ends_of(self._consumer, tps)  # reads the leaders
        by_time = await self._consumer.offsets_for_times(dict.fromkeys(tps, time_ms))
        return {tp.partition: _offset(by_time.get(tp)) for tp in tps}

    async def first_since(
        self, topic: str, starts: Mapping[int, int], time_ms: int
    ) -> dict[int, int]:
        """Return the offset of the first record of this time or later, by reading.

        A lookup by time would also find markers of transactions, which have the time of the mirror.
        Partitions without such a record are omitted.

        Args:
            topic: The topic.
            starts: The offset to begin with, by partition.
            time_ms: Milliseconds since 1970.
        """
        ends = await self.extents(topic, starts)
        self._consumer.assign(_places(topic, starts))
        waiting = set(self._consumer.assignment())
        for tp in waiting:
            self._consumer.seek(tp, starts[tp.partition])
        offsets: dict[int, int] = {}
        async with asyncio.timeout(SILENCE_S):
            while waiting:
                batches = await self._consumer.getmany(*waiting, timeout_ms=_POLL_MS)
                for tp, records in batches.items():
                    for record in records:
                        if record.timestamp >= time_ms:
                            offsets[tp.partition] = record.offset
                            break
                positions = {each: await self._consumer.position(each) for each in waiting}
                waiting = {
                    each
                    for each, position in positions.items()
                    if each.partition not in offsets and position < ends[each.partition].end
                }
        self._consumer.unsubscribe()
        return offsets

    async def sample(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Sample:
        """Read the first records of some ranges of offsets.

        It ends when the ranges or some hundred records have been read, or after a few seconds.

        Args:
            topic: The topic.
            ranges: The start and the exclusive end, by partition.
        """
        spans = {TopicPartition(topic, each): bounds for each, bounds in ranges.items()}
        self._consumer.assign(list(spans))
        for tp, (start, _) in spans.items():
            self._consumer.seek(tp, start)
        until = asyncio.get_running_loop().time() + _SAMPLE_S
        records, size, waiting = 0, 0, set(spans)
        while waiting and records < _SAMPLE_RECORDS and asyncio.get_running_loop().time() < until:
            batches = await self._consumer.getmany(
                *waiting, timeout_ms=_POLL_MS, max_records=_SAMPLE_RECORDS
            )
            inside = [
                _size(record)
                for tp, batch in batches.items()
                for record in batch
                if record.offset < spans[tp][1]
            ]
            records, size = records + len(inside), size + sum(inside)
            positions = {each: await self._consumer.position(each) for each in waiting}
            waiting = {each for each, at in positions.items() if at < spans[each][1]}
        offsets = 0
        for tp, (start, end) in spans.items():
            offsets += min(end, await self._consumer.position(tp)) - start
        self._consumer.unsubscribe()
        return Sample(records, offsets, size)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition."""
        async with admin_of(self._options) as admin:
            offsets = await admin.list_consumer_group_offsets(group)
        return {(tp.topic, tp.partition): at.offset for tp, at in offsets.items() if at.offset >= 0}


def _places(topic: str, partitions: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def _offset(position: Any) -> int | None:
    """Return the offset; None if aiokafka returned None or -1."""
    return None if position is None or position.offset < 0 else int(position.offset)


def _size(record: object) -> int:
    key, value = getattr(record, "key", None), getattr(record, "value", None)
    headers = getattr(record, "headers", ())
    plain = len(key or b"") + len(value or b"")
    return plain + sum(len(name) + len(text or b"") for name, text in headers)


async def busy(options: ClusterOptions, group: str) -> str | None:
    """Return why a group's offsets cannot be set now: it has members or may have; else None.

    Groups of the new protocol (KIP-848) seem dead in the response to the old request.
    """
    async with admin_of(options) as admin:
        (answer,) = await admin.describe_consumer_groups([group])
        _, _, state, _, _, members, *_ = answer.groups[0]
        if state == "Dead" and group in {name for name, _ in await admin.list_consumer_groups()}:
            described = await _described(admin, group)
            if described is None:
                return (
                    f"group {brief(group)} exists, but Kafka does not name its members: ask again"
                )
            state, members = described.status, described.members
    if members:
        return f"group {brief(group)} has {len(members)} members ({state}): stop them first"
    return None


async def _described(admin: AIOKafkaAdminClient, group: str) -> Described | None:
    """Return the description of a group of the new protocol."""
    node = await admin.find_coordinator(group)
    by_group: dict[str, Described] = await client_of(admin).send(node, describe_consumer([group]))
    return by_group.get(group)


@asynccontextmanager
async def view_of(options: ClusterOptions) -> AsyncIterator[TierView]:
    """Open a view of one cluster, with one connection."""
    async with consumer_of(options) as consumer:
        yield TierView(options, consumer)
