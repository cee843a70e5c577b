"""The public keys of an issuer, from its JWK Set (RFC 7517)."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

_RSA_MIN_BITS = 2048  # NIST SP 800-131A, and RFC 7518 section 3.3
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class BadKeysError(Exception):
    """What was fetched is no JWK Set, or has no key that a token could be signed with."""


class Keys:
    """Those that signatures can be checked with.

    algorithms: that tokens may be signed with. A key goes with some of them, by its kind: so no
    token can have a public key taken for the secret of another algorithm.
    """

    def __init__(self, found: Iterable[tuple[Mapping[str, Any], Key]], algorithms: Iterable[str]):
        self._allowed = frozenset(algorithms)
        self._by_id: dict[str | None, list[tuple[frozenset[str], Key]]] = {}
        self.thumbprints: set[str] = set()
        for document, key in found:
            usable = self._allowed & _algorithms(document, key)
            if usable:
                self._by_id.setdefault(document.get("kid"), []).append((usable, key))
                self.thumbprints.add(key.thumbprint())
        self._all = [one for some in self._by_id.values() for one in some]

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """The key that a token names; without a name, the only one that can be meant."""
        some = self._all if key_id is None else self._by_id.get(key_id, [])
        fitting = [key for usable, key in some if algorithm in usable]
        return fitting[0] if len(fitting) == 1 else None


def read_keys(body: bytes, algorithms: Iterable[str]) -> Keys:
    """Keys that cannot be read, or are for something else, are left out. Raises BadKeysError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadKeysError(f"no JSON: {error}") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise BadKeysError('no JWK Set: it has no list "keys"')
    found = [(one, key) for one in listed if (key := _imported(one)) is not None]
    keys = Keys(found, algorithms)
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
    """What a key can be for; where it says so itself, that alone."""
    fitting: tuple[str, ...] = ()
    if isinstance(key, RSAKey):
        fitting = _OF_RSA
    elif isinstance(key, ECKey):
        fitting = _CURVES.get(key.curve_name, ())
    elif isinstance(key, OKPKey) and key.curve_name == "Ed25519":
        fitting = ("EdDSA",)
    named = document.get("alg")
    return frozenset(one for one in fitting if named in (None, one))
