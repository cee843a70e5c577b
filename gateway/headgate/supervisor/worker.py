"""The process of one worker, from its start to the end of its drain."""

import asyncio
import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop

from headgate.backends.owned import OwnedTasks
from headgate.config import ConfigError, Settings, load, read_file
from headgate.http.listener import server_context
from headgate.metrics import logs
from headgate.metrics.build import start_fields
from headgate.model.internal_topics import topic_of
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.redis.script import StoreError
from headgate.supervisor.control import (
    HURRY,
    Drained,
    Forward,
    WorkerState,
    control_socket,
    hold_lifeline,
    worker_socket,
    write_drained,
)
from headgate.wiring.app import Worker
from headgate.wiring.reloading import (
    Reload,
    Reloading,
    RestartNeededError,
    beside,
    give_back_leftovers,
    prepared,
    spare_the_collector,
)

log = logging.getLogger("headgate.supervisor")
_SHOWN_TOPICS = 20  # names in one line

_END_S = 1.0  # time for cancelled tasks to end
_RETRY_AFTER_S = 2  # the circuit breaker retries Redis about every second


class WorkerFiles(NamedTuple):
    """The files of a worker.

    Attributes:
        config: The active configuration file.
        environ: Variables that override the file.
        folder: The parent's private folder.
        number: Index of the worker.
        sockets: Descriptors of bound sockets to listen on, which the parent keeps open; without
            them, the worker opens its own.
    """

    config: Path
    environ: Mapping[str, str]
    folder: Path
    number: int
    sockets: Sequence[int] = ()


def run_worker(files: WorkerFiles) -> int:
    """Run until a signal, or the end of the parent, drains the worker; return the exit code.

    SIGTERM drains after `http.shutdown_delay_ms`, SIGINT at once, also during that delay.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    text = read_file(files.config)
    settings = load(files.config, files.environ, files.folder, text)
    logs.configure(settings.logs, worker=files.number)
    hold_lifeline(settings.http.drain_timeout_ms / 1000)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        drained = runner.run(_run(files, settings, text))
    write_drained(files.folder, files.number, drained)
    answered, spooled, drain_s = drained
    fields = {"answered": answered, "spooled": spooled, "drain_s": drain_s}
    logs.write_counts()
    log.info("worker %d stopped", files.number, extra=fields)
    return 0


async def _run(files: WorkerFiles, settings: Settings, text: str) -> Drained:
    leave, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    # Only the parent sends SIGINT: a terminal's does not reach the worker's own group. A second
    # SIGTERM has no effect: supervisors send it to all processes, and the parent forwards it.
    loop.add_signal_handler(signal.SIGTERM, leave.set)

    def leave_at_once() -> None:
        hurry.set()
        leave.set()

    loop.add_signal_handler(HURRY, leave_at_once)
    forward = Forward(files.folder) if settings.http.port == settings.http.management_port else None
    worker = Worker(settings, settings.http.workers, forward)
    reloading, tasks = Reloading(partial(read_again, worker, files)), OwnedTasks()
    loop.add_signal_handler(signal.SIGHUP, reloading.ask)
    try:
        await worker.start([_inherited(descriptor) for descriptor in files.sockets])
        spare_the_collector()
        tasks.keep(partial(give_back_leftovers, lambda: worker.admission.bytes), "leftovers")
        path = worker_socket(files.folder, files.number)
        state, forget = partial(_state, worker), partial(_forget, worker)
        async with control_socket(path, worker.meter.snapshot, state, forget):
            data = f"{settings.http.host}:{settings.http.port}"
            start = start_fields(files.config, text)
            fields = {**start, "worker": files.number, "data": data}
            log.info("worker %d started", files.number, extra=fields)
            if files.number == 0:
                warn_of_missing_topics(worker.missing_topics())
            await leave.wait()
            stopped_s, answered = loop.time(), worker.answered()
            worker.server.is_leaving = True
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.http.shutdown_delay_ms / 1000):
                    await hurry.wait()
            await reloading.close()
            await worker.drain()
        answered, spooled = worker.answered() - answered, worker.spooled()
        return Drained(answered, spooled, round(loop.time() - stopped_s, 3))
    finally:
        await tasks.end(_END_S)
        if forward is not None:
            await forward.close()


def _inherited(descriptor: int) -> socket.socket:
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)
    return inherited


def warn_of_missing_topics(topics: Sequence[str]) -> None:
    """Log the configured topics that do not exist in Kafka; `headgate check --connect` does too."""
    if not topics:
        return
    names = ", ".join(topics[:_SHOWN_TOPICS])
    more = len(topics) - _SHOWN_TOPICS
    log.warning(
        "configured topics do not exist in Kafka: %s. Posts to them are answered 404: create them "
        "(kafka-topics.sh --create ...); the gateway never creates topics",
        f"{names} and {more} more" if more > 0 else names,
    )


async def read_again(worker: Worker, files: WorkerFiles) -> None:
    """Reload the configuration.

    The parent has checked the file. It is checked again, because it may be missing or half written.
    """
    names = [state.name for state in worker.topics.states()]
    try:
        reload = await beside(_read, files, worker, names)
    except (ConfigError, RestartNeededError) as error:
        log.error("reload refused, the old configuration stays active: %s", error)  # noqa: TRY400
        return
    await worker.reload(reload)
    try:
        context = server_context(worker.settings.http)
        if context is not None:
            await worker.port.renew(context)
    except OSError as error:
        log.error("certificates refused, the old ones stay active: %s", error)  # noqa: TRY400


def _read(files: WorkerFiles, worker: Worker, topics: Sequence[str]) -> Reload:
    new = load(files.config, files.environ, files.folder)
    return prepared(worker.settings, new, worker.authenticators.of, topics)


def _state(worker: Worker) -> WorkerState:
    topics = (
        topic
        for topic in worker.topics.states()
        if worker.policies.match(topic_of(topic.name) or topic.name)
    )
    return WorkerState(worker.readiness(), tuple(topics), worker.suppression())


async def _forget(worker: Worker, topic: str, key: bytes | None) -> Failure | None:
    try:
        scope = worker.routes.compared(topic)
        if worker.suppressor is None or scope is None:
            return Failure(Reason.MALFORMED, f"topic {brief(topic)} does not suppress")
        await worker.suppressor.forget(scope, key)
    except Refused as refused:
        return refused.failure
    except StoreError as error:
        return Failure(
            Reason.REDIS_UNAVAILABLE, f"Redis: {error.in_words}", retry_after_s=_RETRY_AFTER_S
        )
    return None
