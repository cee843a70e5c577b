"""Who asks the management pages, where a worker may have handed the request on.

With one port for data and management, a worker hands requests on over a unix socket and says in
headers who its client is. It drops whatever its client sent under their prefix. The parent believes
these headers only with the secret that it made at its start, and only if each is there once.
"""

import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed
from headgate.edge.peer import Certificate, Peer, peer_of

_PREFIX: Final = "x-headgate-"  # of headers between our processes; no client's header has it
_SECRET: Final = "X-Headgate-Secret"
_ADDRESS: Final = "X-Headgate-Remote"
_CERTIFICATE: Final = "X-Headgate-Certificate"

_PEER: Final = web.RequestKey("peer", Peer)

_Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


def handed_on(peer: Peer, headers: Iterable[tuple[str, str]], secret: str) -> list[tuple[str, str]]:
    """Return the client's headers as a worker sends them to the parent: with whose they are."""
    passed_on = [
        (name, value)
        for name, value in headers
        if not name.lower().replace("_", "-").startswith(_PREFIX)
    ]
    passed_on += [(_SECRET, secret), (_ADDRESS, peer.address or "unknown")]
    if peer.certificate is not None:
        passed_on.append(
            (_CERTIFICATE, json.dumps(peer.certificate))
        )  # ASCII, as headers have to be
    return passed_on


def workers_only(secret: str) -> Middleware:
    """Refuse requests on the unix socket that no worker sent; note whose request each one is."""

    @web.middleware
    async def checked(request: web.Request, handler: _Page) -> web.StreamResponse:
        connection = request.transport.get_extra_info("socket") if request.transport else None
        if connection is not None and connection.family == socket.AF_UNIX:
            request[_PEER] = _peer_of_worker(request, secret)
        return await handler(request)

    return checked


def asking(request: web.Request) -> Peer:
    """Return the client of a request to the management pages."""
    noted: Peer | None = request.get(_PEER)
    if noted is not None:
        return noted
    peer = peer_of(request)
    return peer._replace(address=peer.address or "unknown")


def _peer_of_worker(request: web.Request, secret: str) -> Peer:
    shown = _only(request, _SECRET)
    if shown is None or not hmac.compare_digest(
        shown.encode(errors="surrogateescape"), secret.encode()
    ):
        raise Refused(Failure(Reason.FORBIDDEN, "this socket is for the gateway's workers"))
    certificate = _only(request, _CERTIFICATE)
    address = _only(request, _ADDRESS) or "unknown"
    return Peer(address, None if certificate is None else _read(certificate))


def _only(request: web.Request, name: str) -> str | None:
    """Return the header's value, or None. Raises Refused if it has several."""
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise Refused(malformed(f"{name} is there {len(values)} times"))
    return values[0] if values else None


def _read(shown: str) -> Certificate:
    try:
        names, until = json.loads(shown)
        return Certificate(tuple((str(kind), str(name)) for kind, name in names), float(until))
    except (ValueError, TypeError):
        raise Refused(malformed(f"{_CERTIFICATE} cannot be read")) from None
