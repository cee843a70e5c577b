"""Requests as a strict, independent reader takes them: h11, which knows nothing of our code."""

from __future__ import annotations

import re
from typing import NamedTuple

import h11

_BLANKS = re.compile(rb"\A([A-Z]+) +(\S+) +(?=HTTP/)")


class Request(NamedTuple):
    """What one request asks for. is_last: of its connection."""

    method: str
    target: str
    body: bytes
    is_last: bool


class Reading(NamedTuple):
    """requests: that are there as a whole.  is_refused: the bytes behind them are no HTTP."""

    requests: list[Request]
    is_refused: bool


def read(data: bytes) -> Reading:
    """Everything that a connection's bytes ask for, if the server keeps it open."""
    requests: list[Request] = []
    try:
        while True:
            # RFC 9112 lets servers ignore empty lines before a request (2.2), and more blanks in
            # its line (3), as aiohttp does. Neither says where a request ends.
            data = _BLANKS.sub(rb"\1 \2 ", data.lstrip(b"\r\n"), count=1)
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1_048_576)
            connection.receive_data(data)
            request = _next(connection)
            if request is None:
                return Reading(requests, False)
            requests.append(request)
            data = connection.trailing_data[0]
            if request.is_last:
                return Reading(requests, False)
    except h11.RemoteProtocolError:
        return Reading(requests, True)


def _next(connection: h11.Connection) -> Request | None:
    head = connection.next_event()
    if not isinstance(head, h11.Request):
        return None
    body = bytearray()
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
        else:  # it has not come as a whole
            return None
    # No upgrade, no tunnel: it stays HTTP.
    connection.send(h11.Response(status_code=400, headers=[("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    # h11 knows no HTTP/1.0 that stays; clients that ask for it mean it (RFC 9112, C.2.2).
    stays = head.http_version == b"1.0" and (b"connection", b"keep-alive") in head.headers
    is_last = connection.our_state is h11.MUST_CLOSE and not stays
    return Request(head.method.decode(), head.target.decode(), bytes(body), is_last)
