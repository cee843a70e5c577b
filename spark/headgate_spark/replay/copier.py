"""Carry out one replay: create its topic, copy the planned records, and delete it in the end.

Each step is one transaction that ends with the replay's status, so that a killed runner leaves a
state from which the next one continues. Replays run concurrently and independently: one that waits
or fails stops no other. Its status has the `reason`, and it retries after a growing pause.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from aiokafka.structs import TopicPartition

from headgate.commands.terminal import ProgressLine
from headgate.kafka.wire import Metadata
from headgate.model.internal_topics import InternalTopic, replicas_on
from headgate.replays.plan import BACKFILL, INGEST
from headgate.replays.registry import Control, Replay, ReplayState, deleted, record
from headgate_spark.copying.batches import Chunk, SourceRecord
from headgate_spark.copying.cluster import (
    CLIENT_ERRORS,
    ClusterAdmin,
    cluster_admin,
    copied_configs,
    roomy,
)
from headgate_spark.copying.reader import (
    CHUNK_RECORDS,
    BrokerBuckets,
    CopyOptions,
    GoneError,
    ReadError,
    RecreatedError,
    SourceReader,
)
from headgate_spark.job.command_line import JobError, in_words, now_ms
from headgate_spark.job.options import Connection
from headgate_spark.replay.progress import (
    CopyPosition,
    Order,
    ReplayMetrics,
    after_chunk,
    next_position,
    when_ready,
    with_state,
)
from headgate_spark.replay.registry import LeaseError, Pair, RefusedError, ReplayWriter

# ---- the topic of a replay


_MORE_ANSWERS, _METADATA_PAUSE_S = 2, 1.0
_HEADER_BYTES = 1_024  # more than `hg-replay-id` takes


class Made(NamedTuple):
    """A replay's topic. `id`: Kafka's id; None if it was not created, for the reason `why_not`."""

    id: str | None
    why_not: str = ""


async def create(target: Connection, source: Connection, replay: Replay, order: Order) -> Made:
    """Create a replay's topic.

    Args:
        target: The backfill cluster.
        source: The ingest cluster; only it has a topic that was never mirrored.
        replay: The replay.
        order: Its plan.

    Raises:
        JobError: A cluster refuses or does not answer.
    """
    is_warm = any(piece.tier == BACKFILL for part in order.pieces.values() for piece in part)
    async with cluster_admin(target) as admin:
        metadata = await (_metadata_with(admin, order.topic) if is_warm else admin.metadata())
        if is_warm or order.topic in metadata.topics:
            other = _other(metadata, target, order, BACKFILL)
            limit = 0 if other else await _limit(admin, order)
        else:
            other, limit = await _cold_limit(source, order)
        if other is not None:
            return Made(None, other)
        replicas = replicas_on(len(metadata.nodes))
        maximum = limit + _HEADER_BYTES
        await admin.create([_topic(replay, target.name, order.partitions, replicas, maximum)])
        await admin.settled({replay.topic: order.partitions})
        return Made((await admin.metadata()).topics[replay.topic].uuid)


async def _limit(admin: ClusterAdmin, order: Order) -> int:
    configs = await admin.configs([order.topic])
    return configs[order.topic].number("max.message.bytes")


async def _cold_limit(source: Connection, order: Order) -> tuple[str | None, int]:
    async with cluster_admin(source) as admin:
        other = _other(await _metadata_with(admin, order.topic), source, order, INGEST)
        return (other, 0) if other is not None else (None, roomy(await _limit(admin, order)))


async def other_topic(connection: Connection, order: Order, tier: str) -> str | None:
    """Return why the plan is not of the current topic; None: it is. Raises JobError."""
    async with cluster_admin(connection) as admin:
        return _other(await _metadata_with(admin, order.topic), connection, order, tier)


async def _metadata_with(admin: ClusterAdmin, topic: str) -> Metadata:
    """Return the metadata of a node that knows the topic.

    A node that has just started may not know it yet. So the topic counts as deleted only if several
    responses lack it.
    """
    metadata = await admin.metadata()
    for _ in range(_MORE_ANSWERS):
        if topic in metadata.topics:
            break
        await asyncio.sleep(_METADATA_PAUSE_S)
        metadata = await admin.metadata()
    return metadata


def _other(metadata: Metadata, connection: Connection, order: Order, tier: str) -> str | None:
    current, planned_id = metadata.topics.get(order.topic), order.topic_ids.get(tier)
    if current is None:
        return f"cluster {connection.name} has no topic {order.topic}"
    if planned_id not in (None, current.uuid):
        return recreated(order, f"its id is {current.uuid}, it was {planned_id}")
    return None


def recreated(order: Order, why: str) -> str:
    """Return the reason for a failure whose topic was recreated since the plan."""
    return (
        f"topic {order.topic} was deleted and recreated since this was planned ({why}): the plan's "
        "offsets are not its own; ask again when it is mirrored"
    )


def _topic(
    replay: Replay, cluster: str, partitions: int, replicas: int, max_message_bytes: int
) -> InternalTopic:
    # No retention by time: the runner deletes the topic.
    configs = copied_configs(-1, max_message_bytes)
    return InternalTopic(replay.topic, cluster, partitions, replicas, configs)


# ---- the copy of one replay


log = logging.getLogger("headgate_spark.replay")

_ANSWER_S = 60.0  # of a cluster that makes or deletes a topic; readers bound themselves
_STILL_S = 60.0  # after which a copy that has read nothing says so
_PAUSE_S, _MAX_PAUSE_S = 1.0, 30.0
_EXPECTED = (ReadError, JobError, RefusedError, *CLIENT_ERRORS)

T = TypeVar("T")


@dataclass(slots=True)
class RunnerContext:
    """The shared state of a runner's replays.

    Attributes:
        target: The backfill cluster.
        clusters: Connections of the clusters that specs name.
        statuses: Newer than those of the registry's reader, since only the runner writes them.
        cold: Limits of the reads from ingest clusters by all replays, to spare their brokers.
        is_over: Set when the runner ends.
        was_read: Set, and replaced, at the end of each turn of the runner, which has read all new
            records of the registry.
    """

    target: Connection
    clusters: Mapping[str, Connection]
    writer: ReplayWriter
    metrics: ReplayMetrics
    report: ProgressLine
    statuses: MutableMapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cold: MutableMapping[tuple[str, int | None], BrokerBuckets] = field(default_factory=dict)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    was_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_from_now(self) -> None:
        """Wait for a turn of the runner that begins after this call, and for its end."""
        await self.was_read.wait()  # this turn may have begun before
        await self.was_read.wait()

    def end_turn(self) -> None:
        """Wake the callers that wait for the end of the turn."""
        self.was_read.set()
        self.was_read = asyncio.Event()

    def cluster(self, order: Order, tier: str) -> Connection:
        """Return the cluster of a tier of a replay."""
        return self.target if tier == BACKFILL else self.clusters[order.cluster]


class ReplayCopy:
    """The copy of one replay. `control` is the requested action at its creation."""

    def __init__(self, context: RunnerContext, replay: Replay) -> None:
        self._context, self._replay = context, replay
        self.control = replay.control
        self._is_waiting = False
        self._task: asyncio.Task[None] | None = None
        self._source: tuple[CopyPosition, SourceReader] | None = None
        self._buckets: dict[bool, BrokerBuckets] = {}
        self._free_at = self._moved_at = 0.0

    def start(self, *, only_clean_up: bool = False) -> asyncio.Task[None]:
        """Begin. `only_clean_up`: the replay has ended, and only its topic may remain."""
        work = self._clean_up() if only_clean_up else self._carry_out()
        self._task = asyncio.create_task(work, name=f"replay {self._replay.id}")
        return self._task

    def interrupt(self) -> None:
        """Cancel the copy while it waits. A write in progress ends by itself."""
        if self._is_waiting and self._task is not None:
            self._task.cancel()

    async def _carry_out(self) -> None:
        """Run until there is nothing to do now. Raises LeaseError."""
        clock, pause_s = asyncio.get_running_loop().time, _PAUSE_S
        self._moved_at = clock()
        try:
            while has_work(self._replay, now_ms()) and not self._context.is_over.is_set():
                try:
                    if await self._step():
                        pause_s, self._moved_at = _PAUSE_S, clock()
                except LeaseError:
                    raise
                except Exception as error:  # the fault of one replay does not stop the others
                    if not isinstance(error, _EXPECTED):
                        log.exception("replay %s failed", self._replay.id)
                    await self._close()
                    await self._report_trouble(in_words(error))
                    await self._waiting(asyncio.sleep(pause_s))
                    pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        finally:
            await self._close()

    async def _clean_up(self) -> None:
        pause_s = _PAUSE_S
        while not self._context.is_over.is_set():
            try:
                await self._delete_topic()
            except _EXPECTED as error:
                self._context.report.say(f"replay {self._replay.id}: {in_words(error)}")
                await self._waiting(asyncio.sleep(pause_s))
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            else:
                return

    async def _waiting(self, what: Awaitable[T], within_s: float | None = None) -> T:
        """Wait for an event that `interrupt` may cancel. Raises TimeoutError."""
        self._is_waiting = True
        try:
            async with asyncio.timeout(within_s):
                return await what
        finally:
            self._is_waiting = False

    async def _asking(self, clusters: str, what: Awaitable[T]) -> T:
        """Limit the time of requests to clusters. Raises JobError."""
        try:
            return await self._waiting(what, _ANSWER_S)
        except TimeoutError as error:
            raise JobError(f"cluster {clusters}: no answer within {_ANSWER_S:g} s") from error

    async def _step(self) -> bool:
        """Take one step; return whether anything has changed."""
        replay = self._replay
        if replay.control is Control.CANCEL:
            return await self._end(ReplayState.CANCELLED, "")
        if replay.state is ReplayState.READY:
            return await self._end(ReplayState.EXPIRED, "")
        try:
            order = Order.of(replay.spec or {})
            self._context.clusters[order.cluster]
        except (KeyError, TypeError, ValueError) as error:
            return await self._end(ReplayState.FAILED, f"the spec cannot be read: {error!r}")
        try:
            return await self._advance(order)
        except RecreatedError as error:
            return await self._end(ReplayState.FAILED, recreated(order, str(error)))
        except GoneError as error:
            gone = f"records that were planned are gone from the log: {error}"
            return await self._end(ReplayState.FAILED, await self._other(order) or gone)
        except ReadError as error:
            await self._report_trouble(in_words(error))
            why = await self._other(order)
            if why is None:
                raise
            return await self._end(ReplayState.FAILED, why)

    async def _advance(self, order: Order) -> bool:
        replay, context = self._replay, self._context
        if replay.state is ReplayState.PENDING:
            source = context.clusters[order.cluster]
            clusters = f"{context.target.name} or {source.name}"
            made = await self._asking(clusters, create(context.target, source, replay, order))
            if made.id is None:
                return await self._end(ReplayState.FAILED, made.why_not)
            planned = with_state(replay, ReplayState.PLANNED, now_ms())
            return await self._write_status({**planned, "topic_id": made.id})
        if replay.state is ReplayState.PLANNED:
            # A pause that was requested while the runner stood still is not known yet.
            await self._waiting(context.read_from_now())
            if not has_work(replay, now_ms()) or replay.control is Control.CANCEL:
                return True
            return await self._write_status(with_state(replay, ReplayState.COPYING, now_ms()))
        position = next_position(order, replay.status)
        if position is None:
            await self._close()
            context.report.note(
                f"replay {replay.id}: {replay.status.get('records', 0)} records are ready"
            )
            return await self._write_status(when_ready(replay, order, now_ms()))
        return await self._copy(order, position)

    async def _copy(self, order: Order, position: CopyPosition) -> bool:
        replay, context = self._replay, self._context
        clock = asyncio.get_running_loop().time
        if self._free_at > clock():  # its rate is used up for now
            await self._waiting(asyncio.sleep(self._free_at - clock()))
        chunk = await self._waiting(self._read(order, position))
        if chunk.end <= position.at:
            if clock() - self._moved_at > _STILL_S:
                await self._report_trouble(
                    f"cluster {context.cluster(order, position.piece.tier).name}: partition "
                    f"{position.partition} of {order.topic}: nothing has come for {_STILL_S:g} s"
                )
            return False
        own_id: Any = replay.status.get("topic_id")
        if await self._waiting(context.writer.lacks(replay.topic, own_id)):
            return await self._end(ReplayState.FAILED, deleted(replay.topic))
        copied = Chunk([each for each in chunk.records if _taken(order, each)], chunk.end)
        written: list[Mapping[str, Any]] = []

        def status_records(behind: int | None) -> list[Pair]:
            written.append(after_chunk(replay.status, position, chunk, copied, behind, now_ms()))
            return [record(replay.id, "status", written[-1])]

        await context.writer.write(
            replay.topic, position.partition, copied.records, replay.id, status_records
        )
        size = written[-1]["bytes"] - replay.status.get("bytes", 0)
        context.metrics.copied(context.target.name, len(copied.records), size)
        self._set(written[-1])
        if self._source is not None:
            self._source = (position._replace(at=chunk.end), self._source[1])
        per_s = order.rate.get("records_per_s")
        if per_s:
            self._free_at = max(self._free_at, clock()) + len(copied.records) / per_s
        return True

    async def _read(self, order: Order, position: CopyPosition) -> Chunk:
        source = await self._reader(order, position)
        chunk = await source.read(position.piece.end)
        topic_id = order.topic_ids.get(position.piece.tier)
        if topic_id is not None:
            await source.check(topic_id)
        return chunk

    async def _reader(self, order: Order, position: CopyPosition) -> SourceReader:
        if self._source is not None and self._source[0] == position:
            return self._source[1]
        await self._close()
        cluster = self._context.cluster(order, position.piece.tier)
        options = CopyOptions(cluster, self._context.target)
        per_s = order.rate.get("records_per_s")
        if per_s:  # small pieces, so that a slow replay goes on all the time
            options = CopyOptions(
                cluster, self._context.target, chunk_records=max(1, min(CHUNK_RECORDS, per_s))
            )
        tp = TopicPartition(order.topic, position.partition)
        buckets = self._buckets_of(order, is_warm=position.piece.tier == BACKFILL)
        source = SourceReader(tp, options, buckets)
        self._source = (position, source)
        await source.start()
        source.seek(position.at)
        return source

    def _buckets_of(self, order: Order, *, is_warm: bool) -> BrokerBuckets:
        """Return the rate limits of a replay for one tier; they last as long as the replay."""
        if is_warm not in self._buckets:
            rate = order.rate.get("bytes_per_s" if is_warm else "cold_bytes_per_s")
            within = None
            if not is_warm:
                in_all = order.rate.get("cold_in_all_bytes_per_s", rate)
                shared = self._context.cold
                within = shared.setdefault((order.cluster, in_all), BrokerBuckets(in_all))
            self._buckets[is_warm] = BrokerBuckets(rate, within)
        return self._buckets[is_warm]

    async def _other(self, order: Order) -> str | None:
        """Return why the planned records are lost for good; None: they may be readable again."""
        position = next_position(order, self._replay.status)
        if position is None:
            return None
        cluster = self._context.cluster(order, position.piece.tier)
        try:
            return await self._asking(
                cluster.name, other_topic(cluster, order, position.piece.tier)
            )
        except JobError:
            return None

    async def _close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source[1].drop()

    async def _end(self, state: ReplayState, reason: str) -> bool:
        await self._close()
        await self._delete_topic()
        report, replay = self._context.report, self._replay
        say = report.say if state is ReplayState.FAILED else report.note
        say(f"replay {replay.id}: {state}{': ' + reason if reason else ''}")
        return await self._write_status(with_state(replay, state, now_ms(), reason))

    async def _delete_topic(self) -> None:
        target = self._context.target
        await self._asking(target.name, _delete(target, self._replay.topic))

    async def _report_trouble(self, text: str) -> None:
        reason = f"{text}; trying again"
        if self._replay.status.get("reason") == reason:
            return
        self._context.report.say(f"replay {self._replay.id}: {reason}")
        await self._write_status(with_state(self._replay, self._replay.state, now_ms(), reason))

    async def _write_status(self, status: Mapping[str, object]) -> bool:
        await self._context.writer.write_status([record(self._replay.id, "status", status)])
        self._set(status)
        return True

    def _set(self, status: Mapping[str, Any]) -> None:
        self._context.statuses[self._replay.id] = self._replay.status = status


def has_work(replay: Replay, at_ms: int) -> bool:
    """Return whether there is anything to do for a replay now."""
    if replay.is_finished:
        return False
    if replay.control is Control.CANCEL:
        return True
    if replay.state is ReplayState.READY:
        return int(str(replay.status.get("expires_ms", 0))) < at_ms
    return replay.control is not Control.PAUSE


async def _delete(target: Connection, topic: str) -> None:
    async with cluster_admin(target) as admin:
        await admin.delete(topic)


def _taken(order: Order, source: SourceRecord) -> bool:
    only = order.only
    return only.is_empty or only.takes(source.key, source.value, source.headers)
