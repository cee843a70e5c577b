"""Who asks the management pages, where a worker may have handed the request on.

A worker says in two headers who its client is. They are believed of the unix socket alone, which
is in the parent's private folder, and a worker replaces whatever its client put there.
"""

import json
import socket
from collections.abc import MutableMapping

from aiohttp import web

from headgate.edge.peer import Certificate, Peer, peer_of

_ADDRESS = "X-Headgate-Remote"
_CERTIFICATE = "X-Headgate-Certificate"


def hand_on(peer: Peer, headers: MutableMapping[str, str]) -> None:
    """Say whose request it is. headers: of the request to the parent."""
    headers[_ADDRESS] = peer.address or "unknown"
    headers.pop(_CERTIFICATE, None)
    if peer.certificate is not None:
        headers[_CERTIFICATE] = json.dumps(peer.certificate)  # in ASCII, as a header has to be


def asking(request: web.Request) -> Peer:
    """Who sends a request to the management pages."""
    connection = request.transport.get_extra_info("socket") if request.transport else None
    if connection is None or connection.family != socket.AF_UNIX:
        peer = peer_of(request)
        return peer._replace(address=peer.address or "unknown")
    shown = request.headers.get(_CERTIFICATE)
    certificate = None if shown is None else _read(shown)
    return Peer(request.headers.get(_ADDRESS), certificate)


def _read(shown: str) -> Certificate:
    names, until = json.loads(shown)
    return Certificate(tuple((kind, name) for kind, name in names), until)
