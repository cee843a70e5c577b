"""The parent of `headgate serve`: runs the workers, aggregates, and owns the management port.

Life: take the ports -> start workers -> serve -> SIGTERM: for `http.shutdown_delay_ms` workers
serve but are not ready -> they drain -> end. SIGINT (from a terminal) skips the delay, and so does
a second signal during it; one more kills the workers. SIGHUP reloads topics, producers and
certificates. With `http.reload_poll_ms` a change of their files does, too.
"""

import asyncio
import logging
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from headgate.admin.app import management_app
from headgate.admin.control_plane import Admin
from headgate.admin.installation import Installation
from headgate.admin.requests import workers_only
from headgate.backends.owned import OwnedTasks
from headgate.config import ConfigError
from headgate.config.settings import HttpSettings
from headgate.errors_in_words import listen_error, listen_option
from headgate.http.auth import Origins
from headgate.http.listener import Listener, addresses_of, bind
from headgate.http.server import HttpServer, PagesRunner
from headgate.metrics import logs
from headgate.metrics.build import start_fields
from headgate.redis.pauses import RedisPauses
from headgate.replays.second_tier import second_tier
from headgate.supervisor.active_config import (
    ActiveConfig,
    FileWatch,
    TlsSnapshot,
    private_folder,
)
from headgate.supervisor.control import PARENT_SECRET, PARENT_SOCKET, Drained, read_drained
from headgate.supervisor.installation_log import (
    InstallationLog,
    certificates_refused,
    certificates_reloaded,
    config_reloaded,
    gateway_draining,
    gateway_ended,
    gateway_started,
    reload_refused,
)
from headgate.supervisor.overview import (
    HopelessWorkerError,
    Launch,
    Overview,
    WorkerProcess,
)
from headgate.supervisor.upstreams import plots_of
from headgate.wiring.reloading import Authenticators, Reloading, RestartNeededError, beside

log = logging.getLogger("headgate.supervisor")

OK, FAILED, CONFIGURATION = 0, 1, 2  # the command's exit codes
WORKER_COMMAND = (sys.executable, "-m", "headgate", "worker")
_END_S = 1.0  # time for cancelled tasks to end
_DRAIN_MARGIN_S = 5.0  # added to drain_timeout_ms, in which a worker ends itself


class Start(NamedTuple):
    """The arguments of a parent.

    Attributes:
        config: Path of the configuration file.
        environ: Variables that override the file, here and in the workers.
        command: Command that runs a worker; `--config F --folder DIR --index N` are appended.
        flags: Names of command-line options by the variable that each one sets.
    """

    config: Path
    environ: Mapping[str, str]
    command: Sequence[str] = WORKER_COMMAND
    flags: Mapping[str, str] = {}


async def serve(start: Start) -> int:
    """Run until a signal ends the gateway; return the exit code.

    Raises:
        ConfigError: The configuration cannot be used.
        PortTakenError: A port cannot be opened.
    """
    with private_folder() as folder:
        parent = Parent(start, folder)
        code = await parent.run()
        answered, spooled, drain_s = parent.drained()
        fields = {"answered": answered, "spooled": spooled, "drain_s": drain_s}
        logs.write_counts()
        log.info("gateway stopped", extra=fields)
        return code


class Parent:
    """The parent process, with its workers and its management pages.

    Raises ConfigError.

    Args:
        start: The arguments.
        folder: Private folder of the sockets and the active configuration.
    """

    def __init__(self, start: Start, folder: Path) -> None:
        self._start = start
        self._folder = folder
        self._watch = FileWatch()
        self._watch.add(start.config)
        self._config = ActiveConfig(start.config, start.environ, start.flags, folder)
        settings = self._config.shown.loaded.settings
        self._tls = TlsSnapshot(settings.http, folder)
        self._watch.add(*self._tls.files)
        self._tls.accept_first(start.config)
        self._log = InstallationLog.from_settings(settings.logs)
        self._overview = Overview(settings, self._log)
        self._show_config()
        self._show_tls()
        self._overview.workers = self._workers = self._worker_processes(settings.http.workers)
        self._authenticators = Authenticators(
            settings.auth, Origins.of_control_plane, self._overview.keys_fetched
        )
        authenticator = self._authenticators.of(settings)
        url = settings.redis.address
        self._store = None if url is None else RedisPauses(url, settings.redis.timeout_ms / 1000)
        second = second_tier(
            lambda: self._overview.settings, self._overview.figures, self._log.note
        )
        self._follow = second.follow
        config = self._config
        installation = Installation(
            self._log.recent, lambda: config.shown, config.findings, self._log.note
        )
        self._admin = Admin(self._overview, authenticator, self._store, second, installation)
        self._stop = asyncio.Event()
        self._reloading = Reloading(self._reload)
        self._is_hurried = False
        self._delayed_until = 0.0  # monotonic seconds
        self._stopped_s = time.monotonic()

    async def run(self) -> int:
        """Serve; return the exit code."""
        settings = self._overview.settings
        http = settings.http
        plots = plots_of(settings.console, self._overview.history)
        app = management_app(self._admin, settings.logs.access, plots)
        with self._signals():
            async with (
                reserved(http.host, http.port) as self._reserved,
                management_sites(
                    app, http, self._folder / PARENT_SOCKET, self._tls.context()
                ) as management,
            ):
                try:
                    self._management = management
                    if len(self._workers) == 1:  # several take over from each other
                        self._workers[0].sockets = self._reserved
                    return await self._run_workers(management.server)
                finally:
                    await self._reloading.close()
                    if self._store is not None:
                        await self._store.close()

    def _worker_processes(self, count: int) -> list[WorkerProcess]:
        folder = str(self._folder)
        command = (*self._start.command, "--config", str(self._config.copy), "--folder", folder)
        launch = Launch(command, {**self._start.environ, **self._tls.environ}, self._folder)
        return [WorkerProcess(index, launch, self._overview) for index in range(count)]

    async def _run_workers(self, server: HttpServer) -> int:
        tasks = OwnedTasks()
        tasks.keep(self._overview.poll, "poll")
        tasks.keep(self._follow, "replays")
        tasks.keep(self._log.run, "installation log")
        if period_ms := self._overview.settings.http.reload_poll_ms:
            look = partial(self._watch.run, period_ms / 1000, self._reloading.ask)
            tasks.keep(look, "file watch")
        self._say_that_it_starts()
        self._log.note(gateway_started(str(self._start.config), len(self._workers)))
        await self._authenticators.start(tasks)
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        running = [asyncio.create_task(each.run(), name="worker") for each in self._workers]
        is_clean = False
        try:
            await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
            server.is_leaving = True
            is_clean = await self._drain(running)
        finally:
            for each in self._workers:
                each.kill()
            stopping.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            self._log.note(gateway_ended(is_clean))
            await tasks.end(_END_S)
            await self._log.close()
        return _exit_code(ended, is_clean)

    async def _drain(self, running: Sequence["asyncio.Task[None]"]) -> bool:
        """End the workers within their time; return False if one had to be killed."""
        self._overview.is_draining = True
        self._stopped_s = time.monotonic()
        for held in self._reserved:  # so that the ends of the workers close the port
            held.close()
        http = self._overview.settings.http
        delay_s = 0.0 if self._is_hurried else http.shutdown_delay_ms / 1000
        self._delayed_until = time.monotonic() + delay_s
        for each in self._workers:
            each.end(self._is_hurried)
        bound_s = delay_s + http.drain_timeout_ms / 1000 + _DRAIN_MARGIN_S
        log.info("draining", extra={"delay_s": delay_s, "bound_s": bound_s})
        self._log.note(gateway_draining(delay_s, bound_s))
        _, late = await asyncio.wait(running, timeout=bound_s)
        if late:
            log.error("%d workers did not end within %g s and are killed", len(late), bound_s)
        return not late

    def drained(self) -> Drained:
        """Return the figures of the workers that have drained, and the time since the signal."""
        workers = read_drained(self._folder)
        drain_s = round(time.monotonic() - self._stopped_s, 3)
        answered = sum(worker.answered for worker in workers)
        return Drained(answered, sum(worker.spooled for worker in workers), drain_s)

    def _say_that_it_starts(self) -> None:
        http = self._overview.settings.http
        fields = {
            **start_fields(self._start.config, self._config.text),
            "data": f"{http.host}:{http.port}",
            "management": f"{http.host}:{http.management_port}",
            "workers": http.workers,
        }
        log.info("gateway starts", extra=fields)

    # ---- signals

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._ask_to_stop,
            signal.SIGINT: partial(self._ask_to_stop, is_hurried=True),
            signal.SIGHUP: self._reloading.ask,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _ask_to_stop(self, is_hurried: bool = False) -> None:
        if not self._overview.is_draining:
            self._is_hurried = self._is_hurried or is_hurried or self._stop.is_set()
            self._stop.set()
        elif time.monotonic() < self._delayed_until:  # a second signal skips the delay
            self._delayed_until = 0.0
            for each in self._workers:
                each.end(is_hurried=True)
        else:
            for each in self._workers:
                each.kill()

    async def _reload(self) -> None:
        """Activate the current file and certificates, here and in all workers."""
        is_changed = await self._reload_file()
        is_renewed = await self._renew_certificates()
        if is_changed or is_renewed:
            for each in self._workers:
                if each.answered:  # the others read the new state later anyway
                    each.signal(signal.SIGHUP)
        if is_changed:  # and active in this process
            self._say_that_it_is_reloaded()

    async def _reload_file(self) -> bool:
        """Activate the file's topics and producers, all or none; return whether it did."""
        try:
            reload = await beside(self._config.reread, self._authenticators.of)
        except ConfigError as error:
            self._refuse(str(error), [problem.option for problem in error.problems])
            return False
        except RestartNeededError as error:
            text = str(error)
            if "spool.path" in error.options:
                text += await asyncio.to_thread(self._spooled)
            self._refuse(text, error.options)
            return False
        except OSError as error:  # a full disk: workers read their own copy
            self._refuse(f"no copy of it can be kept: {error}", [])
            return False
        self._show_config()
        self._overview.settings = reload.settings
        self._overview.reloaded = time.monotonic()
        self._admin.access.authenticator = reload.authenticator
        return True

    def _spooled(self) -> str:
        """Return a text about the spooled events that a start with another spool would abandon."""
        from headgate.spool.folders import LeftBehind, events_in  # only such a reload needs it

        path = self._overview.settings.spool.path
        events = 0 if path is None else events_in(Path(path))
        if path is None or events == 0:
            return ""
        unsent = LeftBehind(Path(path), events)
        return (
            f"; {unsent} would stay there: end this gateway, then run `headgate spool drain {path} "
            f"--config {self._start.config}`"
        )

    def _say_that_it_is_reloaded(self) -> None:
        self._overview.figures.count("headgate_config_reloads_total", ("applied",))
        file = str(self._start.config)
        entry = config_reloaded(file, self._overview.settings, self._config.changes)
        extra = {
            "file": file,
            "config_sha256": self._config.sha256,
            "added": entry.details["added"],
            "removed": entry.details["removed"],
            "changed": entry.details["changed"],
        }
        log.info("configuration reloaded", extra=extra)
        self._log.note(entry)

    async def _renew_certificates(self) -> bool:
        """Use the current certificates for new connections; return whether they have changed."""
        try:
            context = await asyncio.to_thread(self._tls.accept)
        except OSError as error:
            self._overview.figures.count("headgate_tls_reloads_total", ("refused",))
            self._overview.figures.set("headgate_tls_last_reload_successful", (), 0.0)
            log.error("certificates refused, the old ones stay active: %s", error)  # noqa: TRY400
            self._log.note(certificates_refused(error))
            return False
        self._show_tls()
        if context is None:
            return False
        if self._management.port is not None:
            await self._management.port.renew(context)
        self._overview.figures.count("headgate_tls_reloads_total", ("applied",))
        log.info("certificates reloaded")
        self._log.note(certificates_reloaded())
        return True

    def _show_config(self) -> None:
        """Show that the configuration last read is active, and when it was read."""
        figures, read_s = self._overview.figures, self._config.shown.read_at
        figures.set("headgate_config_last_reload_successful", (), 1.0)
        figures.set("headgate_config_last_reload_success_timestamp_seconds", (), read_s)

    def _show_tls(self) -> None:
        """Show that the certificates last read are active, and when they expire."""
        figures = self._overview.figures
        if self._tls.files:
            figures.set("headgate_tls_last_reload_successful", (), 1.0)
        if (at_s := self._tls.expires_at) is not None:
            figures.set("headgate_certificate_expiry_timestamp_seconds", (), at_s)

    def _refuse(self, why: str, options: Sequence[str]) -> None:
        self._overview.figures.count("headgate_config_reloads_total", ("refused",))
        self._overview.figures.set("headgate_config_last_reload_successful", (), 0.0)
        log.error(
            "reload refused, the old configuration stays active: %s",
            why,
            extra={"options": options},
        )
        self._log.note(reload_refused(str(self._start.config), why, options))


def _exit_code(ended: Sequence[BaseException | None], is_clean: bool) -> int:
    for error in ended:
        if isinstance(error, HopelessWorkerError):
            log.error("%s", error)
            return CONFIGURATION
        if isinstance(error, BaseException):
            log.error("worker could not be kept running", exc_info=error)
            return FAILED
    return OK if is_clean else FAILED


# ---- the ports

# Workers of a killed parent need a moment to drain and free the port.
_PATIENCE_S = 3.0
_RETRY_PAUSE_S = 0.1
_LINGER_S = 1.0  # time for requests in flight at the end


class Management(NamedTuple):
    """The management pages' server and port.

    Attributes:
        server: The server.
        port: Its listener; None if the workers' port serves both.
    """

    server: HttpServer
    port: Listener | None


class PortTakenError(Exception):
    """A port that cannot be opened; the text names it and the reason."""


@asynccontextmanager
async def reserved(host: str, port: int) -> AsyncIterator[Sequence[socket.socket]]:
    """Reserve the data port for the workers, which share it (SO_REUSEPORT).

    Yields bound sockets that do not listen, so they get no connection. A single worker inherits
    them and listens on them.

    Raises:
        PortTakenError: The port cannot be bound.
    """
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    with ExitStack() as holding:
        sockets = []
        for family, address in await _addresses(host, port):
            while (error := _taken(family, address)) is not None:
                if asyncio.get_running_loop().time() > deadline:
                    option = listen_option(error, "http.host", "http.port")
                    text = f"{option}: {host}:{port}: {listen_error(error)}"
                    raise PortTakenError(text) from error
                await asyncio.sleep(_RETRY_PAUSE_S)
            sockets.append(holding.enter_context(socket.socket(family)))
            bind(sockets[-1], address, shares=True)
        yield sockets


async def _addresses(host: str, port: int) -> Sequence[tuple[int, tuple[Any, ...]]]:
    try:
        return await addresses_of(host, port)
    except socket.gaierror as error:
        raise PortTakenError(f"http.host: {host}: {listen_error(error)}") from error


def _taken(family: int, address: tuple[Any, ...]) -> OSError | None:
    """Return the error of binding the port exclusively; None if it is free.

    With SO_REUSEPORT a second gateway would just share the port.
    """
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            bind(probe, address, shares=False)
        except OSError as error:
            return error
    return None


@asynccontextmanager
async def management_sites(
    app: web.Application, http: HttpSettings, path: Path, context: ssl.SSLContext | None = None
) -> AsyncIterator[Management]:
    """Serve the management pages on their port and, for workers, on the unix socket `path`.

    If both port numbers are equal, only the socket is served: the workers own the port and forward
    requests. A new secret beside the socket proves to the parent that a request is from a worker.

    Raises:
        PortTakenError: The port cannot be opened.
    """
    secret = secrets.token_hex()
    (path.parent / PARENT_SECRET).write_text(secret)  # the folder is private
    app.middlewares.append(workers_only(secret))
    runner = PagesRunner(app, http.header_max_bytes, _LINGER_S, http.idle_timeout_ms / 1000)
    await runner.setup()
    port = None
    try:
        await web.UnixSite(runner, str(path)).start()
        if http.management_port != http.port:
            port = await _listen(runner, http, context)
        yield Management(runner.pages, port)
    finally:
        await runner.cleanup()


async def _listen(
    runner: PagesRunner, http: HttpSettings, context: ssl.SSLContext | None
) -> Listener:
    host, port = http.host, http.management_port
    try:
        return await runner.listen(host, port, context)
    except OSError as error:
        option = listen_option(error, "http.host", "http.management_port")
        text = f"{option}: {host}:{port}: {listen_error(error)}"
        raise PortTakenError(text) from error
