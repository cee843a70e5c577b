"""Checks for invalid HTTP requests: unreadable ones, and those that servers may read differently.

If a proxy and this gateway disagree about the end of a request, one client's bytes may become
another client's request (request smuggling). tests/app/attacks/test_request_smuggling.py compares
these checks with a strict parser.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import (
    BadHttpMessage,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)

from headgate.model.outcome import Failure, Reason

_TOO_MANY = "Too many headers received"  # aiohttp has no exception class for this error
_PLAIN = re.compile(r"[A-Z](?:[A-Za-z0-9 ,/`-]|(?<=[a-z])'(?=[a-z])){0,100}")


def ambiguity(message: RawRequestMessage) -> str | None:
    """Return the reason for refusing an ambiguous request, for its client; else None."""
    if message.version not in (HttpVersion10, HttpVersion11):  # HTTP/0.9 has a request line only
        return "The version is neither HTTP 1.1 nor 1.0"
    encodings = message.headers.getall("Transfer-Encoding", ())
    if encodings and (len(encodings) > 1 or encodings[0].strip().lower() != "chunked"):
        return "Transfer-Encoding may be `chunked` alone"
    if message.version == HttpVersion10:
        return "Transfer-Encoding is not in HTTP/1.0" if encodings else None
    if len(message.headers.getall("Host", ())) != 1:
        return "Host is missing or there twice"
    return None


async def unambiguous(
    handle: Callable[[Any], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Handle a request, unless another server could read its bytes differently."""
    why = ambiguity(request._message)
    if why is not None:
        raise BadHttpMessage(why)
    return await handle(request)


def unreadable(error: HttpProcessingError, header_max_bytes: int) -> Failure:
    """Return the failure for a request that the parser could not read.

    Clients see only the first line of the parser's message, and only if it quotes nothing.

    Args:
        error: Error of the parser.
        header_max_bytes: Limit on the size of headers, in bytes.
    """
    if isinstance(error, LineTooLong):
        limit = f"http.header_max_bytes = {header_max_bytes}"
        detail = f"the request line or a header field is longer than {limit}"
        return Failure(Reason.HEADERS_TOO_LARGE, detail)
    if error.message == _TOO_MANY:
        return Failure(Reason.HEADERS_TOO_LARGE, "the request has too many headers")
    said = error.message.partition("\n")[0].rstrip(":. ")
    if isinstance(error, InvalidURLError):
        said = "Invalid URL"
    why = f": {said}" if _PLAIN.fullmatch(said) else ""
    return Failure(Reason.MALFORMED, f"this is no request of HTTP/1.1{why}")
