"""Checks signed tokens: the signature, who it is from and for, and how long it is in force."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError
from joserfc.jwk import Key
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from headgate.config.settings import AuthSettings
from headgate.core.outcome import Failure, Reason
from headgate.edge.auth import Claims

_RETRY_AFTER_S = 1
_LATEST_S = 2**53  # an `exp` beyond it says "never" as well
_HEADER_MAX_BYTES = 8192  # a certificate chain may be in it; `http.header_max_bytes` bounds all
# What reading text of a client may raise; nesting that is too deep is a RecursionError.
_UNREADABLE = (JoseError, ValueError, TypeError, KeyError, RecursionError)


class TrustedKeys(Protocol):
    """See `fetched.FetchedKeys`."""

    @property
    def generation(self) -> int: ...

    @property
    def trusted_until(self) -> float: ...

    def find(self, key_id: str | None, algorithm: str) -> Key | None: ...

    def ask_again(self, key_id: str = "") -> bool:
        """Whether keys that are not known may come within a second."""
        ...


class CheckedTokens:
    """Implements `auth.SignedTokens`. clock: seconds since 1970."""

    def __init__(self, auth: AuthSettings, keys: TrustedKeys, clock: Callable[[], float]) -> None:
        self._auth = auth
        self._keys = keys
        self._clock = clock
        self._registry = _Registry(algorithms=auth.jwt_algorithms, strict_check_header=False)
        self._claims = JWTClaimsRegistry(
            now=lambda: int(clock()),
            leeway=auth.jwt_leeway_s,
            iss={"essential": True, "value": auth.jwt_issuer or ""},
            aud={"essential": True, "values": list(auth.jwt_audience)},
            exp={"essential": True},
        )
        self._values = {
            "produce": frozenset(auth.jwt_produce_values),
            "view": frozenset(auth.jwt_view_values),
            "operate": frozenset(auth.jwt_operate_values),
        }

    @property
    def generation(self) -> int:
        return self._keys.generation

    @property
    def trusted_until(self) -> float:
        return self._keys.trusted_until

    def check(self, token: bytes) -> Claims | Failure:
        """What a token says, once its signature is known to be the issuer's."""
        if token.count(b".") != 2:
            return _refused("the token is not known here")
        try:
            header = jws.extract_compact(token, registry=self._registry).headers()
        except _UNREADABLE:
            return _refused("the token is neither known here nor a signed one")
        key = self._key(header)
        if isinstance(key, Failure):
            return key
        try:
            found = jwt.decode(token, key, registry=self._registry).claims
            self._claims.validate(found)
        except ClaimError as error:
            return _refused(_in_words(error))
        except _UNREADABLE:
            return _refused("the token's signature is not good")
        return self._said(found)

    def _key(self, header: Mapping[str, Any]) -> Key | Failure:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._auth.jwt_algorithms:
            return _refused("the token is signed in a way that is not allowed here")
        if not isinstance(key_id, str | None):
            return _refused("the token's kid is no text")
        if self._clock() >= self._keys.trusted_until:
            self._keys.ask_again()
            return _unavailable("the issuer's keys could not be fetched")
        key = self._keys.find(key_id, algorithm)
        if key is not None:
            return key
        if key_id is None:
            return _refused("the token does not say which of the issuer's keys it is signed with")
        if self._keys.ask_again(key_id):
            return _unavailable("the issuer's keys are being fetched again")
        return _refused("the token is signed with a key that the issuer does not have")

    def _said(self, claims: Mapping[str, Any]) -> Claims | Failure:
        auth = self._auth
        name = _claim(claims, auth.jwt_producer_claim)
        if not isinstance(name, str) or not (0 < len(name) <= 100 and name.isprintable()):
            return _refused(f"the token's claim {auth.jwt_producer_claim} names no producer")
        topics, roles = None, None
        if auth.jwt_topics_claim is not None:
            topics = _texts(_claim(claims, auth.jwt_topics_claim))
        if auth.jwt_roles_claim is not None:
            given = set(_texts(_claim(claims, auth.jwt_roles_claim)))
            roles = frozenset(role for role, values in self._values.items() if values & given)
        until = min(claims["exp"], _LATEST_S) + auth.jwt_leeway_s
        return Claims(name, topics, roles, float(until))


class _Registry(JWSRegistry):
    """As joserfc's, but EdDSA is no surprise: the name that replaces it (RFC 9864) is in no
    issuer's tokens yet."""

    max_header_length = _HEADER_MAX_BYTES

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name] if name in (self.allowed or ()) else super().get_alg(name)


def _claim(claims: Mapping[str, Any], path: str) -> object:
    """Of that very name, or else inside of objects. None: it is not there."""
    if path in claims:
        return claims[path]
    found: object = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(found: object) -> tuple[str, ...]:
    if isinstance(found, str):
        return tuple(found.split())
    if isinstance(found, list):
        return tuple(one for one in found if isinstance(one, str))
    return ()


def _in_words(error: ClaimError) -> str:
    if isinstance(error, ExpiredTokenError):
        return "the token has expired"
    what = "lacks" if isinstance(error, MissingClaimError) else "is not for here or now by"
    return f"the token {what} {error.claim}"


def _refused(detail: str) -> Failure:
    return Failure(Reason.UNAUTHENTICATED, detail)


def _unavailable(detail: str) -> Failure:
    return Failure(Reason.ISSUER_UNAVAILABLE, detail, None, _RETRY_AFTER_S)
