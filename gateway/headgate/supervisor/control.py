"""Between parent and workers: HTTP over unix sockets in a private folder.

Each worker serves its figures and state to the parent; the parent serves the management pages to
workers, for the case that data plane and management share one port.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.core.suppression.states import TopicSuppression
from headgate.core.topics.topic import TopicState
from headgate.edge.body import BROKEN, continue_body
from headgate.edge.cors import CORS_HEADERS
from headgate.edge.management.control_plane import REMOTE_HEADER
from headgate.stats.snapshot import Snapshot, decode
from headgate.telemetry.health import Readiness

log = logging.getLogger("headgate.control")

PARENT_SOCKET = "parent.sock"
_READ_TIMEOUT = aiohttp.ClientTimeout(total=3)  # a loop that is held up longer is not healthy
_CHANGE_TIMEOUT = aiohttp.ClientTimeout(total=10)
_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_read=300)
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade"})
_OURS = frozenset({"content-length", "date", "server"})  # aiohttp sets them itself


class WorkerState(msgspec.Struct, frozen=True):
    """What a worker sees. topics: those of its clusters that a policy matches, and their held
    topics.  suppression: by topic, of those that suppress and whose events it compares."""

    readiness: Readiness
    topics: tuple[TopicState, ...]
    suppression: Mapping[str, TopicSuppression] = {}


class Forget(msgspec.Struct, frozen=True):
    """Drop the published state of a key (None: of the whole topic)."""

    topic: str
    key: bytes | None


class Controlled(Protocol):
    """What a worker lets the parent see and do."""

    def snapshot(self, with_details: bool) -> bytes:
        """The meter's figures."""
        ...

    def state(self) -> WorkerState:
        """Dependencies and topics as they are now."""
        ...

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Drop suppression state in Redis; the failure when that did not work."""
        ...


def worker_socket(folder: Path, index: int) -> Path:
    """Where the worker with this index listens."""
    return folder / f"worker-{index}.sock"


@asynccontextmanager
async def control_socket(path: Path, controlled: Controlled) -> AsyncIterator[None]:
    """Answer the parent on this unix socket while the context lasts."""

    async def snapshot(request: web.Request) -> web.Response:
        return web.Response(body=controlled.snapshot("details" in request.query))

    async def state(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.msgpack.encode(controlled.state()))

    async def forget(request: web.Request) -> web.Response:
        wanted = msgspec.msgpack.decode(await request.read(), type=Forget)
        failed = await controlled.forget(wanted.topic, wanted.key)
        return web.Response(body=msgspec.msgpack.encode(failed))

    app = web.Application()
    app.router.add_get("/snapshot", snapshot)
    app.router.add_get("/state", state)
    app.router.add_post("/forget", forget)
    async with unix_site(app, path):
        yield


@asynccontextmanager
async def unix_site(app: web.Application, path: Path) -> AsyncIterator[None]:
    """Serve an application on a unix socket while the context lasts."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield
    finally:
        await runner.cleanup()


class WorkerUnreachableError(Exception):
    """The worker does not answer: it starts, ends, or is busy."""


class WorkerClient:
    """The parent's way to one worker."""

    def __init__(self, path: Path) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(path)), timeout=_READ_TIMEOUT
        )

    async def snapshot(self, with_details: bool) -> Snapshot:
        """The worker's figures. Raises WorkerUnreachableError, as all calls here do."""
        return decode(await self._call("GET", "/snapshot?details" if with_details else "/snapshot"))

    async def state(self) -> WorkerState:
        """What the worker sees."""
        return msgspec.msgpack.decode(await self._call("GET", "/state"), type=WorkerState)

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Have the worker drop suppression state."""
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
            raise WorkerUnreachableError(repr(error)) from error


class Forward:
    """Hands a worker's request on to the parent's management pages (one port for both)."""

    def __init__(self, folder: Path) -> None:
        # No limit but that of the clients' own connections: a slow one holds up no other.
        connector = aiohttp.UnixConnector(str(folder / PARENT_SOCKET), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The parent's answer. Raises Refused when there is none."""
        headers = request.headers.copy()
        for name in (*_HOP_BY_HOP, "Expect"):
            headers.popall(name, None)
        # Replaces whatever the client put there: only workers may say where a request is from.
        headers[REMOTE_HEADER] = request.remote or "unknown"
        body = _Body(request)
        try:
            async with self._session.request(
                request.method,
                f"http://parent{request.rel_url}",
                headers=headers,
                data=body.pieces() if request.can_read_body else None,
                expect100=request.can_read_body,  # the parent asks for it once it wants it
                allow_redirects=False,
                timeout=_STREAM_TIMEOUT,
            ) as answer:
                if answer.content_type == "text/event-stream":
                    return await _pass_stream_on(request, answer)
                return await _pass_on(answer)
        except (aiohttp.ClientError, OSError) as error:
            if body.broken is not None:
                raise Refused(body.broken) from None
            log.warning("the management process does not answer: %r", error)
            detail = "the management process does not answer"
            raise Refused(Failure(Reason.INTERNAL, detail)) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


class _Body:
    """A request's body on its way. The parent asks who it is, and how long and how large it may
    be, so that nothing of it is kept here.  broken: why it ended too early, if it did."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.broken: Failure | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """As they arrive."""
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
    """Each event as it comes. When the client or the parent leaves, it ends."""
    built = web.StreamResponse(status=answer.status, headers=_passed_on(answer))
    built.headers.update(request.get(CORS_HEADERS, {}))  # afterwards it is too late
    await built.prepare(request)
    with suppress(aiohttp.ClientError, OSError):  # too late for another answer
        async for piece in answer.content.iter_any():
            await built.write(piece)
    return built


async def _pass_on(answer: aiohttp.ClientResponse) -> web.Response:
    body = await answer.read()
    return web.Response(status=answer.status, body=body, headers=_passed_on(answer))


def _passed_on(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    dropped = _HOP_BY_HOP | _OURS
    return [(name, value) for name, value in answer.headers.items() if name.lower() not in dropped]
