"""A writer of chunks to the target, each in one transaction with its records of the offset map.

One producer has one id and epoch. `start` fences earlier writers with the transactional id and ends
their open transactions; then come transactions, and at last `drop`. After any error it is dropped:
the map, read after the next start, shows whether the commit succeeded.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    InvalidTimestampError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.offset_map import (
    MAP_TOPIC,
    READ_BYTES,
    Layout,
    MapAddress,
    MapEntry,
    gap_record,
    layout_record,
    read_bytes,
    read_entry,
)
from headgate.replays.packed import Block
from headgate.replays.segments import FOREIGN, RECREATED, Gap, Segment
from headgate_spark.copying.batches import (
    MAX_BATCH_BYTES,
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    Chunk,
    Connections,
    Written,
    is_fenced,
    offset_of,
    open_producer,
    send,
    send_records,
)
from headgate_spark.copying.cluster import CLIENT_ERRORS, open_consumer, roomy
from headgate_spark.copying.reader import CopyOptions, CopyUnit, MapState
from headgate_spark.job.command_line import in_words
from headgate_spark.job.options import Connection

_REFUSALS = (
    InvalidTimestampError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
MapRecord = tuple[bytes, bytes | None]


class WriteError(Exception):
    """A write that failed or whose result is unknown; a new producer and the map show it."""


class FencedError(WriteError):
    """Another producer has the transactional id, or the broker ended a transaction that hung."""


class UnwritableError(WriteError):
    """A record that the target will never take."""


class Target(NamedTuple):
    """The target of a partition. `max_message_bytes`: the topic's max.message.bytes."""

    topic: str
    partition: int
    map_partition: int
    max_message_bytes: int = MAX_BATCH_BYTES


class Writer:
    """The transactional producer of one partition. Every call but `drop` raises WriteError.

    `connections` are shared with other partitions' producers.
    """

    def __init__(
        self, connection: Connection, transactional_id: str, target: Target,
        connections: Connections,
    ) -> None:  # fmt: skip
        self._target = target
        batch_bytes = min(MAX_BATCH_BYTES, target.max_message_bytes)
        self._inner, self._connections = (
            open_producer(connection, transactional_id, batch_bytes), connections,
        )  # fmt: skip
        connections.use_in(self._inner)

    async def start(self) -> None:
        """Send InitProducerId: after its response no older producer of this id can commit."""
        async with self._translated(START_TIMEOUT_S):
            await self._inner.start()

    async def drop(self) -> None:
        """End the producer at once."""
        await self._connections.drop(self._inner)

    async def write(
        self, chunk: Chunk, mapped: Callable[[Sequence[Written]], Iterable[MapRecord]],
        read_bytes: int = 0,
    ) -> list[Written]:  # fmt: skip
        """Write one transaction: the records, then the map records that `mapped` makes.

        Args:
            mapped: Returns the map records for the offsets of the records.
            read_bytes: Bytes read from the source for it, noted in the map's first record.
        """
        target = self._target
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.begin_transaction()
            written = await send_records(self._inner, target.topic, target.partition, chunk.records)
            await self._append_map(mapped(written), target.map_partition, read_bytes)
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.commit_transaction()
        return written

    async def _append_map(
        self, records: Iterable[MapRecord], partition: int, read_bytes: int
    ) -> None:
        builder, waiting = self._inner.create_batch(), []
        headers = [(READ_BYTES, b"%d" % read_bytes)] if read_bytes else []
        for key, value in records:
            if builder.append(timestamp=None, key=key, value=value, headers=headers) is None:
                waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
                builder = self._inner.create_batch()
                builder.append(timestamp=None, key=key, value=value, headers=headers)
            headers = []
        if builder.record_count():
            waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
        for future in waiting:
            await offset_of(future)

    @asynccontextmanager
    async def _translated(self, within_s: float) -> AsyncIterator[None]:
        """Limit the time of a step, and raise WriteError for any error in it."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except MessageSizeTooLargeError as error:
            target = self._target
            raise UnwritableError(
                f"{type(error).__name__}: a record is larger than the {target.max_message_bytes} "
                f"bytes that topic {target.topic} takes there, since its producer compressed it "
                f"better: set its max.message.bytes to {roomy(target.max_message_bytes)}"
            ) from error
        except _REFUSALS as error:
            raise UnwritableError(in_words(error)) from error
        except CLIENT_ERRORS as error:
            kind = FencedError if is_fenced(self._inner, error) else WriteError
            raise kind(in_words(error)) from error


# ---- reading the map: its committed records alone show what has been mirrored


# An open transaction of a writer that died hides what is behind it until the broker ends it, 30 s
# (`TRANSACTION_TIMEOUT_MS` of copying/batches.py); the coordinator looks every 10 s.
HIDDEN_S = 90.0
_POLL_MS = 20  # an empty answer comes after this time, and says that the end is reached


class HiddenError(Exception):
    """Committed records may exist that are not visible: no conclusion is possible."""


async def read_map(
    target: Connection, starts: Mapping[int, int], see: Callable[[MapEntry], None]
) -> dict[int, int]:
    """Pass on every entry from these offsets up to each partition's end at the time of the call.

    A transaction of another partition's writer hides the committed records behind its first record.
    So the end is the high watermark, not the last stable offset.

    Args:
        starts: An offset for each partition of the map topic; 0 for all of it.

    Returns:
        The offsets from which to continue.

    Raises:
        HiddenError, MapError, KafkaError, OSError, TimeoutError: The map cannot be read.
    """
    consumer = open_consumer(target, fetch_max_wait_ms=_POLL_MS)
    try:
        async with asyncio.timeout(HIDDEN_S):
            await consumer.start()
            return await _read(consumer, starts, see)
    except TimeoutError as error:
        raise HiddenError(
            f"{MAP_TOPIC} on cluster {target.name} could not be read to its end in {HIDDEN_S} s"
        ) from error
    finally:
        await drop_consumer(consumer)


async def _read(
    consumer: AIOKafkaConsumer, starts: Mapping[int, int], see: Callable[[MapEntry], None]
) -> dict[int, int]:
    tps = {TopicPartition(MAP_TOPIC, number): offset for number, offset in starts.items()}
    consumer.assign(list(tps))
    begins = await consumer.beginning_offsets(list(tps))
    for tp, offset in tps.items():
        consumer.seek(tp, max(offset, begins[tp]))
    ends: dict[TopicPartition, int] = {}
    reached: dict[int, int] = {}
    while len(reached) < len(tps):
        for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for entry in entries(records):
                see(entry)
        for tp in tps:
            end = consumer.highwater(tp)
            if end is None:
                continue
            # The first answer is younger than the start of the reading: that is enough.
            position = await consumer.position(tp)
            if position >= ends.setdefault(tp, end):
                reached[tp.partition] = position
    return reached


def entries(records: Iterable[object]) -> Iterable[MapEntry]:
    """Return the entries of records of the map topic."""
    for record in records:
        entry = read_entry(record.key, record.value)  # type: ignore[attr-defined]
        if entry is not None:
            headers = record.headers  # type: ignore[attr-defined]
            yield entry._replace(read_bytes=read_bytes(headers)) if headers else entry


# ---- resumption of a partition's copy, and its layouts: both from the map alone


class StalePlanError(Exception):
    """The map has changed since the driver's plan: plan again."""


async def read_map_state(unit: CopyUnit, options: CopyOptions) -> MapState:
    """Read the map of the unit's partition. Raises StalePlanError, and the errors of `read_map`."""
    address, state = unit.address, replace(unit.map_state, map_offset=0)

    def see(entry: MapEntry) -> None:
        nonlocal state
        if entry.address[:2] == address[:2]:
            state = _after(state, entry)

    try:
        await read_map(options.target, {unit.map_partition: unit.map_state.map_offset}, see)
    except OffsetOutOfRangeError as error:
        raise StalePlanError("the map topic is not the one that was planned with") from error
    layout, is_other = state.layout, state.ids != unit.layout[1:3]
    if layout > address.layout or (layout == address.layout and is_other):
        raise StalePlanError(f"layout {layout} has been opened meanwhile")
    return state


def _after(state: MapState, entry: MapEntry) -> MapState:
    """Return the known part after one more record of the map."""
    fact, layout = entry.fact, entry.address.layout
    if isinstance(fact, Layout):
        return _opened(state, fact, layout) if layout > state.layout else state
    if not isinstance(fact, Segment | Block | Gap) or layout != state.layout:
        return state
    position = fact.end if state.position is None else max(state.position, fact.end)
    state = replace(state, position=position)
    if isinstance(fact, Gap):
        return replace(state, reported_at=fact.source) if fact.reason == FOREIGN else state
    if isinstance(fact, Block):
        end, newest = fact.target_end, tuple[Segment, ...]()
    else:
        end, newest = fact.target + fact.records, (*state.newest, fact)
    end = max(state.target_end or 0, end)
    return replace(state, target_end=end, is_mapped=True, newest=newest)


def _opened(state: MapState, fact: Layout, layout: int) -> MapState:
    ids = (fact.source_id, fact.target_id)
    if ids == state.ids:
        return replace(state, layout=layout, newest=())  # a block's records are of one layout
    end = state.target_end if fact.target_id == state.ids[1] else 0
    return MapState(0, None, layout, ids, end)


def opening(unit: CopyUnit, state: MapState, at_ms: int) -> list[MapRecord]:
    """Return the records that open a layout, and end the one before it if its topic was deleted."""
    records: list[MapRecord] = []
    if state.layout and state.ids[0] != unit.layout.source_id:
        old = MapAddress(unit.address.topic, unit.address.partition, state.layout)
        end = state.position or 0
        records.append(gap_record(old, Gap(end, end, RECREATED, at_ms)))
    return [*records, layout_record(unit.address, unit.layout)]
