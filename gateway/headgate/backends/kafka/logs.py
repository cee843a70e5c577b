"""Reads a whole topic, or from a time on: to the end it had when the reading began."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from headgate.backends.kafka.groups import describe_consumer
from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups import Described
from headgate.core.refusal import brief
from headgate.errors_in_words import connection_error
from headgate.kafka.access import client_arguments
from headgate.kafka.aiokafka_internals import drop_consumer, open_consumer, use_own_metadata
from headgate.kafka.wire import any_node, read_metadata

_SCAN_SILENCE_S = 60.0  # longer than any leader change
_SCAN_POLL_MS = 1000

LogRecord: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


class CutShortError(Exception):
    """Not every record was read."""


class Reach(NamedTuple):
    """How far it is. records: that were shown.  offsets: behind it, of `total` that there are."""

    records: int
    offsets: int
    total: int


class LogScan:
    """One reading of one topic.

    begin_ms: not from the first retained record, but from the first of this time or later.
    committed: leave out records of transactions that were aborted or are open.
    """

    def __init__(
        self, options: ClusterOptions, topic: str, partitions: int, client_id: str, *,
        begin_ms: int | None = None, committed: bool = False,
    ) -> None:  # fmt: skip
        self._options, self._client_id = options, client_id
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._topic, self._begin_ms, self._committed = topic, begin_ms, committed
        self.has_before = False

    async def run(self, see: Callable[[LogRecord], None], report: Callable[[Reach], None]) -> int:
        """Show every record; how many there were. Raises CutShortError.

        report: told now and then how far it is. Afterwards `has_before` says whether the topic has
        or had records before those that were shown.
        """
        consumer = open_consumer(
            self._options,
            client_id=self._client_id,
            auto_offset_reset="earliest",  # retention may take the first ones meanwhile
            isolation_level="read_committed" if self._committed else "read_uncommitted",
        )
        try:
            async with asyncio.timeout(_SCAN_SILENCE_S):
                await consumer.start()
            return await self._read(consumer, see, report)
        except (KafkaError, OSError, TimeoutError) as error:
            text = f"topic {self._topic} cannot be read: {connection_error(error)}"
            raise CutShortError(text) from error
        finally:
            await consumer.stop()

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
    """Where it stands in those partitions that are not at their end."""
    now = {tp: await consumer.position(tp) for tp in at}
    return {tp: offset for tp, offset in now.items() if offset < ends[tp]}


# Reads a compacted topic again and again: each time what has come since, and nothing in between.
#
# No connection is kept: these topics are asked a few times a minute by operators.


See = Callable[[int, bytes | None, bytes | None], None]
SILENCE_S = 15.0  # longer than an ordinary leader loss
_POLL_MS = 200
_AT_ONCE = 200  # records between two turns of the event loop, some 10 us each


class NoTopicError(OSError):
    """The topic is not there."""


class CompactedTopic:
    """Shows every committed record of some partitions once, in order.

    see: told partition, key and value.  restart: told a partition whose log is another one now,
    which is shown from its beginning again.
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
        """Show a partition from its beginning the next time."""
        self._at.pop(partition, None)

    async def read_new(self, partitions: Iterable[int], *, past_open: bool = False) -> None:
        """Show what was committed since the last call.

        past_open: wait for transactions that are open now, too, so that nothing that is committed
        already stays hidden behind them.
        Raises NoTopicError; KafkaError, OSError or TimeoutError when Kafka does not answer.
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
        place: TopicPartition,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> int:
        offset = self._at.get(place.partition)
        if offset is not None and offset > ends[place]:
            offset = None
        if offset is None:
            self._restart(place.partition)
            offset = begins[place]
        return max(offset, begins[place])

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
    options: ClusterOptions, isolation_level: str = "read_committed"
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group, closed at the end."""
    consumer = open_consumer(
        options,
        client_id="headgate-control",
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    )
    try:
        async with asyncio.timeout(SILENCE_S):
            await consumer.start()
        yield consumer
    finally:
        await drop_consumer(consumer)


async def ends_of(
    consumer: AIOKafkaConsumer, places: list[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """End offsets of partitions that are there, at the consumer's isolation level."""
    consumer.assign(places)  # aiokafka asks for no other topic's leaders
    consumer.pause(*places)
    try:
        async with asyncio.timeout(SILENCE_S):
            ends: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
    finally:
        consumer.resume(*places)
    return ends


# What one cluster says of a topic's offsets and of a group, for planning a replay.


_SAMPLE_S = 3.0
_SAMPLE_RECORDS = 500


class Extent(NamedTuple):
    """First offset that is there, and the one behind the last that is committed."""

    start: int
    end: int


class Sample(NamedTuple):
    """Some records of a tier. offsets: those that they are of, of which some have no record.

    bytes: of keys, values and headers.
    """

    records: int
    offsets: int
    bytes: int


class TierView:
    """Asks one cluster. Every call raises KafkaError, OSError or TimeoutError."""

    def __init__(self, options: ClusterOptions, consumer: AIOKafkaConsumer) -> None:
        self._options = options
        self._consumer = consumer

    async def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None when it is not there."""
        if topic not in await self._consumer.topics():
            return None
        await ends_of(self._consumer, _places(topic, [0]))  # learns the topic's partitions
        return len(self._consumer.partitions_for_topic(topic) or ()) or None

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Kafka's ids, as its tools show them, of those of these topics that are there."""
        client = self._consumer._client
        metadata = (await read_metadata(client, any_node(client))).topics
        return {topic: metadata[topic].uuid for topic in topics if topic in metadata}

    async def topic_id(self, topic: str) -> str | None:
        """The same of one topic; None when it is not there."""
        return (await self.topic_ids([topic])).get(topic)

    async def extents(self, topic: str, partitions: Iterable[int]) -> dict[int, Extent]:
        """Where the logs begin and end (last stable offset)."""
        tps = _places(topic, partitions)
        ends = await ends_of(self._consumer, tps)
        begins = await self._consumer.beginning_offsets(tps)
        return {tp.partition: Extent(begins[tp], ends[tp]) for tp in tps}

    async def at(
        self, topic: str, partitions: Iterable[int], time_ms: int
    ) -> dict[int, int | None]:
        """The first offset whose record is of this time or later; None where there is none."""
        tps = _places(topic, partitions)
        await ends_of(self._consumer, tps)  # learns the leaders
        by_time = await self._consumer.offsets_for_times(dict.fromkeys(tps, time_ms))
        return {tp.partition: _offset(by_time.get(tp)) for tp in tps}

    async def first_since(
        self, topic: str, starts: Mapping[int, int], time_ms: int
    ) -> dict[int, int]:
        """The first record from each of these offsets on that is of this time or later, found by
        reading: a lookup by time finds the markers of transactions as well, whose time is that of
        the mirror. Partitions that have none are left out."""
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
        """Read the first records of some ranges of offsets, by partition, `end` without.

        It ends once the ranges have been read, or some hundred records, or after a few seconds.
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
        """The offsets that a group has committed, by topic and partition."""
        async with admin_of(self._options) as admin:
            offsets = await admin.list_consumer_group_offsets(group)
        return {(tp.topic, tp.partition): at.offset for tp, at in offsets.items() if at.offset >= 0}


def _places(topic: str, partitions: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def _offset(found: Any) -> int | None:
    """aiokafka says -1 where there is none, or nothing."""
    return None if found is None or found.offset < 0 else int(found.offset)


def _size(record: object) -> int:
    key, value = getattr(record, "key", None), getattr(record, "value", None)
    headers = getattr(record, "headers", ())
    plain = len(key or b"") + len(value or b"")
    return plain + sum(len(name) + len(text or b"") for name, text in headers)


async def busy(options: ClusterOptions, group: str) -> str | None:
    """Why offsets of a group cannot be set now: it has members, or may have; None = they can.

    Groups of the new protocol (KIP-848) answer the old question as if they were not there.
    """
    async with admin_of(options) as admin:
        (answer,) = await admin.describe_consumer_groups([group])
        _, _, state, _, _, members, *_ = answer.groups[0]
        if state == "Dead" and group in {name for name, _ in await admin.list_consumer_groups()}:
            described = await _described(admin, group)
            if described is None:
                return (
                    f"group {brief(group)} is there, but Kafka does not say who is in it: ask again"
                )
            state, members = described.status, described.members
    if members:
        return f"group {brief(group)} has {len(members)} members ({state}): stop them first"
    return None


async def _described(admin: AIOKafkaAdminClient, group: str) -> Described | None:
    """A group of the new protocol."""
    node = await admin.find_coordinator(group)
    by_group: dict[str, Described] = await admin._client.send(node, describe_consumer([group]))
    return by_group.get(group)


@asynccontextmanager
async def view_of(options: ClusterOptions) -> AsyncIterator[TierView]:
    """A view of one cluster, with one connection."""
    async with consumer_of(options) as consumer:
        yield TierView(options, consumer)


@asynccontextmanager
async def admin_of(options: ClusterOptions) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client, closed at the end."""
    admin = AIOKafkaAdminClient(**client_arguments(options), client_id="headgate-control")
    use_own_metadata(admin._client)
    try:
        async with asyncio.timeout(SILENCE_S):
            await admin.start()
        yield admin
    finally:
        await admin.close()
