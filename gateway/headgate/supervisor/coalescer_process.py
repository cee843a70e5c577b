"""The process of `headgate coalesce`: a coalescer without a data plane."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from headgate.audits.facts_log import FactsLog
from headgate.backends.owned import OwnedTasks
from headgate.config import Settings
from headgate.http.pages import metrics_page, problems
from headgate.http.request_log import RequestLog
from headgate.http.server import PagesRunner
from headgate.ingest.complete import now_ms
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.meter import Meter, watch_loop
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import state_rows
from headgate.suppression.sharded import states_now
from headgate.wiring.coalescing import HeldTopics, cluster_of
from headgate.wiring.parts import Parts
from headgate.wiring.reloading import give_back_leftovers, spare_the_collector

log = logging.getLogger("headgate.supervisor")

_LINGER_S = 1.0


def pages(meter: Meter, readiness: Callable[[], Readiness], header_max_bytes: int) -> PagesRunner:
    """Return the HTTP pages of `headgate coalesce`: health and metrics, not the control plane."""

    async def live(_request: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_request: web.Request) -> web.Response:
        reply = readiness().reply()
        return web.Response(body=reply.body, status=reply.status, content_type="application/json")

    async def metrics(request: web.Request) -> web.Response:
        figures = meter.collect(with_details=False)
        return metrics_page(request, replace(figures, gauges={**figures.gauges, **BUILD_GAUGES}))

    app = web.Application(middlewares=[problems(RequestLog())])
    app.router.add_get("/live", live)
    app.router.add_get("/ready", ready)
    app.router.add_get("/metrics", metrics)
    return PagesRunner(app, header_max_bytes, _LINGER_S)


_END_S = 1.0  # time for cancelled tasks to end


async def coalesce(settings: Settings, start: Mapping[str, object]) -> None:
    """Coalesce until SIGTERM or SIGINT; then finish, and leave the groups.

    Args:
        settings: The configuration.
        start: Fields of the log record of the start.

    Raises:
        OSError: The port `coalescer.port` cannot be opened.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    parts, policies = Parts.from_settings(settings), PolicyTable(settings.topics)
    topics, meter = parts.topics, parts.meter
    facts_log = FactsLog(settings, parts.clusters, topics, meter, now_ms)
    held = HeldTopics(parts, facts_log.facts, coalesces=True)
    meter.watch_held(held.rows)
    meter.watch_suppression(lambda: state_rows(states_now([held.suppression()], policies, topics)))

    def readiness() -> Readiness:
        kafka = [
            Dependency(
                f"kafka {name}", topics.healthy(name), True, topics.detail(name), is_cluster=True
            )
            for name in parts.clusters
        ]
        return Readiness(stop.is_set(), (*kafka, *held.dependencies()))

    async with AsyncExitStack() as exit_stack:
        parts.tracing.start(exit_stack)
        if settings.coalescer.port is not None:
            runner = pages(meter, readiness, settings.http.header_max_bytes)
            exit_stack.push_async_callback(runner.cleanup)
            await runner.setup()
            await runner.listen(settings.http.host, settings.coalescer.port)
        exit_stack.callback(parts.helper.close)
        exit_stack.push_async_callback(topics.close)
        await topics.start(lambda topic: facts_log.cluster_of(topic) or cluster_of(topic, policies))
        facts_log.start()
        exit_stack.push_async_callback(facts_log.close)
        exit_stack.push_async_callback(held.close)
        await held.start()
        spare_the_collector()
        tasks = OwnedTasks()
        tasks.keep(partial(watch_loop, meter.loop_stall), "watch of the event loop")
        tasks.keep(partial(give_back_leftovers, held.held_bytes), "leftovers")
        exit_stack.push_async_callback(tasks.end, _END_S)
        port = settings.coalescer.port
        address = {} if port is None else {"management": f"{settings.http.host}:{port}"}
        log.info("coalescer started", extra={**start, **address})
        await stop.wait()
    log.info("coalescer stopped")
