"""Responses that are sent in one write.

aiohttp builds a response field by field and sends it through its writer: 23 % of a single event's
cost (docs/design/measured.md#the-cost-of-http). The gateway's responses to events are complete, so
their bytes go directly to the transport. All other responses are aiohttp's (`problems.response`).
"""

from http import HTTPStatus
from typing import Final, cast

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion11

from headgate.http.problems import response
from headgate.model.reply import Reply

# With more unsent bytes, the response waits for the reader like aiohttp's writer.
AT_ONCE_BYTES: Final = 65_536
_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: "
    for status in HTTPStatus
}


def on_the_wire(reply: Reply, request_id: str) -> bytes:
    """Return the bytes of an HTTP/1.1 response on a connection that stays open."""
    more = "".join([f"{name}: {value}\r\n" for name, value in reply.headers])
    head = (
        f"{_LINES[reply.status]}{reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
        f"Date: {rfc822_formatted_time()}\r\nX-Request-Id: {request_id}\r\n"
        f"X-Content-Type-Options: nosniff\r\n{more}\r\n"
    )
    return head.encode("latin-1") + reply.body


def closing(response: bytes) -> bytes:
    """Return the same response for a connection that closes after it."""
    return response.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


class Answer:
    """A complete HTTP/1.1 response; its connection stays open unless `force_close` is called.

    It has the methods that aiohttp's connection calls, and does not inherit from StreamResponse:
    building one costs more than the whole response.
    """

    def __init__(self, reply: Reply, request_id: str) -> None:
        self.status: Final = reply.status
        self.keep_alive = True
        self._bytes = on_the_wire(reply, request_id)
        self._request: web.BaseRequest | None = None

    def force_close(self) -> None:
        if self.keep_alive:
            self.keep_alive = False
            self._bytes = closing(self._bytes)

    async def prepare(self, request: web.BaseRequest) -> None:
        self._request = request

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._request
        transport = None if request is None else request.transport
        if request is None or transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        transport.write(self._bytes)
        if transport.get_write_buffer_size() > AT_ONCE_BYTES:
            await request.writer.drain()


def answered(request: web.BaseRequest, reply: Reply, request_id: str) -> web.StreamResponse:
    """Return the reply as the cheapest response that is correct for the request."""
    if (
        request.version == HttpVersion11
        and request.keep_alive
        and request.content.is_eof()
        and "Origin" not in request.headers  # `http.origins` may add headers
        and request.content.is_eof()  # else the connection closes after the response
    ):
        return cast(web.StreamResponse, Answer(reply, request_id))
    return response(reply, request_id)
