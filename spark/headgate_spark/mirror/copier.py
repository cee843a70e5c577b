"""The copy of one partition into the backfill tier: the loop of a Spark task, without Spark.

An attempt starts a transactional producer, which fences every older one. Only then it reads the
map, which has the offset to continue from. Then it copies chunk after chunk, each in one
transaction with its segments. Any error ends the attempt, and the next one begins in the same way:
no state is kept in memory.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from pyspark import SparkContext

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.offset_map import gap_record, segment_records
from headgate.replays.registry import REGISTRY_TOPIC, read_wanted
from headgate.replays.segments import FOREIGN, NO_RECORDS, RETENTION, Gap, Segment
from headgate_spark.copying.batches import Chunk, Connections, Written, segments_of
from headgate_spark.copying.cluster import CLIENT_ERRORS, open_consumer
from headgate_spark.copying.reader import (
    BrokerBuckets,
    Copied,
    CopyOptions,
    CopyUnit,
    GoneError,
    MapState,
    ReadError,
    RecreatedError,
    SourceConsumer,
    SourceReader,
)
from headgate_spark.job.command_line import format_task_log, in_words, now_ms
from headgate_spark.job.options import Connection
from headgate_spark.mirror.writer import (
    FencedError,
    HiddenError,
    MapRecord,
    StalePlanError,
    Target,
    UnwritableError,
    WriteError,
    Writer,
    opening,
    read_map_state,
)

# ---- replays that wait: gateways write the offset that they need into the registry
#
# Each task has one consumer, which reads new records only: a copier copies at its start anyway.
# If the registry cannot be read, the next commit comes at its interval.


log = logging.getLogger("headgate_spark.mirror")

_REGISTRY = TopicPartition(REGISTRY_TOPIC, 0)
_POLL_MS = 1_000
_START_S = 30.0
_AGAIN_S = 10.0
_HURRY_S = 30.0  # a waiting replay keeps the copier from resting so long; then it has given up


class Waiter:
    """The offset of one partition up to which a replay waits for it."""

    def __init__(self) -> None:
        self._end, self._until_s = -1, 0.0
        self._news = asyncio.Event()

    def want(self, end: int) -> None:
        """Note that a replay waits for records before this offset."""
        self._end, self._until_s = end, asyncio.get_running_loop().time() + _HURRY_S
        self._news.set()

    def is_waiting(self, position: int) -> bool:
        """Return whether a replay waits for records behind this position."""
        return position < self._end and asyncio.get_running_loop().time() < self._until_s

    async def rest(self, position: int, seconds: float) -> None:
        """Sleep until a replay waits for more than has been copied, at most `seconds`."""
        end_s = asyncio.get_running_loop().time() + seconds
        while not self.is_waiting(position):
            left_s = end_s - asyncio.get_running_loop().time()
            self._news.clear()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    await self._news.wait()
            except TimeoutError:
                return


async def watch(target: Connection, waiters: Mapping[tuple[str, int], Waiter]) -> None:
    """Pass new records of the registry to the waiters until cancelled."""
    while True:
        consumer = open_consumer(target, fetch_max_wait_ms=_POLL_MS)
        try:
            await _follow(consumer, waiters)
        except CLIENT_ERRORS as error:
            log.info(
                "replays that wait for the mirror are unknown: %s: %s", type(error).__name__, error
            )
        finally:
            await drop_consumer(consumer)
        await asyncio.sleep(_AGAIN_S)


async def _follow(consumer: AIOKafkaConsumer, waiters: Mapping[tuple[str, int], Waiter]) -> None:
    async with asyncio.timeout(_START_S):
        await consumer.start()
        consumer.assign([_REGISTRY])
        ends = await consumer.end_offsets([_REGISTRY])
    consumer.seek(_REGISTRY, ends[_REGISTRY])
    while True:
        for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in records:
                for owner, end in read_wanted(record.key, record.value).items():
                    if owner in waiters:
                        waiters[owner].want(end)


# ---- foreign records: something else has written behind the mirror's records


_WITHIN_S = 60.0


class Tail(NamedTuple):
    """The records behind the mirror's records.

    Attributes:
        end: The last stable offset.
        records: The readable records, which are all foreign.
        first: Offset of the first of them.
    """

    end: int
    records: int = 0
    first: int = -1


async def read_tail(tp: TopicPartition, options: CopyOptions, mapped_end: int) -> Tail:
    """Read from the end of the mapped part on; only markers and aborted records are expected there.

    Raises:
        ReadError, TimeoutError: The partition cannot be read.
    """
    reader = SourceReader(tp, replace(options, source=options.target), BrokerBuckets(None))
    try:
        async with asyncio.timeout(_WITHIN_S):
            await reader.start()
            begin, end = await reader.bounds()
            position = max(begin, mapped_end)
            if end - position <= (mapped_end > 0):  # the marker of the mirror's last transaction
                return Tail(end)
            reader.seek(position)
            offsets: list[int] = []
            while position < end:
                chunk = await reader.read(end)
                offsets += [record.offset for record in chunk.records]
                position = chunk.end
            return Tail(end, len(offsets), offsets[0] if offsets else -1)
    except GoneError as error:  # its retention has just moved
        raise ReadError(str(error)) from error
    finally:
        await reader.drop()


def foreign_line(copied: Copied) -> str:
    """Return the line about a partition for people."""
    return (
        f"{copied.topic} partition {copied.partition}: {copied.foreign} records that are not the "
        f"mirror's, from target offset {copied.foreign_at} on: something else writes to the "
        "mirror's topic. They are in no translation; `headgate-spark verify` names them"
    )


def follows(written: Sequence[Written], expected: int) -> bool:
    """Return whether batches of one transaction follow the end of the log without a gap."""
    for batch in written:
        if batch.base != expected:
            return False
        expected = batch.end
    return True


def end_of(written: Sequence[Written]) -> int:
    """Return the end of the log once they are committed: the offset behind the marker."""
    return written[-1].end + 1


# ---- the copier of one partition


_PAUSE_S = 1.0  # between two attempts
_TRIES = 5
_REPLACED_S = 3.0  # a copier that took over has committed something by then, if there is anything


class TruncatedError(Exception):
    """The source's log ends before the end of its mirrored part."""


_TEMPORARY = (ReadError, WriteError, HiddenError, *CLIENT_ERRORS)
_FINAL = (UnwritableError, RecreatedError, StalePlanError, TruncatedError)


class Copier:
    """The copier of one unit.

    Args:
        seen: Called with the records of each committed chunk.
        waiter: Ends the copier's rest while a replay waits.
        connections: The task's connections to the target; None for its own.
        source: The task's consumer; None for its own.
    """

    def __init__(
        self,
        unit: CopyUnit,
        options: CopyOptions,
        buckets: BrokerBuckets,
        seen: Callable[[int], None] = lambda records: None,
        waiter: Waiter | None = None,
        connections: Connections | None = None,
        source: SourceConsumer | None = None,
    ) -> None:
        self._waiter, self._connections, self._source = waiter or Waiter(), connections, source
        self._unit, self._options, self._buckets, self._seen = unit, options, buckets, seen
        self._records = self._bytes = self._transactions = self._lost = 0
        self._mapped_bytes = 0  # of what the reader has read, in the map
        self._foreign, self._foreign_at = 0, -1
        self._end: int | None = None  # of the target's log, as far as this copier knows
        self._is_mapped, self._newest = False, tuple[Segment, ...]()  # as in `MapState`
        self._position = -1 if unit.map_state.position is None else unit.map_state.position

    async def run(self) -> Copied:
        """Copy up to the end of the unit or of the lease. Return trouble instead of raising it."""
        clock = asyncio.get_running_loop().time
        lease_end_s = clock() + self._options.lease_s
        moved_s, trouble, is_stale = clock(), None, False
        while True:
            before = self._transactions
            try:
                await self._attempt(lease_end_s)
                trouble = None
                break
            except FencedError as error:
                trouble = in_words(error)
                if await self._is_replaced():
                    break
            except _FINAL as error:
                trouble = in_words(error)
                is_stale = isinstance(error, RecreatedError | StalePlanError)
                break
            except _TEMPORARY as error:
                trouble = in_words(error)
            except Exception as error:
                # Whatever is wrong with one partition must not end those that share its task.
                trouble = in_words(error)
                log.exception("copying %s partition %d failed", *self._unit.address[:2])
                break
            if self._transactions > before:
                moved_s = clock()
            if clock() - moved_s > self._options.patience_s or self._is_over(lease_end_s):
                break
            await asyncio.sleep(_PAUSE_S)
        address = self._unit.address
        return Copied(
            address.topic, address.partition, self._records, self._bytes, self._transactions,
            self._position, self._lost, trouble, is_stale, self._foreign,
            self._foreign_at,
        )  # fmt: skip

    async def _is_replaced(self) -> bool:
        """Return whether another copier continues meanwhile.

        If not, the broker has ended a transaction that hung; two live copiers must not fence each
        other for ever.
        """
        await asyncio.sleep(_REPLACED_S)
        try:
            state = await read_map_state(self._unit, self._options)
        except StalePlanError:
            return True
        except _TEMPORARY:
            return False
        return (-1 if state.position is None else state.position) > self._position

    async def _attempt(self, lease_end_s: float) -> None:
        unit, options = self._unit, self._options
        target = Target(
            unit.address.topic, unit.address.partition, unit.map_partition, unit.max_message_bytes
        )
        connections = self._connections or Connections()
        writer = Writer(
            options.target, unit.transactional_id(options.source.name), target, connections
        )
        tp = TopicPartition(unit.address.topic, unit.address.partition)
        reader = SourceReader(tp, options, self._buckets, self._source)
        try:
            await writer.start()
            state = await read_map_state(unit, options)  # after the fencing, never before
            await reader.start()
            self._mapped_bytes = 0
            await self._begin(state, reader, writer)
            while not self._is_done(lease_end_s):
                tick_s = asyncio.get_running_loop().time()
                await self._copy_chunk(reader, writer)
                if unit.end is None and not reader.is_behind:
                    await self._rest(tick_s, lease_end_s)
        finally:
            await writer.drop()
            if self._connections is None:
                connections.close()
            await reader.drop()
            self._bytes += reader.bytes

    async def _begin(self, state: MapState, reader: SourceReader, writer: Writer) -> None:
        """Record the layout if it is new, and lost offsets; then go to the first offset."""
        begin, end = await self._bounds(reader, state)
        facts: list[MapRecord] = []
        if state.layout != self._unit.address.layout:
            facts += opening(self._unit, state, now_ms())
        is_same = state.ids == self._unit_ids()
        position = state.position if is_same else None
        self._is_mapped = is_same and state.is_mapped
        self._newest = state.newest if state.layout == self._unit.address.layout else ()
        if position is None:
            position = begin
            start = Gap(begin, begin, NO_RECORDS, now_ms())
            facts.append(gap_record(self._unit.address, start))
        elif position < begin:
            facts.append(self._lost_gap(position, begin))
            position = begin
        elif position > end:
            raise TruncatedError(
                f"its last stable offset is {end}, but {position} offsets are mirrored: it lost "
                "records (unclean leader election?). Delete the mirror's topic to start again"
            )
        facts += await self._strangers(state, position)
        if facts:
            await self._write(writer, Chunk([], position), facts)
        self._stand_at(reader, position)

    async def _strangers(self, state: MapState, position: int) -> list[MapRecord]:
        """Count the records of others behind the mirror's, and record them in the map."""
        address, is_same = self._unit.address, state.ids[1] == self._unit.layout.target_id
        mapped_end = state.target_end if is_same else 0
        self._end = None
        if mapped_end is None:
            return []
        tp = TopicPartition(address.topic, address.partition)
        tail = await read_tail(tp, self._options, mapped_end)
        self._end = tail.end
        if not tail.records:
            return []
        self._foreign, self._foreign_at = self._foreign + tail.records, tail.first
        if state.reported_at == position:
            return []
        return [gap_record(address, Gap(position, position, FOREIGN, now_ms()))]

    async def _bounds(self, reader: SourceReader, state: MapState) -> tuple[int, int]:
        """Return the source's log bounds; a new leader may take a while to know its end."""
        for _ in range(_TRIES):
            begin, end = await reader.bounds()
            if end >= (state.position or 0):
                break
            await asyncio.sleep(_PAUSE_S)
        await reader.check(self._unit.layout.source_id)
        return begin, end

    def _unit_ids(self) -> tuple[str, str]:
        return self._unit.layout.source_id, self._unit.layout.target_id

    async def _copy_chunk(self, reader: SourceReader, writer: Writer) -> None:
        try:
            chunk = await reader.read(self._unit.end)
        except GoneError:
            await self._skip_lost(reader, writer)
            return
        if chunk.end == self._position:
            return
        await reader.check(self._unit.layout.source_id)
        facts = []
        first = chunk.records[0].offset if chunk.records else chunk.end
        # Before the first segment, or without records, no segment shows that offsets were read.
        if first > self._position and not (self._is_mapped and chunk.records):
            gap = Gap(self._position, first, NO_RECORDS, now_ms())
            facts.append(gap_record(self._unit.address, gap))
        read = reader.bytes
        await self._write(writer, chunk, facts, read - self._mapped_bytes)
        self._position, self._mapped_bytes = chunk.end, read

    async def _skip_lost(self, reader: SourceReader, writer: Writer) -> None:
        """Record in the map that retention has passed the mirror, and continue behind it."""
        begin, end = await reader.bounds()
        await reader.check(self._unit.layout.source_id)
        if not self._position < begin <= end:
            raise TruncatedError(
                f"offset {self._position} is not in its log, which has {begin} to {end}"
            )
        facts = [self._lost_gap(self._position, begin)]
        await self._write(writer, Chunk([], begin), facts)
        self._stand_at(reader, begin)

    def _lost_gap(self, position: int, begin: int) -> MapRecord:
        self._lost += begin - position
        return gap_record(self._unit.address, Gap(position, begin, RETENTION, now_ms()))

    def _stand_at(self, reader: SourceReader, position: int) -> None:
        self._position = position
        reader.seek(position)

    async def _write(
        self, writer: Writer, chunk: Chunk, facts: Sequence[MapRecord], read_bytes: int = 0
    ) -> None:
        newest = self._newest

        def mapped(written: Sequence[Written]) -> Iterable[MapRecord]:
            nonlocal newest
            self._check_alone(written)
            segments = segments_of(chunk, written)
            records, newest = segment_records(self._unit.address, newest, segments)
            return [*facts, *records]

        written = await writer.write(chunk, mapped, read_bytes)
        self._newest, self._is_mapped = newest, self._is_mapped or bool(written)
        self._end = end_of(written) if written else self._end
        self._records += len(chunk.records)
        self._transactions += 1
        self._seen(len(chunk.records))

    def _check_alone(self, written: Sequence[Written]) -> None:
        """Raise WriteError if another program wrote to the mirror's topic.

        The next attempt finds the foreign records.
        """
        if self._end is not None and not follows(written, self._end):
            raise WriteError(f"the target was written by something else at offset {self._end}")

    def _is_over(self, lease_end_s: float) -> bool:
        return self._unit.end is None and asyncio.get_running_loop().time() >= lease_end_s

    def _is_done(self, lease_end_s: float) -> bool:
        if self._unit.end is None:
            return self._is_over(lease_end_s)
        return self._position >= self._unit.end

    async def _rest(self, tick_s: float, lease_end_s: float) -> None:
        """Sleep until the next interval if the copier has caught up, or until a replay waits."""
        now_s = asyncio.get_running_loop().time()
        until_s = min(tick_s + self._options.interval_s, lease_end_s)
        await self._waiter.rest(self._position, max(0.0, until_s - now_s))


# ---- tasks on Spark, and how units are dealt out to them


def run_on_spark(
    context: SparkContext, group: str, tasks: Sequence[Sequence[CopyUnit]], options: CopyOptions
) -> list[Copied]:
    """Run one Spark task for each list of units; they start in this order. Blocks.

    A task whose worker dies is run again, up to spark.task.maxFailures times; it continues from the
    end of the map.
    """
    # For this thread: cancelling the group ends the workers, too.
    context.setJobGroup(group, "headgate mirror", interruptOnCancel=True)
    dealt = context.parallelize(list(tasks), max(1, len(tasks)))

    def copy(units: Iterable[Sequence[CopyUnit]]) -> Iterator[Copied]:
        format_task_log()
        for task_units in units:
            yield from asyncio.run(copy_all(task_units, options))

    return dealt.mapPartitions(copy).collect()


async def copy_all(units: Sequence[CopyUnit], options: CopyOptions) -> list[Copied]:
    """Copy units concurrently.

    They share one budget for each source broker, one consumer of the source, and the connections to
    the target.
    """
    buckets, connections = BrokerBuckets(options.bytes_per_s), Connections()
    tps = [TopicPartition(*unit.address[:2]) for unit in units]
    source = SourceConsumer(options.source, buckets, tps)
    waiters = {unit.address[:2]: Waiter() for unit in units if unit.end is None}
    watching = asyncio.create_task(watch(options.target, waiters)) if waiters else None
    copiers = (
        Copier(
            unit,
            options,
            buckets,
            waiter=waiters.get(unit.address[:2]),
            connections=connections,
            source=source,
        )
        for unit in units
    )
    try:
        return await asyncio.gather(*(copier.run() for copier in copiers))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        connections.close()
        await source.drop()


def deal(units: Sequence[CopyUnit], count: int) -> list[list[CopyUnit]]:
    """Deal units to so many tasks, about equally many to each. `units`: the largest first."""
    tasks = min(count, len(units))
    return [list(units[number::tasks]) for number in range(tasks)]


def rate_of_task(
    limit: float | None,
    tasks: Sequence[Sequence[CopyUnit]],
    leaders: Mapping[TopicPartition, int],
    parallel: int,
) -> float | None:
    """Return a task's bytes per second from one broker, so that no broker gives more than `limit`.

    Tasks know nothing of each other, so each gets the share of the busiest broker's.
    """
    if limit is None or not tasks:
        return None
    readers = Counter[int]()
    for units in tasks:
        readers.update({leaders[TopicPartition(*unit.address[:2])] for unit in units})
    return limit / min(parallel, max(readers.values()))


def cause_of(error: BaseException) -> str:
    """Return the line with the cause of a Spark error."""
    lines = str(error).splitlines()
    return next((line for line in lines if "Exception" in line), lines[0] if lines else "")
