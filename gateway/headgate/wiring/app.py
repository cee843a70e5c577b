"""The composition root: one worker of the gateway, wired from settings and real backends."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from headgate.audits.facts_log import FactsLog
from headgate.backends.base import Deliveries, Suppression, Verdicts
from headgate.backends.owned import OwnedTasks
from headgate.blobs.blobs import Blobs
from headgate.coalescer.bursts import Bursts
from headgate.config import HttpSettings, Settings
from headgate.config.settings import ProducerSettings
from headgate.http.answer import Documents
from headgate.http.auth import Cors, Origins
from headgate.http.body import Bodies, BodyLimits
from headgate.http.confluent.records import RecordStreams
from headgate.http.confluent.service import ProduceService
from headgate.http.events import EventsFront, FairQueue
from headgate.http.listener import Listener, server_context
from headgate.http.request_log import RequestLog, request_ids
from headgate.http.routes import BurstsFront, DataPlane, Page
from headgate.http.server import HttpServer, close_sites
from headgate.idempotency.identity import EventIdentity, RequestIdentity
from headgate.ingest.admission import Admission, ProducerQuotas, in_flight_limits
from headgate.ingest.complete import ClockWatch, Reports, now_ms
from headgate.ingest.deadlines import Deadlines
from headgate.ingest.gate import Gate, Routes
from headgate.ingest.turn import EventIds, at_end_of_turn
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import BATCH_BYTES, backfill_clusters, lane_limits
from headgate.kafka.producer import SingleRecordBatch
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.meter import Meter, watch_loop
from headgate.model.content import forget_received
from headgate.model.internal_topics import topic_of
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import state_rows
from headgate.model.topics import SimilarTopics, TopicState, is_glob
from headgate.offload.helper_process import PoolWeigher
from headgate.oversize.choose import Tools
from headgate.spool.backlog import Backlogs
from headgate.suppression.sharded import (
    AnySuppressor,
    States,
    Unsuppressed,
    redis_dependencies,
    states_now,
)
from headgate.wiring.coalescing import HeldTopics, cluster_of
from headgate.wiring.parts import Parts, identity_of, labels, suppressor_of
from headgate.wiring.pipeline import (
    Built,
    OpenLanes,
    PipelineParts,
    build_pipeline,
)
from headgate.wiring.reloading import Authenticators, Preparing, Reload, free_in_turns

if TYPE_CHECKING:
    from headgate.spool.service import SpoolService

_KAFKA_START_S = 1.0  # time limit of a start's wait for Kafka
_BACKFILL_MS = 10_000  # between two requests to a backfill cluster, whose state /ready shows
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
        self.policies = PolicyTable(settings.topics)
        self.parts = parts = Parts.from_settings(settings)
        self.topics, self.meter = parts.topics, parts.meter
        self._backfill = KafkaTopics(backfill_clusters(settings.clusters), _BACKFILL_MS)
        self._tasks = OwnedTasks()
        self._exit = AsyncExitStack()
        http = settings.http

        # producers: who they are, and how much they may send
        self.authenticators = Authenticators(
            settings.auth, Origins.of_data_port, self.meter.keys_fetched
        )
        self._authenticator = self.authenticators.of(settings)
        self._limits = Limits(settings, workers, self.meter)
        self.admission = self._limits.admission

        # topics: their routes, and why they may refuse events
        self.suppressor: AnySuppressor | None = None
        compiler = parts.compiler(lambda: self.suppressor)
        self.routes = Routes(self.policies, self.topics, compiler)
        self._preparing = Preparing(self.routes.prepare_in_turns)
        self.facts_log = FactsLog(settings, parts.clusters, self.topics, self.meter, clock_ms)
        self.held = HeldTopics(parts, self.facts_log.facts, coalesces=settings.coalescer.in_gateway)
        backlogs = Backlogs(lambda: self._built.suppression, self.routes.scope_of)
        has_spool = settings.spool.path is not None
        self.gate = Gate(
            self.routes,
            self.held.refusal,
            backlogs.is_behind if has_spool else None,
            SimilarTopics(self._served_topics, time.monotonic),
        )

        # the path of an event
        self.idempotency = identity_of(parts)
        self.blobs = None
        if settings.blobs.url is not None:
            self.blobs = Blobs(settings.blobs.url, settings.blobs.uploads)
        self._clock = ClockWatch(self.topics.get, time.monotonic)
        self._built = self._build_pipeline(backlogs if has_spool else None, clock_ms)
        self.pipeline, self.spool = self._built.pipeline, self._built.spool
        lanes = self._built.lanes
        assert isinstance(lanes, KafkaLanes)
        self.lanes = lanes
        self.topics.on_change(self._topic_changed)  # after the lanes, which end with a topic

        # the data port
        timeout_s, loop = http.request_timeout_ms / 1000, asyncio.get_running_loop()
        self._deadlines = Deadlines(self.pipeline.expire, timeout_s, loop.time)
        self._request_ids = request_ids(os.urandom(6))
        self._request_log = RequestLog(logs_every_request=settings.logs.access)
        self._front = self._build_front()
        self.server = HttpServer(
            self._build_plane(clock_ms, others).answer,
            http.header_max_bytes,
            self._request_ids,
            self._request_log,
            self._front,
            idle_s=http.idle_timeout_ms / 1000,
        )
        self._runner = web.ServerRunner(self.server, shutdown_timeout=_LINGER_S)
        self.port = Listener(self._runner, http.host, http.port, shares=True)

    def _build_pipeline(self, backlogs: Backlogs | None, clock_ms: Callable[[], int]) -> Built:
        parts, http, client = self.parts, self.settings.http, self.idempotency
        namespace = self.settings.redis.namespace
        identities = None if client is None else EventIdentity(client, namespace, self.meter)
        ids, store = EventIds(os.urandom(6)), None if self.blobs is None else self.blobs.put
        return build_pipeline(
            PipelineParts(
                schedule=at_end_of_turn,
                gate=self.gate,
                admission=self.admission,
                spend_quota=self._limits.quotas.check,
                ids=ids,
                batch_max_events=http.batch_max_events,
                request_timeout_ms=http.request_timeout_ms,
                clock_ms=clock_ms,
                clock=self._clock,
                lanes=self._open_lanes,
                suppression=self._open_suppression,
                identities=identities,
                helper=parts.helper,
                tools=Tools(ids, store, parts.helper, SingleRecordBatch, BATCH_BYTES),
                meter=self.meter,
                facts=self.facts_log.facts,
                spool=None if backlogs is None else partial(self._open_spool, backlogs),
                traces=parts.tracing.traces,
            )
        )

    def _build_front(self) -> EventsFront:
        settings, helper = self.settings, self.parts.helper
        http, redis = settings.http, settings.redis
        ttl_ms = redis.idempotency_ttl_ms
        keys = RequestIdentity(self.idempotency, redis.namespace, ttl_ms, self.meter)
        limits = BodyLimits(
            settings.blobs.max_bytes,
            http.body_max_bytes,
            http.body_timeout_ms / 1000,
            http.json_max_depth,
        )
        return EventsFront(
            pipeline=self.pipeline,
            authenticator=self._authenticator,
            keys=keys,
            deadlines=self._deadlines,
            queue=self._limits.queue,
            quotas=self._limits.quotas,
            weigher=PoolWeigher(helper),
            meter=self.meter,
            bodies=Bodies(self.gate, self.blobs, limits),
            request_ids=self._request_ids,
            request_log=self._request_log,
            traces=self.parts.tracing.traces,
        )

    def _build_plane(self, clock_ms: Callable[[], int], others: Page | None) -> DataPlane:
        http = self.settings.http
        bursts = Bursts(
            self.gate,
            self.topics,
            lambda: self.policies,
            self.lanes,
            self._limits.quotas.check,
            clock_ms,
            http.request_timeout_ms / 1000,
        )
        return data_plane(
            self._front, bursts, self.topics, self.readiness, self._request_ids, http, others
        )

    def _served_topics(self) -> list[str]:
        """Return the names of the topics that take events."""
        names = (state.name for state in self.topics.states())
        return [name for name in names if self.policies.match(name) is not None]

    def _open_lanes(self, listener: Deliveries) -> KafkaLanes:
        parts, is_pressed = self.parts, self._limits.queue.is_pressed
        limits = {name: lane_limits(cluster) for name, cluster in parts.ingest.items()}
        return KafkaLanes(parts.clusters, self.topics, listener, limits, self.meter, is_pressed)

    def _open_spool(
        self, backlogs: Backlogs, reports: Reports, open_lanes: OpenLanes
    ) -> "SpoolService":
        from headgate.wiring.spool import spool_of  # 2 MiB, which most workers need not have

        folder = Path(self.settings.spool.path or "")
        return spool_of(self.parts, folder, lambda: self.policies, backlogs, reports, open_lanes)

    def _open_suppression(self, verdicts: Verdicts) -> Suppression:
        self.suppressor = suppressor_of(self.parts, verdicts)
        return self.suppressor or Unsuppressed(verdicts)

    # ---- start and stop

    async def start(self, inherited: Sequence[socket.socket] = ()) -> None:
        """Connect, and listen on the sockets of the parent or on sockets of its own.

        Kafka and Redis may be down. A start waits for them only for a bounded time: a client whose
        connection is refused gets no reason, and a spool can take events meanwhile.
        """
        ending = self._exit
        self.parts.tracing.start(ending)
        ending.push_async_callback(self._preparing.close)
        kafka_until = time.monotonic() + _KAFKA_START_S
        await self.topics.start(self._cluster_of, _KAFKA_START_S)
        ending.push_async_callback(self.topics.close)
        await self._preparing.finish()
        if self.spool is not None:  # open from before the first event until after the lanes' last
            await self.spool.start(lambda cluster: self.lanes.health(cluster)[0])
            ending.push_async_callback(self.spool.close)
            self.meter.watch_spool(self.spool.by_topic)
        await self.lanes.start(max(0.0, kafka_until - time.monotonic()))
        ending.push_async_callback(self.lanes.close)
        ending.push_async_callback(self._backfill.close)
        await self._backfill.start(lambda topic: None, max(0.0, kafka_until - time.monotonic()))
        starts = [self.held.start()]
        if self.suppressor is not None:
            ending.push_async_callback(self.suppressor.close)  # a start may be cancelled
            starts.append(self.suppressor.start())
        if self.idempotency is not None:
            ending.push_async_callback(self.idempotency.close)
            starts.append(self.idempotency.start())
        ending.callback(self.parts.helper.close)
        self.facts_log.start()
        # closed after the last held events have ended
        ending.push_async_callback(self.facts_log.close)
        ending.push_async_callback(self.held.close)
        await asyncio.gather(*starts)  # each waits for Redis
        if self.blobs is not None:
            ending.callback(self.blobs.close)
        ending.push_async_callback(self._built.oversize.close)
        self.meter.watch(self._depths, lambda: (self.admission.events, self.admission.bytes))
        self.meter.watch_held(self.held.rows)
        self.meter.watch_tokens(lambda: self._authenticator.token_uses())
        self.meter.watch_suppression(lambda: state_rows(self.suppression()))
        ending.push_async_callback(self._tasks.end, _END_S)
        self._tasks.keep(self._deadlines.run, "deadlines")
        await self.authenticators.start(self._tasks)
        self._tasks.keep(partial(watch_loop, self.meter.loop_stall), "watch of the event loop")
        ending.callback(self._request_log.close)
        await self._listen(ending, inherited)

    async def _listen(self, ending: AsyncExitStack, inherited: Sequence[socket.socket]) -> None:
        """Open the data port."""
        await self._runner.setup()
        ending.push_async_callback(self._runner.cleanup)
        ending.push_async_callback(close_sites, self._runner, self.server, _LINGER_S)
        await self.port.start(server_context(self.settings.http), inherited)
        ending.callback(self.port.close)
        ending.push_async_callback(self.port.stop_accepting)

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

    def answered(self) -> int:
        """Return the number of events with an answer since the start."""
        counters = self.meter.collect(with_details=False).counters
        return int(sum(counters.get("headgate_events_total", {}).values()))

    def spooled(self) -> int:
        """Return the number of events that the spool keeps."""
        topics = {} if self.spool is None else self.spool.by_topic()
        return sum(events for events, _, _ in topics.values())

    # ---- while it runs

    async def reload(self, reload: Reload) -> None:
        """Activate another configuration's topics and producers, all at once.

        The other settings must be equal (`config.load.reloadable`). Returns once all topics are
        prepared, including those that no event has prepared meanwhile.
        """
        old = Reload(self.settings, self.policies, self._authenticator).parts()
        self.settings, self.policies, self._authenticator = reload
        self._front.authenticator = self._authenticator
        self.meter.relabel(labels(self.settings, self.topics))
        self._limits.replace(self.settings.producers)
        self.routes.replace(self.policies)
        self.held.replace(self.policies)
        self.facts_log.replace(self.settings)
        if self.parts.helper.is_running:
            self.parts.helper.ask(forget_received)
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
                policies = self.policies.policies
                is_spooled = any(each.spool and each.cluster == name for each in policies)
                needed = not (spools and is_spooled)
                kafka = Dependency(f"kafka {name}", ok, needed, detail, is_cluster=True)
                dependencies.append(kafka)
        for name, (ok, detail) in self._backfill.reachable().items():
            dependencies.append(Dependency(f"backfill {name}", ok, False, detail))
        if self.suppressor is not None:
            dependencies += redis_dependencies(self.suppressor, self.suppression(), self.policies)
        if self.idempotency is not None:
            dependencies += [Dependency(*row) for row in self.idempotency.dependencies()]
        if self.blobs is not None:
            ok, detail = self.blobs.health()
            dependencies.append(Dependency("blobs", ok, False, detail))
        return Readiness(self.server.is_leaving, (*dependencies, *self._clock.dependencies()))

    def suppression(self) -> States:
        """Return the suppression state of each topic that this process compares."""
        own = {} if self.suppressor is None else self.suppressor.states()
        return states_now((own, self.held.suppression()), self.policies, self.topics)

    def missing_topics(self) -> list[str]:
        """Return the configured topics that their clusters do not have; no patterns."""
        return [
            policy.pattern
            for policy in self.policies.policies
            if not is_glob(policy.pattern) and self.topics.lacks(policy.pattern, policy.cluster)
        ]

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
        self.queue = FairQueue(settings.http.request_timeout_ms / 1000)
        self.replace(settings.producers)

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Activate other producers; their events in flight and used quotas stay counted."""
        self.quotas.replace(producers)
        self.admission.limits = in_flight_limits(producers, self._workers)


# ---- the HTTP side: handlers of paths


def data_plane(
    front: EventsFront,
    bursts: Bursts,
    topics: KafkaTopics,
    readiness: Callable[[], Readiness],
    request_ids: Callable[[], str],
    http: HttpSettings,
    others: Page | None,
) -> DataPlane:
    """Return the data plane, which has a handler for each path. For `others` see `DataPlane`."""
    max_events = http.batch_max_events
    service = ProduceService(front, topics, max_events)
    return DataPlane(
        front,
        BurstsFront(front, bursts),
        RecordStreams(service, max_events, http.body_max_bytes, http.body_timeout_ms / 1000),
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


def _own_document(http: HttpSettings) -> bytes:
    from headgate.http.openapi.document import DATA, document_of

    return document_of(http, DATA)
