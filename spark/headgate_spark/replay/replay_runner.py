"""Carries out the replays of one backfill cluster: the runner, while it has the lease.

Each step is one transaction that ends with the replay's status, so that a runner that is killed
anywhere leaves what the next one's first read finds. Replays take turns, a chunk each.
"""

import time
from collections.abc import Mapping
from typing import Any

from aiokafka.structs import TopicPartition

from headgate.core.replays.plan import BACKFILL
from headgate.core.replays.replay import (
    FINISHED,
    Control,
    Replay,
    ReplayState,
    deleted,
    record,
    runner_record,
)
from headgate.core.replays.spec import ReplayMode
from headgate.core.terminal.progress import ProgressLine
from headgate_spark.copying.chunks import Chunk
from headgate_spark.copying.copy_plan import CopyOptions
from headgate_spark.copying.source_reader import GoneError, ReadError, RecreatedError, SourceReader
from headgate_spark.copying.throttle import BrokerBuckets
from headgate_spark.job.connections import Connection
from headgate_spark.job.times import now_ms
from headgate_spark.kafka.cluster_admin import cluster_admin
from headgate_spark.replay.replay_metrics import ReplayMetrics
from headgate_spark.replay.replay_progress import (
    CopyPosition,
    Order,
    after_chunk,
    copying_step,
    next_place,
    when_ready,
    with_state,
)
from headgate_spark.replay.replay_registry import RegistryReader
from headgate_spark.replay.replay_topics import create, other_topic, recreated
from headgate_spark.replay.replay_writer import Pair, ReplayWriter

BEAT_S = 2.0


class Runner:
    """name: in the registry.  clusters: how to reach those that specs name.

    Calls raise LeaseError, ReadError, JobError, KafkaError, OSError or TimeoutError: then nothing
    is known for certain, and the next runner reads it again.
    """

    def __init__(
        self,
        name: str,
        target: Connection,
        clusters: Mapping[str, Connection],
        writer: ReplayWriter,
        reader: RegistryReader,
        metrics: ReplayMetrics,
        report: ProgressLine,
    ) -> None:
        self._name = name
        self._target = target
        self._clusters = clusters
        self._writer, self._reader = writer, reader
        self._metrics = metrics
        self._report = report
        self._beat_at = 0.0
        self._cold: dict[tuple[str, int | None], BrokerBuckets] = {}
        # Newer than what the reader has seen so far: nobody else writes them.
        self._statuses: dict[str, Mapping[str, Any]] = {}
        self._sources: dict[str, tuple[CopyPosition, SourceReader]] = {}
        self._free_at: dict[str, float] = {}
        self._shown: str | None = None  # what the report has of this cluster

    async def turn(self) -> bool:
        """Give each replay one step; whether any had something to do."""
        await self._reader.read_new()
        await self._beat()
        did = False
        for replay in list(self._reader.registry):
            if (replay.spec or {}).get("mode") == ReplayMode.TOPIC:
                did = await self._turn_of(replay) or did
        self._show()
        return did

    def _show(self) -> None:
        """How far it is; the runners of other clusters write to the same line."""
        step = copying_step(self._reader.registry, self._target.name)
        if self._shown is not None and (step is None or step.what != self._shown):
            self._report.end(self._shown)
        if step is not None:
            self._report.show(step)
        self._shown = None if step is None else step.what

    async def sweep(self) -> None:
        """Delete the topics of replays that have ended: a runner may have died in between."""
        over = {one.topic for one in self._reader.registry if one.is_finished}
        async with cluster_admin(self._target) as admin:
            for topic in over & (await admin.metadata()).topics.keys():
                await admin.delete(topic)

    async def _turn_of(self, replay: Replay) -> bool:
        if replay.is_finished:
            known = self._statuses.pop(replay.id, None)
            if known is not None and known["state"] not in FINISHED:
                # cancelled by the API just when it was begun here
                async with cluster_admin(self._target) as admin:
                    await admin.delete(replay.topic)
            return False
        replay.status = self._statuses.get(replay.id, replay.status)
        return not replay.is_finished and await self._step(replay)

    async def drop(self) -> None:
        """Let go of what is open."""
        if self._shown is not None:
            self._report.end(self._shown)
        for _, source in self._sources.values():
            await source.drop()
        self._sources.clear()

    # ---- one step of one replay

    async def _step(self, replay: Replay) -> bool:
        if replay.control is Control.CANCEL:
            return await self._end(replay, ReplayState.CANCELLED, "")
        if replay.state is ReplayState.READY:
            is_over = int(str(replay.status.get("expires_ms", 0))) < now_ms()
            return is_over and await self._end(replay, ReplayState.EXPIRED, "")
        if replay.control is Control.PAUSE:
            await self._close(replay)
            return False
        try:
            order = Order.of(replay.spec or {})
            return await self._advance(replay, order)
        except (KeyError, TypeError, ValueError) as error:
            return await self._end(
                replay, ReplayState.FAILED, f"the spec cannot be read: {error!r}"
            )
        except RecreatedError as error:
            return await self._end(replay, ReplayState.FAILED, recreated(order, str(error)))
        except (GoneError, ReadError) as error:
            why = await self._lost(replay, order, error)
            if why is None:
                raise
            return await self._end(replay, ReplayState.FAILED, why)

    async def _lost(self, replay: Replay, order: Order, error: Exception) -> str | None:
        """Why what is planned will never be read again; None: it may be."""
        place = next_place(order, replay.status)
        if place is not None:
            tier = place.piece.tier
            other = await other_topic(self._cluster(order, tier), order, tier)
            if other is not None:
                return other
        is_gone = isinstance(error, GoneError)
        return f"records that were planned are gone from the log: {error}" if is_gone else None

    def _cluster(self, order: Order, tier: str) -> Connection:
        return self._target if tier == BACKFILL else self._clusters[order.cluster]

    async def _advance(self, replay: Replay, order: Order) -> bool:
        if replay.state is ReplayState.PENDING:
            made = await create(self._target, self._clusters[order.cluster], replay, order)
            if made.id is None:
                return await self._end(replay, ReplayState.FAILED, made.why_not)
            planned = with_state(replay, ReplayState.PLANNED, now_ms())
            return await self._tell(replay, {**planned, "topic_id": made.id})
        if replay.state is ReplayState.PLANNED:
            return await self._tell(replay, with_state(replay, ReplayState.COPYING, now_ms()))
        place = next_place(order, replay.status)
        if place is None:
            await self._close(replay)
            self._report.note(
                f"replay {replay.id}: {replay.status.get('records', 0)} records are ready"
            )
            return await self._tell(replay, when_ready(replay, order, now_ms()))
        return await self._copy(replay, order, place)

    async def _copy(self, replay: Replay, order: Order, place: CopyPosition) -> bool:
        if self._free_at.get(replay.id, 0.0) > time.monotonic():
            return False  # its rate is used up for now
        source = await self._source(replay, order, place)
        chunk = await source.read(place.piece.end)
        topic_id = order.topic_ids.get(place.piece.tier)
        if topic_id is not None:
            await source.check(topic_id)
        if chunk.end <= place.at:
            return False
        own_id: Any = replay.status.get("topic_id")
        if await self._writer.lacks(replay.topic, own_id):
            return await self._end(replay, ReplayState.FAILED, deleted(replay.topic))
        copied = Chunk([one for one in chunk.records if _taken(order, one)], chunk.end)
        written: list[Mapping[str, Any]] = []

        def status_records(behind: int | None) -> list[Pair]:
            written.append(after_chunk(replay.status, place, chunk, copied, behind, now_ms()))
            return [record(replay.id, "status", written[-1])]

        await self._writer.write(
            replay.topic, place.partition, copied.records, replay.id, status_records
        )
        size = written[-1]["bytes"] - replay.status.get("bytes", 0)
        self._metrics.copied(self._target.name, len(copied.records), size)
        self._statuses[replay.id] = replay.status = written[-1]
        at = place._replace(at=chunk.end)
        self._sources[replay.id] = (at, source)
        per_s = order.rate.get("records_per_s")
        if per_s:
            start = max(self._free_at.get(replay.id, 0.0), time.monotonic())
            self._free_at[replay.id] = start + len(copied.records) / per_s
        return True

    async def _source(self, replay: Replay, order: Order, place: CopyPosition) -> SourceReader:
        known = self._sources.get(replay.id)
        if known is not None and known[0] == place:
            return known[1]
        await self._close(replay)
        is_warm = place.piece.tier == BACKFILL
        cluster = self._cluster(order, place.piece.tier)
        rate = order.rate.get("bytes_per_s" if is_warm else "cold_bytes_per_s")
        per_s = order.rate.get("records_per_s")
        options = CopyOptions(cluster, self._target)
        if per_s:  # small pieces, so that a slow replay goes on all the time
            options = CopyOptions(cluster, self._target, chunk_records=max(1, min(5_000, per_s)))
        tp = TopicPartition(order.topic, place.partition)
        source = SourceReader(tp, options, self._buckets(order, rate, is_warm=is_warm))
        self._sources[replay.id] = (place, source)
        await source.start()
        source.seek(place.at)
        return source

    def _buckets(self, order: Order, rate: int | None, *, is_warm: bool) -> BrokerBuckets:
        """Each replay has its own; what all read from an ingest cluster is counted together, too,
        for its brokers are to be spared."""
        if is_warm:
            return BrokerBuckets(rate)
        in_all = order.rate.get("cold_in_all_bytes_per_s", rate)
        within = self._cold.setdefault((order.cluster, in_all), BrokerBuckets(in_all))
        return BrokerBuckets(rate, within)

    # ---- its end

    async def _end(self, replay: Replay, state: ReplayState, reason: str) -> bool:
        await self._close(replay)
        async with cluster_admin(self._target) as admin:
            await admin.delete(replay.topic)
        say = self._report.say if state is ReplayState.FAILED else self._report.note
        say(f"replay {replay.id}: {state}{': ' + reason if reason else ''}")
        return await self._tell(replay, with_state(replay, state, now_ms(), reason))

    # ---- the registry

    async def _tell(self, replay: Replay, status: Mapping[str, object]) -> bool:
        await self._writer.tell([record(replay.id, "status", status)])
        self._statuses[replay.id] = replay.status = status
        return True

    async def _beat(self) -> None:
        if time.monotonic() - self._beat_at >= BEAT_S:
            await self._writer.tell([self.beat()])
            self._beat_at = time.monotonic()
            self.report()

    def report(self) -> None:
        """Write the metrics."""
        self._metrics.tell(self._target.name, self._reader.registry, now_ms())

    def beat(self, *, is_last: bool = False) -> Pair:
        """The registry record that says who is the runner."""
        return runner_record({"runner": self._name, "at_ms": now_ms(), "stopped": is_last})

    async def _close(self, replay: Replay) -> None:
        known = self._sources.pop(replay.id, None)
        if known is not None:
            await known[1].drop()


def unfinished(reader: RegistryReader) -> bool:
    """Whether any replay could go on now."""
    return any(
        (one.spec or {}).get("mode") == ReplayMode.TOPIC
        and one.state not in {*FINISHED, ReplayState.READY}
        and one.control is not Control.PAUSE
        for one in reader.registry
    )


def _taken(order: Order, one: object) -> bool:
    only = order.only
    return only.is_empty or only.takes(one.key, one.value, one.headers)  # type: ignore[attr-defined]
