"""A worker's way to its parent's management pages, where both ports are one."""

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import aiohttp
from aiohttp import web

from headgate.admin.requests import handed_on
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.auth import peer_of
from headgate.edge.body import BROKEN, continue_body
from headgate.edge.origins import CORS_HEADERS
from headgate.supervisor.control import PARENT_SECRET, PARENT_SOCKET

log = logging.getLogger("headgate.control")

_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_read=300)
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade"})
_NOT_SENT = _HOP_BY_HOP | {"expect"}
_OURS = frozenset({"content-length", "date", "server"})  # aiohttp sets them itself


class Forward:
    """Hands a worker's request on to the parent's management pages (one port for both)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # No limit but that of the clients' own connections: a slow one holds up no other.
        connector = aiohttp.UnixConnector(str(folder / PARENT_SOCKET), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The parent's answer. Raises Refused when there is none."""
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
            log.warning("management process does not answer: %r", error)
            detail = "the management process does not answer"
            raise Refused(Failure(Reason.OVERLOADED, detail, retry_after_s=1)) from None

    @cached_property
    def _secret(self) -> str:
        return (self._folder / PARENT_SECRET).read_text()

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
