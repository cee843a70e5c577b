"""The process of `headgate coalesce`: a coalescer without a data plane."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from aiohttp import web

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
from headgate.metrics.snapshot import Snapshot
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import state_rows
from headgate.suppression.sharded import states_now
from headgate.wiring.coalescing import HeldTopics, cluster_of
from headgate.wiring.memory import give_back_leftovers, spare_the_collector
from headgate.wiring.parts import Parts

_LINGER_S = 1.0


class Pages:
    """HTTP pages of `headgate coalesce`: health and metrics, without the control plane.

    `start` opens the port, `close` closes it.
    """

    def __init__(
        self, meter: Meter, readiness: Callable[[], Readiness], header_max_bytes: int
    ) -> None:
        self._meter = meter
        self._readiness = readiness
        app = web.Application(middlewares=[problems(RequestLog())])
        app.router.add_get("/live", self._live)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = PagesRunner(app, header_max_bytes, _LINGER_S)

    async def start(self, host: str, port: int) -> None:
        """Open the port.

        Raises:
            OSError: The port cannot be opened.
        """
        await self._runner.setup()
        await self._runner.listen(host, port)

    async def close(self) -> None:
        """Close the port."""
        await self._runner.cleanup()

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _ready(self, _request: web.Request) -> web.Response:
        reply = self._readiness().reply()
        return web.Response(body=reply.body, status=reply.status, content_type="application/json")

    async def _metrics(self, request: web.Request) -> web.Response:
        figures = self._meter.collect(with_details=False)
        gauges = {**figures.gauges, **BUILD_GAUGES}
        return metrics_page(request, Snapshot(figures.counters, gauges, figures.histograms))


log = logging.getLogger("headgate.supervisor")

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
    parts, policies = Parts.of(settings), PolicyTable(settings.topics)
    topics, meter = parts.topics, parts.meter
    facts_log = FactsLog(settings, parts.clusters, topics, meter, now_ms)
    held = HeldTopics(parts, facts_log.facts, coalesces=True)
    meter.watch_held(held.rows)
    meter.watch_suppression(lambda: state_rows(states_now([held.suppression()], policies, topics)))

    def readiness() -> Readiness:
        kafka = [
            Dependency(f"kafka {name}", topics.healthy(name), True, topics.detail(name))
            for name in parts.clusters
        ]
        return Readiness(stop.is_set(), (*kafka, *held.dependencies()))

    async with AsyncExitStack() as exit_stack:
        parts.tracing.start(exit_stack)
        if settings.coalescer.port is not None:
            pages = Pages(meter, readiness, settings.http.header_max_bytes)
            exit_stack.push_async_callback(pages.close)
            await pages.start(settings.http.host, settings.coalescer.port)
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
        address = {} if settings.coalescer.port is None else {"management": _address(settings)}
        log.info("coalescer started", extra={**start, **address})
        await stop.wait()
    log.info("coalescer ended")


def _address(settings: Settings) -> str:
    return f"{settings.http.host}:{settings.coalescer.port}"
