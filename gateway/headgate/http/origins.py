"""Protection against requests that browsers send for other web pages.

Any page can make a browser send forms and plain texts to any address. A page whose name resolves to
the gateway (DNS rebinding) can send any request and read the response. Tokens stop both, since
browsers do not add tokens by themselves. Without authentication, or with credentials that browsers
remember (Basic), the gateway checks headers that pages cannot forge.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from headgate.config.settings import HttpSettings
from headgate.model.outcome import Failure, Reason, brief

_ANY = "*"
# An attacker cannot make such a name resolve to the gateway: public DNS has no such domains.
_PRIVATE = (".localhost", ".local", ".internal")


class Origins:
    """Rules for the web pages whose requests are allowed.

    Args:
        pages: Allowed origins besides the gateway's own address, or `*`.
        hosts: Host names of the gateway, besides those that an attacker cannot own. If empty, any
            name is allowed, except in requests from this machine, which have more rights.
        asks_all: Whether the host name of every request is checked, not only of requests with an
            origin; this also protects pages that are only read.
    """

    def __init__(
        self, pages: Iterable[str] = (), hosts: Iterable[str] = (), *, asks_all: bool = False
    ) -> None:
        self._pages = frozenset(pages)
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)
        self._asks_all = asks_all

    @classmethod
    def of_data_port(cls, http: HttpSettings) -> "Origins":
        """Return the rules of the data port: pages of `http.cors_origins` may post events."""
        return cls(http.cors_origins, http.hosts)

    @classmethod
    def of_control_plane(cls, http: HttpSettings) -> "Origins":
        """Return the rules of the control plane: no other page may read or change anything."""
        return cls((), http.hosts, asks_all=True)

    def refusal(self, headers: Mapping[bytes, bytes], remote: str | None) -> Failure | None:
        """Return the failure if a request without credentials is not allowed.

        Args:
            headers: Headers of the request; names in lower case.
            remote: Address of the peer; None for a peer on this machine.
        """
        is_marked = b"origin" in headers or b"sec-fetch-site" in headers
        if not is_marked and not self._asks_all:
            return None
        if self._may_ask(headers.get(b"origin")):
            return None
        return self.of_elsewhere(headers) or self._stranger(_host(headers), remote)

    def of_elsewhere(self, headers: Mapping[bytes, bytes]) -> Failure | None:
        """Return the failure if another page sent a request with a browser's credentials."""
        origin = headers.get(b"origin")
        if origin is None:
            return self._foreign("another site") if _is_cross_site(headers) else None
        page, host = origin.decode("latin-1"), _host(headers)
        is_ours = bool(host) and page.lower().partition("://")[2] == host
        return None if is_ours or self._may_ask(origin) else self._foreign(page)

    def _may_ask(self, origin: bytes | None) -> bool:
        return origin is not None and (
            _ANY in self._pages or origin.decode("latin-1") in self._pages
        )

    def _stranger(self, host: str, remote: str | None) -> Failure | None:
        if self._is_ours(_name(host), remote):
            return None
        detail = (
            f"Host {brief(host)} may belong to a web page that attacks by DNS rebinding: add it to "
            'http.hosts if it is this gateway\'s, or set auth.mode = "token"'
        )
        return Failure(Reason.FORBIDDEN, detail)

    def _is_ours(self, name: str, remote: str | None) -> bool:
        if name in self._hosts or _ANY in self._hosts:
            return True
        if "." not in name or _is_address(name) or name.endswith(_PRIVATE):
            return True
        return not self._hosts and not is_loopback(remote)

    def _foreign(self, page: str) -> Failure:
        fix = "they may not use the control plane" if self._asks_all else "see http.cors_origins"
        detail = f"the browser's page is from {page}, not from this gateway's address: {fix}"
        return Failure(Reason.FORBIDDEN, detail)


def _is_cross_site(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether another site sent the request. Navigation is harmless, so it does not count.

    Navigation is a GET; browsers send an Origin with all other methods.
    """
    if headers.get(b"sec-fetch-site") != b"cross-site":
        return False
    return headers.get(b"sec-fetch-mode") != b"navigate"


def _host(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"host", b"").decode("latin-1").lower()


def _name(host: str) -> str:
    """Return the host name without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(remote: str | None) -> bool:
    """Return whether a peer is on this machine. Peers of Unix sockets have no address."""
    if not remote:
        return True
    try:
        return ip_address(remote).is_loopback
    except ValueError:
        return False


# ---- cross-origin requests of browsers (the Fetch standard, section 3.2), off by default


# Headers that a streamed response must add itself, since they cannot be added later.
CORS_HEADERS: Final = web.RequestKey("cors", dict[str, str])

_EXPOSED = (
    "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, "
    "Idempotency-Bypassed"
)
_MAX_AGE_S = 600


class Cors:
    """Headers of cross-origin responses.

    Args:
        origins: Allowed origins as browsers send them (`https://app.example`), or `*` for all.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.lower() for origin in origins)

    @property
    def is_on(self) -> bool:
        """Return whether any origin is allowed."""
        return bool(self._origins)

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of any response to a request with these headers."""
        origin = request.get("Origin")
        if origin is None or not self._origins:
            return {}
        if _ANY in self._origins:
            return {"Access-Control-Allow-Origin": _ANY, "Access-Control-Expose-Headers": _EXPOSED}
        if origin.lower() not in self._origins:
            return {"Vary": "Origin"}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": _EXPOSED,
            "Vary": "Origin",
        }

    def preflight(self, request: Mapping[str, str], methods: str) -> dict[str, str]:
        """Return further headers of the response to OPTIONS.

        Args:
            request: Headers of the request.
            methods: Methods of the path.
        """
        if "Access-Control-Allow-Origin" not in self.headers(request):
            return {}
        requested = request.get("Access-Control-Request-Headers", "")
        return {
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": requested or _ANY,
            "Access-Control-Max-Age": str(_MAX_AGE_S),
        }
