"""Forwarding of a worker's requests to the parent's management pages, if one port serves both."""

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
from headgate.http.auth import peer_of
from headgate.http.body import BROKEN, continue_body
from headgate.http.origins import CORS_HEADERS
from headgate.supervisor.control import PARENT_SECRET, PARENT_SOCKET

log = logging.getLogger("headgate.control")

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
