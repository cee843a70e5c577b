"""The process of `headgate monitor`: it polls all groups of all clusters."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from headgate.backends.kafka.options import cluster_options
from headgate.backends.owned import OwnedTasks
from headgate.config import Settings
from headgate.core.terminal import PLAIN, Style
from headgate.monitor.cluster_monitor import Exporters
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from headgate.monitor.rules import LagRules
from headgate.monitor.table import lines
from headgate.redis.pauses import RedisPauses
from headgate.supervisor.monitor_pages import MonitorPages

log = logging.getLogger("headgate.monitoring_process")

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
    return MonitorOptions(watch, said.interval_ms / 1000, file)


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
    log.info("monitor ended")


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
        pauses = store.kept
    limit = float(settings.monitor.rogue_bytes_per_s)
    exporters = {
        name: Exporters(cluster.metrics_urls, limit, is_mirrored=cluster.backfill is not None)
        for name, cluster in settings.clusters.items()
    }
    return Monitor(clusters, monitor_options(settings), pauses, _now_ms, exporters)


async def _show(found: Monitor, say: Say, style: Style, interval_s: float) -> None:
    await found.polled()
    while True:
        say(table(found, style))
        await asyncio.sleep(interval_s)


def table(found: Monitor, style: Style = PLAIN) -> str:
    """Return the table of groups for a terminal, without a final newline."""
    at = time.strftime("%H:%M:%S")
    return "\n".join(lines(found.groups(), at, style))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
