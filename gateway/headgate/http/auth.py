"""Callers: authentication by name, token, signed token or certificate, and browsers' origins.

Configured tokens are stored as hashes only, and so are signed tokens after their check: a signature
check takes 100 to 300 us, a look-up 3 us.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import math
import ssl
import time
from asyncio import BaseTransport
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import web

from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Failure, Reason, brief
from headgate.model.topics import Globs

log = logging.getLogger("headgate.attempts")

# ---- the peer: its address, and the names in its certificate


_COMMON_NAME: Final = "commonName"
_KINDS: Final = {"URI": "uri", "DNS": "dns", "email": "email"}


class Certificate(NamedTuple):
    """A client certificate that an authority of `http.tls_client_ca_file` has signed.

    Attributes:
        names: Kinds (the values of `auth.mtls_name`) and names.
        until: Expiry, in seconds since 1970.
    """

    names: tuple[tuple[str, str], ...]
    until: float


class Peer(NamedTuple):
    """The peer of a connection.

    Attributes:
        address: IP address; None on a Unix socket, or if the client has disconnected.
        certificate: Verified client certificate; None without one.
    """

    address: str | None
    certificate: Certificate | None = None


def peer_of(request: web.BaseRequest) -> Peer:
    """Return the peer that sent a request."""
    transport = request.transport
    certificate = None if transport is None else _certificate(transport)
    return Peer(request.remote, certificate)


def peer_at(transport: BaseTransport) -> Peer:
    """Return the peer of a connection. Its address is empty if the socket has none."""
    address = transport.get_extra_info("peername")
    shown = str(address[0]) if isinstance(address, tuple) else ""
    return Peer(shown, _certificate(transport))


def _certificate(transport: BaseTransport) -> Certificate | None:
    # Python returns the fields only if the authority was checked.
    fields = transport.get_extra_info("peercert")
    return read_certificate(fields) if fields else None


def read_certificate(fields: Mapping[str, Any]) -> Certificate:
    """Return the certificate with the fields of `ssl.SSLSocket.getpeercert`."""
    return Certificate(tuple(_names(fields)), ssl.cert_time_to_seconds(fields["notAfter"]))


def _names(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for relative_name in fields.get("subject", ()):
        for kind, name in relative_name:
            if kind == _COMMON_NAME:
                yield "cn", name
    for kind, name in fields.get("subjectAltName", ()):
        if kind in _KINDS:
            yield _KINDS[kind], name


# ---- protection against requests that browsers send for other web pages
#
# Any page can make a browser send forms and plain texts to any address. A page whose name resolves
# to the gateway (DNS rebinding) can send any request and read the response. Tokens stop both, since
# browsers do not add tokens by themselves. Without authentication, or with credentials that
# browsers remember (Basic), the gateway checks headers that pages cannot forge.


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


# ---- limit on wrong credentials per address

WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 4096  # further addresses share one record, so many addresses gain nothing
_REMEMBERED_MAX: Final = 16_384  # pairs of address and credentials
_OTHERS: Final = "others"
_IPV6_NETWORK_BITS: Final = 64  # the network of one subscriber


class Attempts:
    """A bounded table of wrong credentials by address.

    Each wrong attempt delays the time at which the address has a clean record again (GCRA: one
    number for each address, and no window edges to exploit). Over the limit, the address's
    credentials are not checked, except those that it sent correctly before: many clients may share
    an address. All times are monotonic seconds.

    Args:
        limit: Wrong credentials that an address may send at once, and then within WINDOW_S.
        addresses: Maximum number of addresses with a record of their own.
        remembered: Maximum number of remembered pairs of address and correct credentials.
    """

    def __init__(
        self, limit: int, addresses: int = _ADDRESSES_MAX, remembered: int = _REMEMBERED_MAX
    ) -> None:
        self._addresses_max = addresses
        self._remembered_max = remembered
        self._interval_s = WINDOW_S / limit
        self._clean_at: dict[str, float] = {}
        self._swept_at = float("-inf")
        # Python's own hashes, with a new key in each process. They only decide whether credentials
        # are checked, and contain no tokens.
        self._known: dict[int, None] = {}

    @property
    def is_clean(self) -> bool:
        """Return whether no address has sent wrong credentials lately."""
        return not self._clean_at

    def wait(self, address: str, credentials: bytes, now_s: float) -> float:
        """Return the seconds until the address's credentials are checked again; 0 if now."""
        if hash((address, credentials)) in self._known:
            return 0.0
        clean_at = self._clean_at.get(self._record_of(address), now_s)
        return max(0.0, clean_at + self._interval_s - WINDOW_S - now_s)

    def right(self, address: str, credentials: bytes) -> None:
        """Remember credentials that were correct."""
        pair = hash((address, credentials))
        if pair in self._known:
            return
        if len(self._known) >= self._remembered_max:
            del self._known[next(iter(self._known))]
        self._known[pair] = None

    def wrong(self, address: str, credentials: bytes, now_s: float) -> None:
        """Count credentials that were wrong. They may have been right before a reload."""
        self._known.pop(hash((address, credentials)), None)
        if len(self._clean_at) >= self._addresses_max:
            self._sweep(now_s)
        record = self._record_of(address)
        self._clean_at[record] = max(self._clean_at.get(record, now_s), now_s) + self._interval_s

    def _record_of(self, address: str) -> str:
        network = network_of(address)
        has_place = network in self._clean_at or len(self._clean_at) < self._addresses_max
        return network if has_place else _OTHERS

    def _sweep(self, now_s: float) -> None:
        """Drop clean records. This walks over all records, so it does not run at each request."""
        if now_s < self._swept_at + self._interval_s:
            return
        self._swept_at = now_s
        self._clean_at = {record: at for record, at in self._clean_at.items() if at > now_s}


def network_of(address: str) -> str:
    """Return the network that counts as one address: an IPv4 address, or an IPv6 /64."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:  # dual-stack sockets show IPv4 addresses in this form
        return str(parsed.ipv4_mapped)
    network = int(parsed) >> (128 - _IPV6_NETWORK_BITS) << (128 - _IPV6_NETWORK_BITS)
    return f"{IPv6Address(network)}/{_IPV6_NETWORK_BITS}"


_TOLD_APART: Final = 1000  # addresses in the counts of one window

Later = Callable[[float, Callable[[], None]], object]


class AttemptLimit:
    """Limit on wrong credentials, with log lines for each window.

    Args:
        limit: Wrong credentials that an address may send (`Attempts`).
        clock: Monotonic clock, in seconds.
        later: Schedules a call after a delay in seconds; by default on the running loop.
    """

    def __init__(
        self,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        later: Later | None = None,
    ) -> None:
        self._attempts = Attempts(limit)
        self._clock = clock
        self._later = later or _later
        self._is_counting = False
        self._wrong = 0
        self._refused: dict[str, int] = {}

    def refusal(self, remote: str | None, credentials: bytes) -> Failure | None:
        """Return the failure if credentials are not checked for now, else None.

        Args:
            remote: Address of the peer.
            credentials: Credentials of the request.
        """
        if self._attempts.is_clean:
            return None
        address = remote or ""
        wait_s = self._attempts.wait(address, credentials, self._clock())
        if wait_s <= 0:
            return None
        self._tell(network_of(address))
        detail = (
            "too many wrong credentials came from this address: for now only credentials that "
            "were valid before are checked"
        )
        return Failure(Reason.TOO_MANY_ATTEMPTS, detail, retry_after_s=math.ceil(wait_s))

    def right(self, remote: str | None, credentials: bytes) -> None:
        """Remember credentials that were correct."""
        self._attempts.right(remote or "", credentials)

    def wrong(self, remote: str | None, credentials: bytes) -> None:
        """Count credentials that were wrong."""
        self._wrong += 1
        self._attempts.wrong(remote or "", credentials, self._clock())

    def _tell(self, address: str) -> None:
        """Count a refusal.

        The first one is logged at once. Then there is one line for each window, for all addresses.
        """
        if not self._is_counting:
            self._is_counting = True
            self._later(WINDOW_S, self._end_of_window)
            log.warning(
                "too many wrong credentials: this address is refused unchecked for now",
                extra={"remote": address},
            )
        if address in self._refused or len(self._refused) < _TOLD_APART:
            self._refused[address] = self._refused.get(address, 0) + 1

    def _end_of_window(self) -> None:
        refused, wrong = self._refused, self._wrong
        self._refused, self._wrong, self._is_counting = {}, 0, False
        if not refused:
            return
        self._is_counting = True
        self._later(WINDOW_S, self._end_of_window)
        busiest = max(refused, key=lambda address: refused[address])
        figures = {
            "wrong": wrong,
            "refused": sum(refused.values()),
            "addresses": len(refused),
            "remote": busiest,
        }
        log.warning(
            "wrong credentials received within %d s, most of them from this address",
            WINDOW_S,
            extra=figures,
        )


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


ANONYMOUS = "anonymous"
_NAME_MAX = 100
_UTF8_MAX = 4  # bytes of a character
_REMEMBERED = 4096  # names come from clients: the memory for them must be bounded
_SIGNED_REMEMBERED = 4096  # only tokens with a valid signature; a new one replaces the oldest
_DEFAULT_ROLES = ("produce",)


class Identity(NamedTuple):
    """A caller. `topics` holds globs of the topics that it may write to; None: all."""

    name: str
    roles: frozenset[str]
    topics: Globs | None = None

    def may_post(self, topic: str) -> bool:
        if self.topics is None:
            return True
        return "produce" in self.roles and self.topics.match(topic)

    def refusal(self, topic: str) -> Failure:
        """Return the failure of a post to a topic that the caller may not write to."""
        name = brief(self.name)
        if "produce" not in self.roles:
            return Failure(Reason.FORBIDDEN, f"producer {name} needs the role 'produce' to post")
        detail = f"producer {name} may not post to topic {brief(topic)}"
        return Failure(Reason.FORBIDDEN, detail)


class Claims(NamedTuple):
    """Claims of a valid signed token.

    Attributes:
        name: Name of the producer.
        topics: Globs of topics; None: those of the configuration.
        roles: Roles; None: those of the configuration.
        until: Expiry, in seconds since 1970.
    """

    name: str
    topics: tuple[str, ...] | None
    roles: frozenset[str] | None
    until: float


class _Checked(NamedTuple):
    """A signed token with a valid signature."""

    identity: Identity
    until: float
    generation: int


OWN_PAGES = Origins()


class SignedTokens(Protocol):
    """Checks of signed tokens (`http.jwt.CheckedTokens`).

    That class needs joserfc, which is an extra: a build that compiles this module has no types of
    it, and a gateway without signed tokens does not load it.

    Attributes:
        generation: Number that changes when a key is withdrawn; earlier checks are then invalid.
        trusted_until: Time at which the keys are too old, in seconds since 1970.
    """

    @property
    def generation(self) -> int: ...

    @property
    def trusted_until(self) -> float: ...

    def check(self, token: bytes) -> Claims | Failure: ...


class Authenticator:
    """Authenticator of requests.

    Args:
        auth: Settings of authentication.
        producers: Configured producers.
        origins: Web pages whose requests browsers may send.
        attempts: Limit on wrong credentials; it outlives a reload.
        signed: Checks signed tokens; required if auth.mode contains jwt.
        clock: Wall clock, in seconds since 1970.
        last_used: Last use of configured tokens by hash, in seconds since 1970; it outlives a
            reload.
    """

    def __init__(
        self,
        auth: AuthSettings,
        producers: Mapping[str, ProducerSettings],
        origins: Origins = OWN_PAGES,
        attempts: AttemptLimit | None = None,
        signed: SignedTokens | None = None,
        clock: Callable[[], float] = time.time,
        last_used: dict[bytes, float] | None = None,
    ) -> None:
        self._origins = origins
        self._last_used: dict[bytes, float] = {} if last_used is None else last_used
        self._attempts = attempts or AttemptLimit(auth.failed_attempts_per_minute)
        self._producers = producers
        self._clock = clock
        self._open = auth.is_open
        self._signed_tokens = signed if "jwt" in auth.mode else None
        self._wanted = _wanted(auth)
        self._named_before = BoundedCache[tuple[bytes | None, str | None], Identity | Failure](
            _REMEMBERED
        )
        self._checked: dict[bytes, _Checked] = {}
        self._by_hash: dict[bytes, Identity] = {}
        self._by_certificate: dict[str, Identity] = {}
        self._name_kind: str = auth.mtls_name
        self._takes_certificates = "mtls" in auth.mode
        if self._open:
            return
        for name, producer in producers.items():
            identity = Identity(name, frozenset(producer.roles), Globs(producer.topics))
            if "token" in auth.mode:
                for digest in producer.token_sha256:
                    self._by_hash[bytes.fromhex(digest)] = identity
            if self._takes_certificates:
                for certified in producer.certificate_names or (name,):
                    self._by_certificate[certified] = identity

    def identities(self) -> Iterable[Identity]:
        """Return the identities of all configured tokens and certificates."""
        return chain(self._by_hash.values(), self._by_certificate.values())

    def token_uses(self) -> dict[str, float]:
        """Return the last use of each configured token, by its hash in hexadecimal digits."""
        for digest in [each for each in self._last_used if each not in self._by_hash]:
            del self._last_used[digest]  # a reload removed it
        return {digest.hex(): at for digest, at in self._last_used.items()}

    def identify(self, headers: Mapping[bytes, bytes], peer: Peer) -> Identity | Failure:
        """Return the caller of a request, or the failure of its authentication.

        Args:
            headers: Headers of the request; names in lower case.
            peer: Peer of the connection.
        """
        if self._open:
            refused = self._origins.refusal(headers, peer.address)
            return refused or self._remembered(headers.get(b"headgate-producer"), peer.address)
        credentials = headers.get(b"authorization", b"").strip()
        if not credentials and peer.certificate is not None and self._takes_certificates:
            # A browser sends its certificate by itself, for requests of any page.
            return self._origins.of_elsewhere(headers) or self._certified(peer.certificate)
        token = _token(credentials)
        if token is None:
            return Failure(Reason.UNAUTHENTICATED, self._wanted)
        unseen = self._attempts.refusal(peer.address, credentials)
        if unseen is not None:
            return unseen
        # One look-up, whatever the number of tokens. Its duration depends on the SHA-256 of the
        # credentials sent. An attacker cannot choose tokens by hash, so timing reveals no token.
        digest = hashlib.sha256(token).digest()
        identity = self._by_hash.get(digest)
        if identity is None:
            signed = self._of_signed(token, digest)
            if isinstance(signed, Failure):
                if signed.reason is Reason.UNAUTHENTICATED:  # else the token could not be checked
                    self._attempts.wrong(peer.address, credentials)
                return signed
            identity = signed
        else:
            self._last_used[digest] = self._clock()
        self._attempts.right(peer.address, credentials)
        if credentials[:5].lower() == b"basic":  # browsers remember these and send them unasked
            return self._origins.of_elsewhere(headers) or identity
        return identity

    # ---- signed tokens

    def _of_signed(self, token: bytes, digest: bytes) -> Identity | Failure:
        signed = self._signed_tokens
        if signed is None:
            return Failure(Reason.UNAUTHENTICATED, "the token is not known here")
        checked = self._checked.get(digest)
        if checked is not None:
            now = self._clock()
            is_valid = now < checked.until and now < signed.trusted_until
            if is_valid and checked.generation == signed.generation:
                return checked.identity
            del self._checked[digest]
        claims = signed.check(token)
        if isinstance(claims, Failure):
            return claims
        identity = self._claimed(claims)
        if isinstance(identity, Failure):
            return identity
        if len(self._checked) >= _SIGNED_REMEMBERED:
            del self._checked[next(iter(self._checked))]
        self._checked[digest] = _Checked(identity, claims.until, signed.generation)
        return identity

    def _claimed(self, claims: Claims) -> Identity | Failure:
        """Return the identity in claims; the configuration supplies missing topics and roles."""
        producer = self._producers.get(claims.name)
        if producer is None and claims.topics is None and claims.roles is None:
            detail = f"the token names {brief(claims.name)}, which is not a configured producer"
            return Failure(Reason.UNAUTHENTICATED, detail)
        topics, roles = claims.topics, claims.roles
        if topics is None:
            topics = () if producer is None else producer.topics
        if roles is None:
            roles = frozenset(_DEFAULT_ROLES if producer is None else producer.roles)
        return Identity(claims.name, roles, Globs(topics))

    # ---- certificates

    def _certified(self, certificate: Certificate) -> Identity | Failure:
        if self._clock() >= certificate.until:
            return Failure(Reason.UNAUTHENTICATED, "the client certificate has expired")
        names = [name for kind, name in certificate.names if kind == self._name_kind]
        matches = {
            name: self._by_certificate[name] for name in names if name in self._by_certificate
        }
        if len({identity.name for identity in matches.values()}) == 1:
            return next(iter(matches.values()))
        shown = ", ".join(map(repr, names)) or f"no name of the kind {self._name_kind}"
        what = "names several producers" if matches else "names no producer"
        detail = f"the client certificate {what}: it has {shown}"
        return Failure(Reason.UNAUTHENTICATED, detail)

    # ---- without authentication

    def _remembered(self, name: bytes | None, remote: str | None) -> Identity | Failure:
        if name is not None and len(name) > _NAME_MAX * _UTF8_MAX:
            return self._named(name, remote)  # it is refused, so it is not remembered
        identity = self._named_before.get((name, remote))
        if identity is None:
            identity = self._named_before.put((name, remote), self._named(name, remote))
        return identity

    def _named(self, name: bytes | None, remote: str | None) -> Identity | Failure:
        roles = {"produce", "view"}
        if is_loopback(remote):  # without authentication only this machine may change anything
            roles.add("operate")
        if name is None:
            return Identity(ANONYMOUS, frozenset(roles))
        try:
            shown = name.decode()
        except UnicodeDecodeError:
            return Failure(Reason.MALFORMED, "Headgate-Producer is not UTF-8")
        if not (0 < len(shown) <= _NAME_MAX and shown.isprintable()):
            detail = f"Headgate-Producer has 1 to {_NAME_MAX} printable characters"
            return Failure(Reason.MALFORMED, detail)
        return Identity(shown, frozenset(roles))


def _wanted(auth: AuthSettings) -> str:
    """Return the error text for requests without credentials."""
    by_token = not {"token", "jwt"}.isdisjoint(auth.mode)
    ways = ["`Authorization: Bearer <token>`"] if by_token else []
    if "mtls" in auth.mode:
        ways.append("a client certificate")
    return f"this gateway wants {' or '.join(ways)}"


def _token(given: bytes) -> bytes | None:
    """Return the token of an Authorization header: Bearer, or Basic's password (RFC 7617)."""
    scheme, _, rest = given.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() != b"basic":
        return None
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return None
