"""Who is asking: producers by name, or by bearer token; tokens are known by their hash alone."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.config.settings import AuthSettings, ProducerSettings
from headgate.core.outcome import Failure, Reason
from headgate.core.topics.globs import Globs
from headgate.edge.attempt_limit import AttemptLimit
from headgate.edge.origins import Origins, is_loopback

ANONYMOUS = "anonymous"
_NAME_MAX = 100
_UTF8_MAX = 4  # bytes of a character
_REMEMBERED = 4096  # names come from clients: the memory for them must be bounded


class Identity(NamedTuple):
    """A caller. topics: globs of what it may post to; None = all."""

    name: str
    roles: frozenset[str]
    topics: Globs | None = None

    def may_post(self, topic: str) -> bool:
        if self.topics is None:
            return True
        return "produce" in self.roles and self.topics.match(topic)


OWN_PAGES = Origins()


class Authenticator:
    """Answers who a request comes from. origins: for which web pages a browser may ask.

    attempts: counts wrong credentials. A reload starts anew, which no client can bring about.
    """

    def __init__(
        self,
        auth: AuthSettings,
        producers: Mapping[str, ProducerSettings],
        origins: Origins = OWN_PAGES,
        attempts: AttemptLimit | None = None,
    ) -> None:
        self._origins = origins
        self._attempts = attempts or AttemptLimit(auth.failed_attempts_per_minute)
        self._open = auth.mode == "none"
        self._named_before: dict[tuple[bytes | None, str | None], Identity | Failure] = {}
        self._by_hash: dict[bytes, Identity] = {}
        for name, producer in producers.items():
            identity = Identity(name, frozenset(producer.roles), Globs(producer.topics))
            for digest in producer.token_sha256:
                self._by_hash[bytes.fromhex(digest)] = identity

    def identities(self) -> Iterable[Identity]:
        """All whom tokens name."""
        return self._by_hash.values()

    def identify(self, headers: Mapping[bytes, bytes], remote: str | None) -> Identity | Failure:
        """headers: names in lower case.  remote: the peer's address, None where unknown."""
        if self._open:
            refused = self._origins.refusal(headers, remote)
            return refused or self._remembered(headers.get(b"headgate-producer"), remote)
        credentials = headers.get(b"authorization", b"").strip()
        token = _token(credentials)
        if token is None:
            detail = "this gateway wants `Authorization: Bearer <token>`"
            return Failure(Reason.UNAUTHENTICATED, detail)
        unseen = self._attempts.refusal(remote, credentials)
        if unseen is not None:
            return unseen
        # One look-up, however many tokens there are. What its time tells is about the SHA-256 of
        # what was sent: nobody can choose a token by its hash, so it brings nobody nearer to one.
        identity = self._by_hash.get(hashlib.sha256(token).digest())
        if identity is None:
            self._attempts.wrong(remote)
            return Failure(Reason.UNAUTHENTICATED, "the token is not known here")
        self._attempts.right(remote, credentials)
        if credentials[:5].lower() == b"basic":  # which browsers remember, and add by themselves
            return self._origins.of_elsewhere(headers) or identity
        return identity

    def _remembered(self, name: bytes | None, remote: str | None) -> Identity | Failure:
        if name is not None and len(name) > _NAME_MAX * _UTF8_MAX:
            return self._named(name, remote)  # no name, and nothing to keep
        known = self._named_before.get((name, remote))
        if known is None:
            known = self._named(name, remote)
            if len(self._named_before) >= _REMEMBERED:
                self._named_before.clear()
            self._named_before[name, remote] = known
        return known

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


def _token(given: bytes) -> bytes | None:
    """The token of an Authorization header: of Bearer, or the password of Basic (RFC 7617)."""
    scheme, _, rest = given.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() != b"basic":
        return None
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return None
