"""The composition root: one worker of the gateway, wired from settings and real backends."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import chain
from typing import Any

from headgate.backends.blobs.blobs import Blobs
from headgate.backends.kafka.configured import cluster_options, lane_limits
from headgate.backends.kafka.options import LaneLimits
from headgate.backends.kafka.producing.lanes import KafkaLanes
from headgate.backends.kafka.producing.lone_batch import LoneBatch
from headgate.backends.kafka.topics import KafkaTopics
from headgate.backends.redis.identity import RedisIdentityStore
from headgate.coalescer.bursts import Bursts
from headgate.config import Settings
from headgate.core.admission import Admission
from headgate.core.coalescing.held import topic_of
from headgate.core.ids import EventIds, RequestIds
from headgate.core.policy import PolicyTable
from headgate.core.suppression.examination import forget_received
from headgate.core.topic import TopicState
from headgate.edge.auth import Authenticator
from headgate.edge.events import EventsFront
from headgate.edge.origins import Origins
from headgate.edge.request_log import RequestLog
from headgate.edge.routes import Page
from headgate.idempotency.desk import IdentityDesk
from headgate.idempotency.events import EventIdentity
from headgate.idempotency.options import IdentityOptions
from headgate.offload.helper_process import Aside
from headgate.offload.weigher import PoolWeigher
from headgate.oversize.climb import Tools
from headgate.oversize.oversize import Ladder
from headgate.pipeline.clock_watch import ClockWatch, now_ms
from headgate.pipeline.deadlines import Deadlines
from headgate.pipeline.examining import Examining
from headgate.pipeline.ingest import Ingest, Limits
from headgate.pipeline.quotas import ProducerQuotas
from headgate.pipeline.routes import Compiler, Routes
from headgate.pipeline.steps import Steps
from headgate.stats import Labels, Meter, watch_loop
from headgate.suppression.none import Unsuppressed
from headgate.suppression.report import States, redis_dependency, states_now
from headgate.suppression.suppressor import Suppressor
from headgate.telemetry.health import Dependency, Readiness
from headgate.wiring.audit_events import Telling
from headgate.wiring.coalescing import HeldTopics, cluster_of, suppressor_of
from headgate.wiring.front import data_plane, listen, once, streams
from headgate.wiring.reloading import Preparing, Reload, free_in_turns


class Worker:
    """One process of the gateway. Built inside a running event loop; `start` opens the port.

    workers: how many share the instance's budgets.  others: who answers the paths that the data
    plane does not know, when both ports are one.  clock_ms: milliseconds since 1970.
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
        self._aside = Aside()
        self._exit = AsyncExitStack()
        ingest_tier = {name: one for name, one in settings.clusters.items() if one.tier == "ingest"}
        options = {name: cluster_options(one) for name, one in ingest_tier.items()}
        refresh_ms = min(one.metadata_refresh_ms for one in ingest_tier.values())
        self.topics = KafkaTopics(options, refresh_ms)
        self.policies = PolicyTable(settings.topics)
        self.meter = Meter(self._labels(), time.time)
        self.admission = Admission(
            settings.admission.in_flight_max_bytes // workers,
            settings.admission.in_flight_max_events // workers,
        )
        self._quotas = ProducerQuotas(workers, time.monotonic, self.meter)
        self._quotas.replace(settings.producers)
        origins = Origins.of_data_port(settings.http)
        self._callers = Authenticator(settings.auth, settings.producers, origins)
        self._compiler = Compiler(settings.http.json_max_depth, settings.redis.namespace)
        self.routes = Routes(self.policies, self.topics, self._compiler)
        self.telling = Telling(settings, options, self.topics, self.meter, now_ms)
        self.held = HeldTopics(
            settings,
            options,
            self.topics,
            self.meter,
            now_ms,
            self._aside,
            coalesces=settings.coalescer.in_gateway,
            facts=self.telling.facts,
        )
        self.ingest = Ingest(
            self.routes,
            self.admission,
            self._quotas,
            self.meter,
            self._ids,
            Limits(settings.http.batch_max_events, settings.http.request_timeout_ms),
            clock_ms,
            self.held.refusal,
        )
        limits = {name: lane_limits(cluster) for name, cluster in ingest_tier.items()}
        self.lanes = KafkaLanes(options, self.topics, self.ingest, limits, self.meter)
        self.suppressor = self._suppressor()
        self._preparing = Preparing(self.routes.prepare_in_turns)
        self.topics.on_change(self._topic_changed)
        self.blobs = self._open_blobs()
        self.desk = self._desk()
        self._connect()

    def _connect(self) -> None:
        """Close the circle: what ingest hands events to has it as its listener."""
        suppression = self.suppressor or Unsuppressed(self.ingest)
        tools = Tools(self._ids, self.blobs, self._aside, LoneBatch, LaneLimits().max_batch_bytes)
        self.ladder = Ladder(self.ingest, tools, self.meter.oversized)
        self.ladder.connect(self.lanes, suppression)
        examining = Examining(self.ingest, self._aside, self.meter.canonical_fallback)
        self._clock = ClockWatch(self.topics.get, time.monotonic)
        own = (self._event_identity(), examining, self.ladder, self.telling.facts)
        steps = Steps(*own, self._clock)
        self.ingest.connect(self.lanes, suppression, steps)

    def _open_blobs(self) -> Blobs | None:
        blobs = self.settings.blobs
        return None if blobs.url is None else Blobs(blobs.url, blobs.uploads)

    def _labels(self) -> Labels:
        return Labels(self.settings.producers, lambda topic: self.topics.get(topic) is not None)

    def _suppressor(self) -> Suppressor | None:
        suppressor = suppressor_of(self.settings, self.ingest, self.meter, self.topics)
        if suppressor is not None:
            self._compiler.listener = suppressor
        return suppressor

    def _desk(self) -> IdentityDesk | None:
        redis = self.settings.redis
        if redis.address is None:
            return None
        store = RedisIdentityStore(redis.address, redis.timeout_ms)
        options = IdentityOptions(claim_ms=redis.claim_ms, timeout_ms=redis.timeout_ms)
        return IdentityDesk(store, options, time.monotonic, os.urandom, self.meter)

    def _event_identity(self) -> EventIdentity | None:
        if self.desk is None:
            return None
        return EventIdentity(self.desk, self.settings.redis.namespace, self.meter)

    # ---- start and stop

    async def start(self) -> None:
        """Connect and listen. Kafka or Redis may be down: then events are answered 503."""
        self._exit.push_async_callback(self._preparing.close)
        await self.topics.start(self._cluster_of)
        self._exit.push_async_callback(self.topics.close)
        await self._preparing.finish()
        await self.lanes.start()
        self._exit.push_async_callback(self.lanes.close)
        if self.suppressor is not None:
            await self.suppressor.start()
            self._exit.push_async_callback(self.suppressor.close)
        if self.desk is not None:
            await self.desk.start()
            self._exit.push_async_callback(self.desk.close)
        self._exit.callback(self._aside.close)
        self.telling.start()
        self._exit.push_async_callback(self.telling.close)  # after the last ends of held events
        await self.held.start()
        self._exit.push_async_callback(self.held.close)
        if self.blobs is not None:
            self._exit.callback(self.blobs.close)
        self._exit.push_async_callback(self.ladder.close)
        self.meter.watch(self._depths, lambda: (self.admission.events, self.admission.bytes))
        self.meter.watch_held(self.held.rows)
        self.meter.watch_suppression(self.suppression)
        loop = asyncio.get_running_loop()
        http = self.settings.http
        deadlines = Deadlines(self.ingest.expire, http.request_timeout_ms / 1000, loop.time)
        self._own(deadlines.run())
        self._own(watch_loop(self.meter.loop_stall))
        told = RequestLog(tells_all=self.settings.logs.access)
        self._exit.callback(told.close)
        self._front = EventsFront(
            self.ingest,
            self._callers,
            self.admission,
            deadlines,
            PoolWeigher(self._aside),
            self.meter,
            once(self.ingest, self.desk, self.settings.redis, self.meter),
            streams(self.settings, self.routes, self.blobs, self.admission),
            self._request_ids,
            http.body_max_bytes,
            http.body_timeout_ms / 1000,
            told,
        )
        await self._listen()

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._exit.push_async_callback(partial(_end, task))

    async def _listen(self) -> None:
        http, ids = self.settings.http, self._request_ids
        plane = data_plane(
            self._front, self._bursts(), self.topics, self.readiness, ids, http, self._others
        )
        self.server = await listen(plane, self._front, ids, http, self._exit)

    def _bursts(self) -> Bursts:
        timeout_s = self.settings.http.request_timeout_ms / 1000
        known = (self.routes, self.topics, lambda: self.policies)
        return Bursts(*known, self.lanes, self._quotas, now_ms, timeout_s)

    async def drain(self) -> None:
        """Take nothing more, wait for what is under way (bounded), then stop."""
        self.server.refuse_bodies()
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settings.http.drain_timeout_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self.ingest.drain()
        await self.lanes.drain(max(0.0, end - loop.time()))
        await self._exit.aclose()

    # ---- while it runs

    async def reload(self, reload: Reload) -> None:
        """Put another configuration's topics and producers in force, all at once.

        The rest of the settings must be equal (`config.reloadable`). Returns when the topics that
        no event has come for meanwhile are prepared, too.
        """
        old = Reload(self.settings, self.policies, self._callers).parts()
        self.settings, self.policies, self._callers = reload
        self._front.callers = self._callers
        self.meter.relabel(self._labels())
        self._quotas.replace(self.settings.producers)
        self.routes.replace(self.policies)
        self.held.replace(self.policies)
        self.telling.replace(self.settings)
        if self._aside.is_running:
            self._aside.ask(forget_received)
        self.topics.refresh_soon()
        await self.routes.prepare_in_turns([state.name for state in self.topics.states()])
        await free_in_turns(old)

    def readiness(self) -> Readiness:
        """What /ready answers."""
        found = []
        for name, cluster in self.settings.clusters.items():
            if cluster.tier == "ingest":
                ok, detail = self.lanes.health(name)
                found.append(Dependency(f"kafka {name}", ok, True, detail))
        if self.suppressor is not None:
            found.append(redis_dependency(self.suppressor, self.suppression()))
        if self.desk is not None:
            ok, detail = self.desk.health()
            found.append(Dependency("redis identity", ok, False, detail))
        return Readiness(self.server.is_leaving, (*found, *self._clock.dependencies()))

    def suppression(self) -> States:
        """Of each topic that is compared in this process, whether it is suppressed now."""
        own = {} if self.suppressor is None else self.suppressor.states()
        return states_now((own, self.held.suppression()), self.policies, self.topics)

    def _cluster_of(self, topic: str) -> str | None:
        return self.telling.cluster_of(topic) or cluster_of(topic, self.policies)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        state = after or before
        of = topic_of(state.name) if state is not None else None
        if of is not None:
            self.routes.forget(of)
            if self.topics.get(of) is not None:
                self.routes.prepare((of,))
        elif after is not None and before is not None:
            self.routes.prepare((after.name,))  # in this turn: its lanes go by the new state
        elif after is not None:
            self._preparing.ask(after.name)

    def _depths(self) -> Iterator[tuple[str, int, int, int]]:
        return chain(self.lanes.depths(), self.telling.depths())


async def _end(task: "asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
