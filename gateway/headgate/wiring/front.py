"""Wiring of a worker's HTTP side: the handler of each path, and the port."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from aiohttp import web

from headgate.backends.blobs.blobs import Blobs
from headgate.coalescer.bursts import Bursts
from headgate.config import HttpSettings, RedisSettings, Settings
from headgate.config.settings import LogSettings
from headgate.core.ids import RequestIds
from headgate.http.confluent.records import RecordStreams
from headgate.http.confluent.service import KnownTopics, ProduceEndpoint, ProduceService, TopicViews
from headgate.http.events import BurstsFront, EventsFront
from headgate.http.listener import Listener, server_context
from headgate.http.openapi.docs_pages import Documents
from headgate.http.origins import Cors
from headgate.http.request_log import RequestLog, RequestReports
from headgate.http.routes import Confluent, DataPlane, Page
from headgate.http.server import HttpServer, close_sites
from headgate.http.shortcut import ShortConnection
from headgate.http.starting import InTurn, Starting
from headgate.http.streams import StreamLimits, Streams
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.requests import Once, RequestIdentity
from headgate.ingest.clock import Deadlines
from headgate.ingest.gate import Gate
from headgate.ingest.path import Pipeline
from headgate.metrics.health import Readiness
from headgate.metrics.meter import Meter
from headgate.wiring.tracing import Tracing

_LINGER_S = 2.0  # time for connections still open after the last response


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


def request_log(logs: LogSettings, tracing: Tracing, closing: AsyncExitStack) -> RequestReports:
    """Return the request log; `closing` takes the callback that ends it."""
    log = RequestLog(logs_every_request=logs.access, trace_id=tracing.trace_id)
    closing.callback(log.close)
    return tracing.reports(log)


def _own_document(http: HttpSettings) -> bytes:
    from headgate.http.openapi.document import DATA, document_of

    return document_of(http, DATA)


async def listen(
    plane: DataPlane,
    front: EventsFront,
    request_ids: RequestIds,
    http: HttpSettings,
    tracing: Tracing,
    closing: AsyncExitStack,
) -> tuple[HttpServer, Listener]:
    """Open the data port; `closing` takes the callbacks that close it."""
    server = HttpServer(
        tracing.answer(plane.answer, front),
        http.header_max_bytes,
        request_ids,
        front.request_log,
        partial(ShortConnection, tracing.front(front)),
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
