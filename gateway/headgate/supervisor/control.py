"""HTTP between parent and workers, over unix sockets in a private folder.

Each worker serves its figures and state to the parent (`worker_client`). The parent serves the
management pages to workers, if data plane and management share one port (`forward`).
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
    """The state of one worker.

    Args:
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


class Controlled(Protocol):
    """The parent's interface to a worker."""

    def snapshot(self, with_details: bool) -> bytes:
        """Return the meter's figures."""
        ...

    def state(self) -> WorkerState:
        """Return the current dependencies and topics."""
        ...

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Drop suppression state in Redis; return the failure, if any."""
        ...


def worker_socket(folder: Path, index: int) -> Path:
    """Return the path of a worker's socket."""
    return folder / f"worker-{index}.sock"


@asynccontextmanager
async def control_socket(path: Path, controlled: Controlled) -> AsyncIterator[None]:
    """Answer the parent on a unix socket while the context lasts."""

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
