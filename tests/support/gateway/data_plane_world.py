"""The data port in the test's own process: real sockets and the real pipeline, lanes in memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from headgate.backends.base import Deliveries, Lanes, Suppression, Verdicts
from headgate.coalescer.bursts import Bursts
from headgate.config.settings import AuthSettings, HttpSettings
from headgate.devstack.ports import LOOPBACK
from headgate.http.auth import Authenticator
from headgate.http.body import Bodies, BodyLimits
from headgate.http.events import EventsFront, FairQueue
from headgate.http.request_log import RequestLog, request_ids
from headgate.http.routes import DataPlane, Page
from headgate.http.server import HttpServer
from headgate.idempotency.client import IdentityClient
from headgate.idempotency.identity import RequestIdentity
from headgate.ingest.admission import ProducerQuotas
from headgate.ingest.deadlines import Deadlines
from headgate.metrics.health import Readiness
from headgate.metrics.meter import Meter
from headgate.model.policy import PolicyTable
from headgate.model.publish import Publish
from headgate.model.topics import PartitionState, TopicState
from headgate.offload.helper_process import HelperProcess, PoolWeigher
from headgate.tracing.spans import Traces
from headgate.wiring.app import data_plane
from support.clients.http_client import Answer, exchange
from support.gateway.fakes import FakeLanes, FakeSuppression
from support.gateway.meters import a_meter
from support.gateway.room import Room


class PromptLanes(FakeLanes):
    """What is put into them is in the log a moment later."""

    def __init__(self, room: Room, deliveries: Deliveries) -> None:
        super().__init__(deliveries)
        self._room = room

    def put(self, publish: Publish) -> None:
        super().put(publish)
        asyncio.get_running_loop().call_soon(self._room.run)


class PromptSuppression(FakeSuppression):
    """What is reserved is decided a moment later."""

    def __init__(self, room: Room, verdicts: Verdicts) -> None:
        super().__init__(verdicts)
        self._room = room

    def reserve(self, publish: Publish) -> None:
        super().reserve(publish)
        asyncio.get_running_loop().call_soon(self._room.run)


class PromptRoom(Room):
    """Events are published without the test's help."""

    def open_lanes(self, deliveries: Deliveries) -> Lanes:
        self.lanes = PromptLanes(self, deliveries)
        return self.lanes

    def open_suppression(self, verdicts: Verdicts) -> Suppression:
        self.suppression = PromptSuppression(self, verdicts)
        return self.suppression

    @property
    def written(self) -> list[Publish]:
        """Everything in the log."""
        return [publish for log in self.lanes.logs.values() for publish in log]


class OneCluster:
    """What Kafka says of topics and clusters: nothing but the cluster's id."""

    def states(self) -> list[TopicState]:
        return []

    def cluster_ids(self) -> dict[str, str]:
        return {"main": "c-1"}

    async def partitions(self, topic: str) -> list[PartitionState]:
        return []


class DataPort:
    """A running data port. `post` and `ask` are made off the event loop, by a client that sends
    what it is given."""

    def __init__(self, room: PromptRoom, plane: DataPlane, port: int) -> None:
        self.room = room
        self.plane = plane
        self.port = port

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | bytes] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """One request on a connection of its own."""
        return await asyncio.to_thread(exchange, self.port, method, path, headers, body)

    async def post(
        self, topic: str, body: bytes, headers: Mapping[str, str | bytes], query: str = ""
    ) -> Answer:
        """Post a body to a topic."""
        return await self.ask("POST", f"/v1/topics/{topic}/events{query}", headers, body)


@asynccontextmanager
async def data_port(
    room: PromptRoom | None = None,
    http: HttpSettings | None = None,
    others: Page | None = None,
    readiness: Callable[[], Readiness] = lambda: Readiness(False, ()),
    request_log: RequestLog | None = None,
    identity: IdentityClient | None = None,
    callers: Authenticator | None = None,
    requests: Meter | None = None,
    context: ssl.SSLContext | None = None,
    quotas: ProducerQuotas | None = None,
    queue: FairQueue | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[DataPort]:
    """Listen on a free port until the block ends.  others: see `DataPlane`.  identity: who knows
    Idempotency-Keys.  callers: who may do what, by default everybody everything.  requests: counts
    them.  context: none = no TLS.  traces: the room is built with them, too."""
    room, http, ids = room or PromptRoom(), http or HttpSettings(), request_ids(b"\1" * 6)
    loop = asyncio.get_running_loop()
    pipeline = room.pipeline
    keys = RequestIdentity(identity, "test", 60_000, a_meter())
    deadlines = Deadlines(pipeline.expire, 30.0, loop.time)
    limits = BodyLimits(1, http.body_max_bytes, http.body_timeout_ms / 1000, 128)
    front = EventsFront(
        pipeline,
        callers or Authenticator(AuthSettings(), {}),
        keys,
        deadlines,
        queue or FairQueue(30.0),
        quotas or ProducerQuotas(1, loop.time, lambda _producer, _count: None),
        PoolWeigher(HelperProcess()),
        requests or a_meter(),
        Bodies(pipeline.gate, None, limits),
        ids,
        request_log or RequestLog(),
        traces,
    )
    topics = OneCluster()
    known = (pipeline.gate, topics, lambda: PolicyTable(()))
    bursts = Bursts(*known, room.lanes, room.quotas, lambda: 0, 1.0)  # no topic here coalesces
    plane = data_plane(front, bursts, topics, readiness, ids, http, others)
    idle_s = http.idle_timeout_ms / 1000
    server = HttpServer(
        plane.answer,
        http.header_max_bytes,
        ids,
        front.request_log,
        front,
        idle_s=idle_s,
    )
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=context).start()
        yield DataPort(room, plane, runner.addresses[0][1])
    finally:
        await runner.cleanup()
