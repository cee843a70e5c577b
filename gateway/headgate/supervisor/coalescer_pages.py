"""HTTP pages of `headgate coalesce`: health and metrics, without the control plane."""

from collections.abc import Callable

from aiohttp import web

from headgate.http.pages import metrics_page, problems
from headgate.http.request_log import RequestLog
from headgate.http.server import PagesRunner
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.health import Readiness
from headgate.metrics.meter import Meter
from headgate.metrics.snapshot import Snapshot

_LINGER_S = 1.0


class Pages:
    """The pages' server: `start` opens the port, `close` closes it."""

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
