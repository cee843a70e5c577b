"""The process of `headgate monitor`: it polls all groups of all clusters."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from headgate.admin.requests import asking
from headgate.backends.owned import OwnedTasks
from headgate.commands.terminal import PLAIN, Style
from headgate.config import Settings
from headgate.http.answer import response
from headgate.http.auth import Origins
from headgate.http.listener import server_context
from headgate.http.pages import json_page, listed, metrics_page, page_of, paging, problems
from headgate.http.request_log import REPORTED, RequestLog
from headgate.http.server import PagesRunner
from headgate.kafka.options import cluster_options
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.health import Dependency, Readiness
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.model.text import segment_name
from headgate.monitor.cluster_monitor import Exporters
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from headgate.monitor.rules import LagRules
from headgate.monitor.views import RowPlace, row_place
from headgate.redis.pauses import RedisPauses
from headgate.supervisor.active_config import expires_at, tls_error
from headgate.top.readings import group_lines
from headgate.wiring.reloading import Authenticators

log = logging.getLogger("headgate.supervisor")

_LINGER_S = 1.0
_DIGITS = 10  # a partition's number has fewer


class MonitorPages:
    """HTTP pages of `headgate monitor`: groups, metrics, health.

    `start` opens the port, `close` closes it.
    """

    def __init__(self, monitor: Monitor, settings: Settings) -> None:
        self._monitor = monitor
        self._settings = settings
        self._tasks = OwnedTasks()
        self._authenticators = Authenticators(
            settings.auth, Origins.of_control_plane, lambda _: None
        )
        self._authenticator = self._authenticators.of(settings)
        self._expiry: dict[tuple[str, ...], float] = {}  # of the certificate that `start` loads
        app = web.Application(
            middlewares=[problems(RequestLog(logs_every_request=settings.logs.access))]
        )
        app.router.add_get("/live", self._live)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/groups", self._groups)
        app.router.add_get("/v1/groups/{group}", self._group)
        http = settings.http
        idle_s = http.idle_timeout_ms / 1000
        self._runner = PagesRunner(app, http.header_max_bytes, _LINGER_S, idle_s)

    async def start(self) -> None:
        """Open the port.

        Raises:
            OSError: The port or a TLS file cannot be opened.
        """
        await self._authenticators.start(self._tasks)
        await self._runner.setup()
        http, port = self._settings.http, self._settings.monitor.port
        try:
            context = server_context(http)
        except OSError as error:
            raise tls_error(http, error) from error
        self._expiry = _expiry(http.tls_cert_file)
        await self._runner.listen(http.host, port, context)

    async def close(self) -> None:
        """Close the port."""
        await self._runner.cleanup()
        await self._tasks.end(_LINGER_S)

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _ready(self, _request: web.Request) -> web.Response:
        """Return 200 if any cluster was polled, or else 503: its groups are served by this port."""
        clusters = [
            Dependency(
                f"kafka {cluster.name}", cluster.status.ok, True, cluster.status.detail,
                is_cluster=True,
            )
            for cluster in self._monitor.clusters
        ]  # fmt: skip
        return response(Readiness(False, tuple(clusters)).reply(), "")

    async def _metrics(self, request: web.Request) -> web.Response:
        figures = self._monitor.figures()
        gauges = {**figures.gauges, **BUILD_GAUGES}
        if self._expiry:
            gauges["headgate_certificate_expiry_timestamp_seconds"] = self._expiry
        return metrics_page(request, replace(figures, gauges=gauges))

    async def _groups(self, request: web.Request) -> web.Response:
        self._require_view(request)
        wanted = paging(request, "topic", "partition")
        await self._monitor.read_pauses()
        page = self._monitor.groups(*_wanted(request))
        rows, following = page_of(page["groups"], wanted, row_place, RowPlace.read, RowPlace.text)
        return json_page(request, page | listed("groups", rows, following))

    async def _group(self, request: web.Request) -> web.Response:
        self._require_view(request)
        name = segment_name(request.match_info["group"])
        group = await self._monitor.group(name)
        if group is None:
            detail = f"no cluster has a group {brief(name)} with members or commits"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        return json_page(request, group)

    def _require_view(self, request: web.Request) -> None:
        headers = {name.lower(): value for name, value in request.raw_headers}
        caller = self._authenticator.identify(headers, asking(request))
        if isinstance(caller, Failure):
            raise Refused(caller)
        request.setdefault(REPORTED, {})["producer"] = caller.name
        if "view" not in caller.roles:
            raise Refused(Failure(Reason.FORBIDDEN, "this needs the role 'view'"))


def _expiry(certificate: str | None) -> dict[tuple[str, ...], float]:
    """Return the gauge of a certificate's expiry; empty without one."""
    at_s = None if certificate is None else expires_at(Path(certificate).read_bytes())
    return {} if at_s is None else {(): at_s}


def _wanted(request: web.Request) -> tuple[str | None, int | None]:
    """Return the topic and the partition in the query.

    Raises:
        Refused: The partition is no number, or the topic is missing.
    """
    topic, given = request.query.get("topic"), request.query.get("partition")
    if given is None:
        return topic, None
    is_number = given.isascii() and given.isdecimal() and len(given) < _DIGITS
    if topic is None or not is_number:
        raise Refused(malformed("partition must be a number, and topic must name the topic"))
    return topic, int(given)


Say = Callable[[str], object]

_END_S = 1.0  # time for cancelled tasks to end


def monitor_options(settings: Settings) -> MonitorOptions:
    """Return the monitor's rules from the settings."""
    said = settings.monitor
    watch = WatchOptions(
        LagRules(said.allowed_lag, said.patience_ms, said.window_looks),
        said.horizon_ms,
        said.probation_ms,
        said.probation_lag,
    )
    file = None if said.state_file is None else Path(said.state_file)
    return MonitorOptions(watch, said.interval_ms / 1000, file, said.owners)


async def monitor(
    settings: Settings, start: Mapping[str, object], say: Say | None, style: Style = PLAIN
) -> None:
    """Poll until SIGTERM or SIGINT.

    Args:
        settings: The configuration.
        start: Fields of the log record of the start.
        say: Takes the table after every poll; None to print none.
        style: Style of the table.

    Raises:
        OSError: The port `monitor.port` cannot be opened.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as exit_stack:
        poller = _monitor(settings, exit_stack)
        pages = MonitorPages(poller, settings)
        exit_stack.push_async_callback(pages.close)
        await pages.start()
        exit_stack.push_async_callback(poller.close)
        poller.start()
        port = settings.monitor.port
        address = {"port": port, "management": f"{settings.http.host}:{port}"}
        log.info("monitor started", extra={**start, **address})
        if say is not None:
            tasks = OwnedTasks()
            interval_s = settings.monitor.interval_ms / 1000
            tasks.keep(partial(_show, poller, say, style, interval_s), "table")
            exit_stack.push_async_callback(tasks.end, _END_S)
        await stop.wait()
    log.info("monitor stopped")


async def poll_once(settings: Settings, within_s: float) -> Monitor:
    """Poll every cluster once.

    Raises:
        TimeoutError: The poll takes longer than `within_s` seconds.
    """
    async with AsyncExitStack() as exit_stack:
        poller = _monitor(settings, exit_stack)
        exit_stack.push_async_callback(poller.close)
        poller.start(follows=False)  # a stream of commits needs more than one poll
        async with asyncio.timeout(within_s):
            await poller.polled()
        return poller


def _monitor(settings: Settings, exit_stack: AsyncExitStack) -> Monitor:
    clusters = {name: cluster_options(cluster) for name, cluster in settings.clusters.items()}
    url = settings.redis.address
    pauses = None
    if url is not None:
        store = RedisPauses(url, settings.redis.timeout_ms / 1000)
        exit_stack.push_async_callback(store.close)
        pauses = store.kept_of
    limit = float(settings.monitor.rogue_bytes_per_s)
    exporters = {
        name: Exporters(cluster.metrics_urls, limit, is_mirrored=cluster.backfill is not None)
        for name, cluster in settings.clusters.items()
    }
    return Monitor(clusters, monitor_options(settings), pauses, _now_ms, exporters)


async def _show(poller: Monitor, say: Say, style: Style, interval_s: float) -> None:
    await poller.polled()
    while True:
        say(page_lines(poller.groups(), style))
        await asyncio.sleep(interval_s)


def page_lines(page: dict[str, Any], style: Style = PLAIN) -> str:
    """Return the table of a page of groups for a terminal, without a final newline."""
    return "\n".join(group_lines(page, time.strftime("%H:%M:%S"), style))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
