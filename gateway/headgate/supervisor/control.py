"""The links between the parent and its workers: unix sockets in a private folder, and the lifeline.

Each worker serves its figures and state to the parent (`control_socket`, `WorkerClient`). If data
plane and management share one port, the parent serves the management pages to workers (`Forward`).
A worker drains when its parent ends (`hold_lifeline`).
"""

import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from headgate.admin.requests import handed_on
from headgate.backends.system import end_with_parent
from headgate.errors_in_words import connection_error
from headgate.http.auth import CORS_HEADERS, peer_of
from headgate.http.body import BROKEN, continue_body
from headgate.metrics.health import Readiness
from headgate.metrics.snapshot import Snapshot, decode
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.suppression_states import TopicSuppression
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.supervisor")

PARENT_SOCKET = "parent.sock"
PARENT_SECRET = "parent.secret"  # workers show it to the parent, see `admin.requests`


class WorkerState(msgspec.Struct, frozen=True):
    """The state of one worker.

    Attributes:
        readiness: Its readiness, with its dependencies.
        topics: Topics of its clusters that a policy matches, and their held topics.
        suppression: Suppression state by topic, for topics that suppress and that this worker
            compares.
    """

    readiness: Readiness
    topics: tuple[TopicState, ...]
    suppression: Mapping[str, TopicSuppression] = {}


class Forget(msgspec.Struct, frozen=True):
    """A request to drop the published state of a key, or of the whole topic if the key is None."""

    topic: str
    key: bytes | None


class Drained(NamedTuple):
    """The figures of a worker that has stopped, or their sums; the names are those of log fields.

    Attributes:
        answered: Events that were answered after the stop signal.
        spooled: Events that the spool keeps.
        drain_s: Seconds since the stop signal.
    """

    answered: int
    spooled: int
    drain_s: float


def write_drained(folder: Path, index: int, drained: Drained) -> None:
    """Leave the figures of a worker to the parent, whose last poll does not have them."""
    with suppress(OSError):  # the parent has died, and its folder is removed
        (folder / f"worker-{index}.drained").write_bytes(msgspec.json.encode(drained))


def read_drained(folder: Path) -> list[Drained]:
    """Return the figures of the workers that have stopped."""
    files = folder.glob("worker-*.drained")
    return [msgspec.json.decode(file.read_bytes(), type=Drained) for file in files]


def worker_socket(folder: Path, index: int) -> Path:
    """Return the path of a worker's socket."""
    return folder / f"worker-{index}.sock"


@asynccontextmanager
async def control_socket(
    path: Path,
    snapshot: Callable[[bool], bytes],
    state: Callable[[], WorkerState],
    forget: Callable[[str, bytes | None], Awaitable[Failure | None]],
) -> AsyncIterator[None]:
    """Answer the parent on a unix socket while the context lasts.

    Args:
        path: Path of the socket.
        snapshot: Returns the meter's figures, with details or without.
        state: Returns the current dependencies and topics.
        forget: Drops a key's suppression state in Redis; returns the failure, if any.
    """

    async def send_snapshot(request: web.Request) -> web.Response:
        return web.Response(body=snapshot("details" in request.query))

    async def send_state(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.msgpack.encode(state()))

    async def drop(request: web.Request) -> web.Response:
        wanted = msgspec.msgpack.decode(await request.read(), type=Forget)
        failed = await forget(wanted.topic, wanted.key)
        return web.Response(body=msgspec.msgpack.encode(failed))

    app = web.Application()
    app.router.add_get("/snapshot", send_snapshot)
    app.router.add_get("/state", send_state)
    app.router.add_post("/forget", drop)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield
    finally:
        await runner.cleanup()


# ---- the parent's client of a worker

_READ_TIMEOUT = aiohttp.ClientTimeout(total=3)  # a loop that is blocked for longer is unhealthy
_CHANGE_TIMEOUT = aiohttp.ClientTimeout(total=10)


class WorkerUnreachableError(Exception):
    """A worker that does not answer: it starts, ends, or is busy."""


class WorkerClient:
    """A client of one worker; all calls raise WorkerUnreachableError without an answer."""

    def __init__(self, path: Path) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(path)), timeout=_READ_TIMEOUT
        )

    async def snapshot(self, with_details: bool) -> Snapshot:
        """Return the worker's figures."""
        return decode(await self._call("GET", "/snapshot?details" if with_details else "/snapshot"))

    async def state(self) -> WorkerState:
        """Return the worker's state."""
        return msgspec.msgpack.decode(await self._call("GET", "/state"), type=WorkerState)

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Drop suppression state through the worker; return the failure, if any."""
        body = msgspec.msgpack.encode(Forget(topic, key))
        answer = await self._call("POST", "/forget", body, _CHANGE_TIMEOUT)
        return msgspec.msgpack.decode(answer, type=Failure | None)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        within: aiohttp.ClientTimeout = _READ_TIMEOUT,
    ) -> bytes:
        url = f"http://worker{path}"
        try:
            async with self._session.request(method, url, data=body, timeout=within) as answer:
                answer.raise_for_status()
                return await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                raise WorkerUnreachableError(f"nothing came in {within.total:g} s") from error
            raise WorkerUnreachableError(connection_error(error)) from error


# ---- a worker's requests to the parent's management pages

_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_read=300)
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade"})
_NOT_SENT = _HOP_BY_HOP | {"expect"}
_OURS = frozenset({"content-length", "date", "server"})  # aiohttp sets them itself


class Forward:
    """A client that forwards a worker's requests to the parent's management pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The clients' own connections are the only limit: a slow client delays no other.
        connector = aiohttp.UnixConnector(str(folder / PARENT_SOCKET), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the parent's response.

        Raises:
            Refused: The parent does not answer, or the body broke off.
        """
        sent = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in _NOT_SENT
        ]
        body = _Body(request)
        try:
            headers = handed_on(peer_of(request), sent, self._secret)
            async with self._session.request(
                request.method,
                f"http://parent{request.rel_url}",
                headers=headers,
                data=body.pieces() if request.can_read_body else None,
                expect100=request.can_read_body,  # the parent requests the body when it is ready
                allow_redirects=False,
                timeout=_STREAM_TIMEOUT,
            ) as answer:
                if answer.content_type == "text/event-stream":
                    return await _pass_stream_on(request, answer)
                return await _pass_on(answer)
        except (aiohttp.ClientError, OSError) as error:
            if body.broken is not None:
                raise Refused(body.broken) from None
            log.warning("management process does not answer: %s", connection_error(error))
            detail = "the management process does not answer"
            raise Refused(Failure(Reason.OVERLOADED, detail, retry_after_s=1)) from None

    @cached_property
    def _secret(self) -> str:
        return (self._folder / PARENT_SECRET).read_text()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


class _Body:
    """A request's body in transit.

    The parent authenticates the caller and checks the time and size of the body, so that this
    process buffers nothing.

    Attributes:
        broken: Reason of an early end, if any.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.broken: Failure | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces as they arrive."""
        try:
            await continue_body(self._request)
            while piece := await self._request.content.readany():
                yield piece
        except Refused as refused:  # this worker drains
            self.broken = refused.failure
            raise
        except Exception:
            self.broken = BROKEN
            raise


async def _pass_stream_on(
    request: web.BaseRequest, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    """Forward each event as it arrives, until the client or the parent disconnects."""
    built = web.StreamResponse(status=answer.status, headers=_passed_on(answer))
    built.headers.update(request.get(CORS_HEADERS, {}))  # `prepare` sends the headers
    await built.prepare(request)
    with suppress(aiohttp.ClientError, OSError):  # the response has already begun
        async for piece in answer.content.iter_any():
            await built.write(piece)
    return built


async def _pass_on(answer: aiohttp.ClientResponse) -> web.Response:
    body = await answer.read()
    return web.Response(status=answer.status, body=body, headers=_passed_on(answer))


def _passed_on(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    dropped = _HOP_BY_HOP | _OURS
    return [(name, value) for name, value in answer.headers.items() if name.lower() not in dropped]


# ---- the lifeline

HURRY = signal.SIGINT  # asks a worker to drain without `http.shutdown_delay_ms`
_MARGIN_S = 5.0  # added to a drain's time limit


def hold_lifeline(drain_s: float) -> None:
    """Drain this worker when its parent ends; called once, from its main thread.

    Two mechanisms detect the parent's end: the kernel's parent-death signal (Linux), and standard
    input, a pipe that only the parent holds open. Both make the worker drain at once, because the
    next parent waits for the port. A worker that exceeds the drain's time limit is killed.

    Args:
        drain_s: Time limit of a drain, in seconds.
    """
    end_with_parent(HURRY)
    # A thread works even if the event loop is blocked. A daemon ends with the process.
    watching = threading.Thread(
        target=_watch, args=(drain_s + _MARGIN_S,), name="lifeline", daemon=True
    )
    watching.start()


def _watch(bound_s: float) -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), HURRY)
    time.sleep(bound_s)
    os._exit(1)
