"""Signed tokens (JWT, RFC 7519) of one issuer, and its public keys (JWK Set, RFC 7517)."""

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
import orjson
from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from headgate.config.settings import AuthSettings
from headgate.errors_in_words import PemFile, authorities_trouble
from headgate.http.auth import Claims
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Failure, Reason
from headgate.model.text import masked, without_secrets
from headgate.model.times import Outage

log = logging.getLogger("headgate.http")

_RSA_MIN_BITS = 2048  # NIST SP 800-131A, and RFC 7518 section 3.3
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class BadKeysError(Exception):
    """An error for a fetched document that is no JWK Set, or has no usable key."""


class Keys:
    """Public keys for checking signatures.

    Each key is valid for the algorithms of its kind only. So no token can make the gateway use a
    public key as the secret of another algorithm.

    Args:
        pairs: Documents and keys of the JWK Set.
        algorithms: Algorithms that tokens may be signed with.
    """

    def __init__(self, pairs: Iterable[tuple[Mapping[str, Any], Key]], algorithms: Iterable[str]):
        self._allowed = frozenset(algorithms)
        self._by_id: dict[str | None, list[tuple[frozenset[str], Key]]] = {}
        self.thumbprints: set[str] = set()
        for document, key in pairs:
            usable = self._allowed & _algorithms(document, key)
            if usable:
                self._by_id.setdefault(document.get("kid"), []).append((usable, key))
                self.thumbprints.add(key.thumbprint())
        self._usable = [usable_key for some in self._by_id.values() for usable_key in some]

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key for a token, or None.

        Args:
            key_id: Key id in the token; without one, a single usable key is returned.
            algorithm: Algorithm of the signature.
        """
        some = self._usable if key_id is None else self._by_id.get(key_id, [])
        fitting = [key for usable, key in some if algorithm in usable]
        return fitting[0] if len(fitting) == 1 else None


def read_keys(body: bytes, algorithms: Iterable[str]) -> Keys:
    """Read a JWK Set. Unreadable keys and keys for other purposes are left out.

    Raises:
        BadKeysError: The document is no JWK Set, or has no usable key.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadKeysError(f"no JSON: {error}") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise BadKeysError('no JWK Set: it has no list "keys"')
    imported = [(entry, key) for entry in listed if (key := _imported(entry)) is not None]
    keys = Keys(imported, algorithms)
    if not keys.thumbprints:
        raise BadKeysError(f"no key for {', '.join(algorithms)} in it")
    return keys


def _imported(document: Any) -> Key | None:
    if not isinstance(document, dict) or document.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    if not isinstance(document.get("kid", ""), str) or document.get("use", "sig") != "sig":
        return None
    if document["kty"] == "RSA" and _bits(document.get("n")) < _RSA_MIN_BITS:
        return None
    try:
        return import_key(document)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _bits(modulus: object) -> int:
    if not isinstance(modulus, str):
        return 0
    try:
        raw = base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4))
    except (binascii.Error, ValueError):
        return 0
    return int.from_bytes(raw).bit_length()


def _algorithms(document: Mapping[str, Any], key: Key) -> frozenset[str]:
    """Return the algorithms of a key; only its `alg`, if it has one."""
    fitting: tuple[str, ...] = ()
    if isinstance(key, RSAKey):
        fitting = _OF_RSA
    elif isinstance(key, ECKey):
        fitting = _CURVES.get(key.curve_name, ())
    elif isinstance(key, OKPKey) and key.curve_name == "Ed25519":
        fitting = ("EdDSA",)
    named = document.get("alg")
    return frozenset(algorithm for algorithm in fitting if named in (None, algorithm))


# ---- keys: fetched in a task, and kept while the issuer does not respond


FETCHED, FAILED = "fetched", "failed"  # the values of the metric's label `result`
_MAX_BYTES = 1_048_576
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_NAMES_REMEMBERED = 1000  # clients choose them freely
_FIRST_TRIES_S = 2.0  # between two attempts, as long as there are no keys


class FetchedKeys:
    """Keys of the issuer, which `run` fetches periodically.

    Args:
        auth: Settings of authentication.
        report: Callback with the result of each fetch: FETCHED or FAILED.
        clock: Wall clock, in seconds since 1970.

    Attributes:
        generation: Number that grows when a key is withdrawn.
        first: Set once there are keys.
    """

    def __init__(
        self, auth: AuthSettings, report: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        assert auth.jwt_jwks_url is not None
        self._auth = auth
        self._url: str = auth.jwt_jwks_url
        self._shown = masked(self._url)
        self._report = report
        self._clock = clock
        self._keys: Keys | None = None
        self._outage = Outage(clock)
        self._wake = asyncio.Event()
        self.first = asyncio.Event()
        # Unknown key ids in tokens: new since the last fetch, and not found by earlier fetches.
        self._wanted: set[str] = set()
        self._missing = BoundedCache[str, bool](_NAMES_REMEMBERED)
        self._is_fetching = False
        self._begun = float("-inf")  # when the last fetch began, by the event loop's clock
        self.generation = 0
        self.trusted_until = float("-inf")

    async def run(self) -> None:
        """Fetch keys until cancelled."""
        while True:
            await self.fetch()
            pause_s = self._auth.jwt_refresh_ms / 1000
            if self._keys is None:
                pause_s = min(pause_s, _FIRST_TRIES_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fetch(self) -> None:
        """Fetch the keys once. If that fails, the old keys stay valid until they are too old."""
        self._wake.clear()
        wanted, self._wanted = self._wanted, set()
        self._begun, self._is_fetching = asyncio.get_running_loop().time(), True
        try:
            self._accept(read_keys(await self._body(), self._auth.jwt_algorithms), wanted)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, BadKeysError) as error:
            self._report(FAILED)
            self._outage.begins()
            left_s = max(0.0, self.trusted_until - self._clock())
            fields = {"url": self._shown, "trusted_for_s": round(left_s)}
            why = without_secrets(repr(error))
            log.warning("keys of the issuer cannot be fetched: %s", why, extra=fields)
        finally:
            self._is_fetching = False

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        return None if self._keys is None else self._keys.find(key_id, algorithm)

    def ask_again(self, key_id: str = "") -> bool:
        """Schedule a fetch because a token names an unknown key; at most once in a while.

        Returns:
            Whether the key may be known soon. False for a key that an earlier fetch did not find.
        """
        is_under_way = self._is_fetching or self._wake.is_set()
        waited_s = asyncio.get_running_loop().time() - self._begun
        if not is_under_way and waited_s < self._auth.jwt_unknown_key_ms / 1000:
            return False
        if not is_under_way:
            self._wake.set()
        if self._missing.get(key_id):
            return False
        if len(self._wanted) < _NAMES_REMEMBERED:
            self._wanted.add(key_id)
        return True

    def _accept(self, keys: Keys, wanted: set[str]) -> None:
        if (away_s := self._outage.ends()) is not None:
            fields = {"url": self._shown, "away_s": away_s}
            log.info("keys of the issuer fetched again", extra=fields)
        before = set() if self._keys is None else self._keys.thumbprints
        if before - keys.thumbprints:
            self.generation += 1
        if before != keys.thumbprints:
            log.info("issuer has %d keys", len(keys.thumbprints), extra={"url": self._shown})
        self._keys = keys
        self.trusted_until = self._clock() + self._auth.jwt_keys_max_age_ms / 1000
        for key_id in wanted:
            self._missing.put(key_id, True)
        self.first.set()
        self._report(FETCHED)

    async def _body(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            return await asyncio.to_thread(_read, Path(unquote(parts.path)))
        verified: ssl.SSLContext | bool = True
        if (ca_file := self._auth.jwt_jwks_ca_file) is not None:
            try:
                verified = ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                file = PemFile("auth.jwt_jwks_ca_file", ca_file)
                raise BadKeysError(str(authorities_trouble(file) or error)) from error
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session,
            # After a redirect, the keys could be those of another server.
            session.get(self._url, allow_redirects=False, ssl=verified) as answer,
        ):
            if answer.status != 200:
                raise BadKeysError(f"answered {answer.status}")
            return await _bounded(answer.content)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    body = b""
    async for piece in content.iter_any():
        body += piece
        if len(body) > _MAX_BYTES:
            raise BadKeysError(f"longer than {_MAX_BYTES} bytes")
    return body


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise BadKeysError(f"longer than {_MAX_BYTES} bytes")
    return body


# ---- tokens: signature, issuer, audience and expiry


_RETRY_AFTER_S = 1
_LATEST_S = 2**53  # a later `exp` also means "never"
_HEADER_MAX_BYTES = 8192  # room for a certificate chain; `http.header_max_bytes` limits it too
# Errors of parsing a client's text; too deep nesting raises RecursionError.
_UNREADABLE = (JoseError, ValueError, TypeError, KeyError, RecursionError)


class CheckedTokens:
    """Checks of signed tokens, for `auth.Authenticator`.

    Args:
        auth: Settings of authentication.
        keys: Keys of the issuer.
        clock: Wall clock, in seconds since 1970.
    """

    def __init__(self, auth: AuthSettings, keys: FetchedKeys, clock: Callable[[], float]) -> None:
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
        """Return the number that changes when a key is withdrawn: earlier checks are then void."""
        return self._keys.generation

    @property
    def trusted_until(self) -> float:
        """Return the time at which the keys are too old, in seconds since 1970."""
        return self._keys.trusted_until

    def check(self, token: bytes) -> Claims | Failure:
        """Return the claims of a token with a valid signature of the issuer, or the failure."""
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
            claims = jwt.decode(token, key, registry=self._registry).claims
            self._claims.validate(claims)
        except ClaimError as error:
            return _refused(_in_words(error))
        except _UNREADABLE:
            return _refused("the token's signature is not good")
        return self._said(claims)

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
    """The registry of joserfc, without its warning about EdDSA.

    No issuer uses the name that replaces EdDSA (RFC 9864) in its tokens yet.
    """

    max_header_length = _HEADER_MAX_BYTES

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name] if name in (self.allowed or ()) else super().get_alg(name)


def _claim(claims: Mapping[str, Any], path: str) -> object:
    """Return a claim by its exact name, or by its path through objects; None if it is missing."""
    if path in claims:
        return claims[path]
    value: object = claims
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _texts(claim: object) -> tuple[str, ...]:
    if isinstance(claim, str):
        return tuple(claim.split())
    if isinstance(claim, list):
        return tuple(text for text in claim if isinstance(text, str))
    return ()


def _in_words(error: ClaimError) -> str:
    if isinstance(error, ExpiredTokenError):
        return "the token has expired"
    what = "lacks" if isinstance(error, MissingClaimError) else "is not for here or now by"
    return f"the token {what} {error.claim}"


def _refused(detail: str) -> Failure:
    return Failure(Reason.UNAUTHENTICATED, detail)


def _unavailable(detail: str) -> Failure:
    return Failure(Reason.ISSUER_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S)
