"""Who is at the other end of a connection: the address, and what its certificate says."""

import ssl
from asyncio import BaseTransport
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aiohttp import web

_COMMON_NAME: Final = "commonName"
_KINDS: Final = {"URI": "uri", "DNS": "dns", "email": "email"}


class Certificate(NamedTuple):
    """A client's certificate, which an authority of `http.tls_client_ca_file` has signed.

    names: kind (as `auth.mtls_name` has them) and name.  until: seconds since 1970.
    """

    names: tuple[tuple[str, str], ...]
    until: float


class Peer(NamedTuple):
    """address: None on a unix socket, and where the client has left.  certificate: None where the
    connection has none that was checked."""

    address: str | None
    certificate: Certificate | None = None


def peer_of(request: web.BaseRequest) -> Peer:
    """Who sends this request."""
    transport = request.transport
    found = None if transport is None else _certificate(transport)
    return Peer(request.remote, found)


def peer_at(transport: BaseTransport) -> Peer:
    """Who is connected. The address is empty where there is none."""
    address = transport.get_extra_info("peername")
    shown = str(address[0]) if isinstance(address, tuple) else ""
    return Peer(shown, _certificate(transport))


def _certificate(transport: BaseTransport) -> Certificate | None:
    # Python gives its fields only where the authority was checked.
    found = transport.get_extra_info("peercert")
    return read_certificate(found) if found else None


def read_certificate(fields: Mapping[str, Any]) -> Certificate:
    """fields: as `ssl.SSLSocket.getpeercert` gives them."""
    return Certificate(tuple(_names(fields)), ssl.cert_time_to_seconds(fields["notAfter"]))


def _names(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for relative_name in fields.get("subject", ()):
        for kind, name in relative_name:
            if kind == _COMMON_NAME:
                yield "cn", name
    for kind, name in fields.get("subjectAltName", ()):
        if kind in _KINDS:
            yield _KINDS[kind], name
