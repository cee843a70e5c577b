"""Between parent and workers: HTTP over unix sockets in a private folder.

Each worker serves its figures and state to the parent (`worker_client`); the parent serves the
management pages to workers, for the case that data plane and management share one port (`forward`).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec
from aiohttp import web

from headgate.core.outcome import Failure
from headgate.core.suppression import TopicSuppression
from headgate.core.topics.topic import TopicState
from headgate.metrics.health import Readiness

PARENT_SOCKET = "parent.sock"
PARENT_SECRET = "parent.secret"  # workers show it to the parent, see `admin.requests`


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
