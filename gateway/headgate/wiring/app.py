"""The composition root: one worker of the gateway, wired from settings and real backends."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import chain

from aiohttp import web

from headgate.audits.facts_log import FactsLog
from headgate.backends.base import Deliveries, Lanes, Suppression, Verdicts
from headgate.backends.owned import OwnedTasks
from headgate.blobs.blobs import Blobs
from headgate.coalescer.bursts import Bursts
from headgate.config import HttpSettings, RedisSettings, Settings
from headgate.config.settings import LogSettings, ProducerSettings
from headgate.http.confluent.records import RecordStreams
from headgate.http.confluent.service import KnownTopics, ProduceEndpoint, ProduceService, TopicViews
from headgate.http.events import BurstsFront, EventsFront
from headgate.http.listener import Listener, server_context
from headgate.http.openapi.docs_pages import Documents
from headgate.http.origins import Cors, Origins
from headgate.http.request_log import RequestLog
from headgate.http.routes import Confluent, DataPlane, Page
from headgate.http.server import HttpServer, close_sites
from headgate.http.starting import InTurn, Starting
from headgate.http.streams import StreamLimits, Streams
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.events import EventIdentity
from headgate.idempotency.requests import Once, RequestIdentity
from headgate.ingest.admission import Admission
from headgate.ingest.clock import ClockWatch, Deadlines, now_ms
from headgate.ingest.gate import Gate, ProducerQuotas, in_flight_limits
from headgate.ingest.path import Pipeline
from headgate.ingest.routes import Compiler, Routes
from headgate.ingest.turn import at_end_of_turn
from headgate.kafka.lane import LoneBatch
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import (
    BATCH_BYTES,
    ClusterOptions,
    LaneLimits,
    cluster_options,
    lane_limits,
)
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.meter import Labels, Meter, watch_loop
from headgate.model.content import forget_received
from headgate.model.event import EventIds, RequestIds
from headgate.model.internal_topics import topic_of
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import state_rows
from headgate.model.topics import SimilarTopics, TopicState
from headgate.offload.helper_process import HelperProcess, PoolWeigher
from headgate.oversize.choose import Tools
from headgate.suppression.sharded import (
    AnySuppressor,
    States,
    Unsuppressed,
    redis_dependencies,
    states_now,
)
from headgate.wiring.coalescing import HeldTopics, cluster_of
from headgate.wiring.pipeline import (
    PipelineParts,
    RequestLimits,
    build_pipeline,
    identity_of,
    suppressor_of,
)
from headgate.wiring.reloading import Callers, Preparing, Reload, free_in_turns
from headgate.wiring.spool import spool_of, spooling_to
from headgate.wiring.tracing import tracing_of

_KAFKA_START_S = 1.0  # time limit of a start's wait for Kafka
_END_S = 1.0  # time for cancelled tasks to end
_LINGER_S = 2.0  # time for connections still open after the last response


class Worker:
    """One process of the gateway. Built inside a running event loop; `start` opens the port.

    Args:
        settings: The configuration.
        workers: Number of workers that share the instance's budgets.
        others: Handler of paths that the data plane does not know, if both ports are one.
        clock_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        workers: int,
        others: Page | None = None,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.settings = settings
        self._others = others
        self._ids = EventIds(os.urandom(6))
        self._request_ids = RequestIds(os.urandom(6))
        self._helper = HelperProcess()
        self._exit = AsyncExitStack()
        self._tasks = OwnedTasks()
        ingest_tier = {
            name: cluster for name, cluster in settings.clusters.items() if cluster.tier == "ingest"
        }
        options = {name: cluster_options(cluster) for name, cluster in ingest_tier.items()}
        refresh_ms = min(cluster.metadata_refresh_ms for cluster in ingest_tier.values())
        self.topics = KafkaTopics(options, refresh_ms)
        self.policies = PolicyTable(settings.topics)
        self.meter = Meter(self._labels(), time.time)
        self._tracing = tracing_of(settings.tracing, self.meter)
        self._limits = Limits(settings, workers, self.meter)
        self.admission = self._limits.admission
        self.callers = Callers(settings.auth, Origins.of_data_port, self.meter.keys_fetched)
        self._callers = self.callers.of(settings)
        http = settings.http
        self._compiler = Compiler(http.json_max_depth, settings.redis.namespace, http.key_max_bytes)
        self.routes = Routes(self.policies, self.topics, self._compiler)
        self.facts_log = FactsLog(settings, options, self.topics, self.meter, now_ms)
        self.held = HeldTopics(
            settings,
            options,
            *(self.topics, self.meter, now_ms, self._helper),
            coalesces=settings.coalescer.in_gateway,
            facts=self.facts_log.facts,
            spans=self._tracing.later,
        )
        shared = (self.topics, lambda: self.policies, now_ms, self.meter, self._tracing.later)
        self.spool = spool_of(settings, *shared)
        is_spooled = None if self.spool is None else self.spool.backlogs.is_behind
        similar = SimilarTopics(self._served_topics, time.monotonic)
        self.gate = Gate(self.routes, self.held.refusal, is_spooled, similar)
        limits = {name: lane_limits(cluster) for name, cluster in ingest_tier.items()}
        self._preparing = Preparing(self.routes.prepare_in_turns)
        url = settings.blobs.url
        self.blobs = None if url is None else Blobs(url, settings.blobs.uploads)
        self.service = identity_of(settings.redis, self.meter)
        self._clock = ClockWatch(self.topics.get, time.monotonic)
        self.suppressor: AnySuppressor | None = None
        lanes = partial(self._open_lanes, options, limits)
        self.pipeline, self._oversize = build_pipeline(self._parts(clock_ms, lanes))
        self.topics.on_change(self._topic_changed)

    def _served_topics(self) -> list[str]:
        """Return the names of the topics that take events."""
        names = (state.name for state in self.topics.states())
        return [name for name in names if self.policies.match(name) is not None]

    def _parts(
        self, clock_ms: Callable[[], int], lanes: Callable[[Deliveries], Lanes]
    ) -> PipelineParts:
        http, service, prefix = self.settings.http, self.service, self.settings.redis.namespace
        return PipelineParts(
            schedule=at_end_of_turn,
            gate=self.gate,
            admission=self.admission,
            quotas=self._limits.quotas,
            ids=self._ids,
            limits=RequestLimits(http.batch_max_events, http.request_timeout_ms),
            clock_ms=clock_ms,
            clock=self._clock,
            lanes=lanes,
            suppression=self._open_suppression,
            identities=None if service is None else EventIdentity(service, prefix, self.meter),
            helper=self._helper,
            tools=Tools(self._ids, self.blobs, self._helper, LoneBatch, BATCH_BYTES),
            meter=self.meter,
            facts=self.facts_log.facts,
            spool=self.spool,
            traces=self._tracing.traces,
        )

    def _open_lanes(
        self,
        options: Mapping[str, ClusterOptions],
        limits: Mapping[str, LaneLimits],
        deliveries: Deliveries,
    ) -> KafkaLanes:
        own = (limits, self.meter, self._limits.in_turn.is_pressed)
        self.lanes = KafkaLanes(options, self.topics, deliveries, *own)
        return self.lanes

    def _labels(self) -> Labels:
        return Labels(self.settings.producers, lambda topic: self.topics.get(topic) is not None)

    def _open_suppression(self, verdicts: Verdicts) -> Suppression:
        suppressor = suppressor_of(self.settings, verdicts, self.meter, self.topics)
        if suppressor is None:
            return Unsuppressed(verdicts)
        self._compiler.listener = self.suppressor = suppressor
        return suppressor

    # ---- start and stop

    async def start(self) -> None:
        """Connect and listen.

        Kafka and Redis may be down. A start waits for them only for a bounded time: a client whose
        connection is refused gets no reason, and a spool can take events meanwhile.
        """
        self._tracing.start(self._exit)
        self._exit.push_async_callback(self._preparing.close)
        kafka_until = time.monotonic() + _KAFKA_START_S
        await self.topics.start(self._cluster_of, _KAFKA_START_S)
        self._exit.push_async_callback(self.topics.close)
        await self._preparing.finish()
        if self.spool is not None:  # open from before the first event until after the lanes' last
            await self.spool.start(lambda cluster: self.lanes.health(cluster)[0])
            self._exit.push_async_callback(self.spool.close)
            self.meter.watch_spool(self.spool.by_topic)
        await self.lanes.start(max(0.0, kafka_until - time.monotonic()))
        self._exit.push_async_callback(self.lanes.close)
        starts = [self.held.start()]
        if self.suppressor is not None:
            self._exit.push_async_callback(self.suppressor.close)  # a start may be cancelled
            starts.append(self.suppressor.start())
        if self.service is not None:
            self._exit.push_async_callback(self.service.close)
            starts.append(self.service.start())
        self._exit.callback(self._helper.close)
        self.facts_log.start()
        # closed after the last held events have ended
        self._exit.push_async_callback(self.facts_log.close)
        self._exit.push_async_callback(self.held.close)
        await asyncio.gather(*starts)  # each waits for Redis
        if self.blobs is not None:
            self._exit.callback(self.blobs.close)
        self._exit.push_async_callback(self._oversize.close)
        self.meter.watch(self._depths, lambda: (self.admission.events, self.admission.bytes))
        self.meter.watch_held(self.held.rows)
        self.meter.watch_suppression(lambda: state_rows(self.suppression()))
        loop, http = asyncio.get_running_loop(), self.settings.http
        deadlines = Deadlines(self.pipeline.expire, http.request_timeout_ms / 1000, loop.time)
        self._exit.push_async_callback(self._tasks.end, _END_S)
        self._tasks.keep(deadlines.run, "deadlines")
        await self.callers.start(self._tasks)
        self._tasks.keep(partial(watch_loop, self.meter.loop_stall), "watch of the event loop")
        identity = (self.pipeline, self.service, self.settings.redis, self.meter)
        self._front = EventsFront(
            self.pipeline,
            self._callers,
            self.admission,
            starting(*identity, deadlines, self._limits.in_turn),
            self._limits.quotas,
            PoolWeigher(self._helper),
            self.meter,
            streams(self.settings, self.gate, self.blobs),
            self._request_ids,
            http.body_max_bytes,
            http.body_timeout_ms / 1000,
            request_log(self.settings.logs, self._exit),
            self._tracing.traces,
        )
        await self._listen()

    async def _listen(self) -> None:
        http, ids = self.settings.http, self._request_ids
        shared = (self.topics, self.readiness, ids, http, self._others)
        plane = data_plane(self._front, self._bursts(), *shared)
        self.server, self.port = await listen(plane, self._front, ids, http, self._exit)

    def _bursts(self) -> Bursts:
        timeout_s = self.settings.http.request_timeout_ms / 1000
        shared = (self.gate, self.topics, lambda: self.policies)
        return Bursts(*shared, self.lanes, self._limits.quotas, now_ms, timeout_s)

    async def drain(self) -> None:
        """Refuse new requests, wait for those in flight (bounded), then stop."""
        self.server.refuse_bodies()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.http.drain_timeout_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self.pipeline.drain()
        await self.lanes.drain(max(0.0, end - loop.time()))
        await self._exit.aclose()

    # ---- while it runs

    async def reload(self, reload: Reload) -> None:
        """Activate another configuration's topics and producers, all at once.

        The other settings must be equal (`config.load.reloadable`). Returns once all topics are
        prepared, including those that no event has prepared meanwhile.
        """
        old = Reload(self.settings, self.policies, self._callers).parts()
        self.settings, self.policies, self._callers = reload
        self._front.callers = self._callers
        self.meter.relabel(self._labels())
        self._limits.replace(self.settings.producers)
        self.routes.replace(self.policies)
        self.held.replace(self.policies)
        self.facts_log.replace(self.settings)
        if self._helper.is_running:
            self._helper.ask(forget_received)
        self.topics.refresh_soon()
        await self.routes.prepare_in_turns([state.name for state in self.topics.states()])
        await free_in_turns(old)

    def readiness(self) -> Readiness:
        """Return the readiness that /ready shows."""
        dependencies = [] if self.spool is None else [self.spool.dependency()]
        spools = bool(dependencies) and dependencies[0].ok  # then Kafka may be down
        for name, cluster in self.settings.clusters.items():
            if cluster.tier == "ingest":
                ok, detail = self.lanes.health(name)
                needed = not (spools and spooling_to(name, self.policies))
                dependencies.append(Dependency(f"kafka {name}", ok, needed, detail))
        if self.suppressor is not None:
            dependencies += redis_dependencies(self.suppressor, self.suppression(), self.policies)
        if self.service is not None:
            dependencies += [Dependency(*row) for row in self.service.dependencies()]
        if self.blobs is not None:
            ok, detail = self.blobs.health()
            dependencies.append(Dependency("blobs", ok, False, detail))
        return Readiness(self.server.is_leaving, (*dependencies, *self._clock.dependencies()))

    def suppression(self) -> States:
        """Return the suppression state of each topic that this process compares."""
        own = {} if self.suppressor is None else self.suppressor.states()
        return states_now((own, self.held.suppression()), self.policies, self.topics)

    def _cluster_of(self, name: str) -> str | None:
        return self.facts_log.cluster_of(name) or cluster_of(name, self.policies)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        state = after or before
        if state is not None and (of := topic_of(state.name)) is not None:
            self.routes.forget(of)
            if self.topics.get(of) is not None:
                self.routes.prepare((of,))
        elif after is not None and before is not None:
            self.routes.prepare((after.name,))  # in this turn: its lanes use the new state
        elif after is not None:
            self._preparing.ask(after.name)

    def _depths(self) -> Iterator[tuple[str, int, int, int]]:
        return chain(self.lanes.depths(), self.facts_log.depths())


class Limits:
    """The limits of producers in one worker: its even share of the instance's limits."""

    def __init__(self, settings: Settings, workers: int, meter: Meter) -> None:
        self._workers = workers
        self.admission = Admission(
            settings.admission.in_flight_max_bytes // workers,
            settings.admission.in_flight_max_events // workers,
        )
        self.quotas = ProducerQuotas(workers, time.monotonic, meter.quota_rejected)
        self.in_turn = InTurn(settings.http.request_timeout_ms / 1000)
        self.replace(settings.producers)

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Activate other producers; their events in flight and used quotas stay counted."""
        self.quotas.replace(producers)
        self.admission.limits = in_flight_limits(producers, self._workers)


# ---- the HTTP side: the handler of each path, and the port


def starting(
    pipeline: Pipeline,
    service: IdentityClient | ShardedIdentity | None,
    redis: RedisSettings,
    meter: Meter,
    deadlines: Deadlines,
    in_turn: InTurn,
) -> Starting:
    """Return the starter of requests.

    Args:
        pipeline: The pipeline.
        service: Store of Idempotency-Keys, if there is a Redis.
        redis: The settings of Redis.
        meter: The metrics.
        deadlines: The deadlines of requests.
        in_turn: The queue of waiting requests.
    """
    keys = RequestIdentity(service, redis.namespace, redis.idempotency_ttl_ms, meter)
    once = Once(pipeline, keys, asyncio.get_running_loop().time, deadlines.watch)
    return Starting(pipeline, once, deadlines, in_turn)


def streams(settings: Settings, gate: Gate, blobs: Blobs | None) -> Streams:
    """Return the handler of bodies over the size limit."""
    http, limit = settings.http, settings.blobs.max_bytes
    window = (http.body_max_bytes, http.body_timeout_ms / 1000)
    limits = StreamLimits(limit, *window, http.json_max_depth)
    return Streams(gate, blobs, limits)


def data_plane(
    front: EventsFront,
    bursts: Bursts,
    topics: KnownTopics,
    readiness: Callable[[], Readiness],
    request_ids: RequestIds,
    http: HttpSettings,
    others: Page | None,
) -> DataPlane:
    """Return the data plane, which has a handler for each path. For `others` see `DataPlane`."""
    return DataPlane(
        front,
        BurstsFront(front, bursts),
        _confluent(front, topics, http),
        readiness,
        request_ids,
        Documents(partial(_document, http), partial(_own_document, http)),
        Cors(http.cors_origins),
        others,
    )


def _document(http: HttpSettings) -> bytes:
    # The document of both ports takes a MiB, and most workers never serve it.
    from headgate.http.openapi.document import document

    return document(http)


def request_log(logs: LogSettings, closing: AsyncExitStack) -> RequestLog:
    """Return the request log; `closing` takes the callback that ends it."""
    log = RequestLog(logs_every_request=logs.access)
    closing.callback(log.close)
    return log


def _own_document(http: HttpSettings) -> bytes:
    from headgate.http.openapi.document import DATA, document_of

    return document_of(http, DATA)


async def listen(
    plane: DataPlane,
    front: EventsFront,
    request_ids: RequestIds,
    http: HttpSettings,
    closing: AsyncExitStack,
) -> tuple[HttpServer, Listener]:
    """Open the data port; `closing` takes the callbacks that close it."""
    server = HttpServer(
        plane.answer,
        http.header_max_bytes,
        request_ids,
        front.request_log,
        front,
        idle_s=http.idle_timeout_ms / 1000,
    )
    runner = web.ServerRunner(server, shutdown_timeout=_LINGER_S)
    await runner.setup()
    closing.push_async_callback(runner.cleanup)
    closing.push_async_callback(close_sites, runner, server, _LINGER_S)
    port = Listener(runner, http.host, http.port, shares=True)
    await port.start(server_context(http))
    closing.callback(port.close)
    closing.push_async_callback(port.stop_accepting)
    return server, port


def _confluent(front: EventsFront, topics: KnownTopics, http: HttpSettings) -> Confluent:
    service = ProduceService(front, topics)
    return Confluent(
        service,
        ProduceEndpoint(service, http.batch_max_events),
        RecordStreams(
            service, http.batch_max_events, http.body_max_bytes, http.body_timeout_ms / 1000
        ),
        TopicViews(service),
    )
