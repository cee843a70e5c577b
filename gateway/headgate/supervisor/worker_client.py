"""The parent's client of a worker, over the worker's unix socket."""

from pathlib import Path

import aiohttp
import msgspec

from headgate.core.outcome import Failure
from headgate.metrics.snapshot import Snapshot, decode
from headgate.supervisor.control import Forget, WorkerState

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
            raise WorkerUnreachableError(repr(error)) from error
