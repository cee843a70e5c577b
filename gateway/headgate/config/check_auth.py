"""What the options of authentication must fit: each other, and TLS."""

from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from headgate.config.auth_settings import AuthSettings
from headgate.config.errors import Problem, shown
from headgate.config.settings import Settings

INSTALL_JWT = 'Install what checks signed tokens: pip install "headgate[jwt]".'


def auth_contradictions(settings: Settings) -> Iterator[Problem]:
    """Everything wrong with how callers are known."""
    auth = settings.auth
    if not auth.mode or len(set(auth.mode)) != len(auth.mode):
        yield Problem("auth.mode", shown(auth.mode), "one or several different ways")
    elif "none" in auth.mode and not auth.is_open:
        yield Problem("auth.mode", shown(auth.mode), '"none" alone, or ways without it')
    if "mtls" in auth.mode and settings.http.tls_client_ca_file is None:
        expected = "the authorities of clients' certificates, as auth.mode has mtls"
        yield Problem("http.tls_client_ca_file", "missing", expected)
    if "jwt" in auth.mode:
        yield from _signed_tokens(auth)
    if auth.jwt_jwks_ca_file is not None and not Path(auth.jwt_jwks_ca_file).is_file():
        found = f"{shown(auth.jwt_jwks_ca_file)} is not a file"
        yield Problem("auth.jwt_jwks_ca_file", found, "the path of a PEM file")


def _signed_tokens(auth: AuthSettings) -> Iterator[Problem]:
    if find_spec("joserfc") is None:
        yield Problem("auth.mode", "jwt without the package joserfc", "it", INSTALL_JWT)
    needed = {
        "auth.jwt_issuer": auth.jwt_issuer,
        "auth.jwt_audience": auth.jwt_audience,
        "auth.jwt_jwks_url": auth.jwt_jwks_url,
        "auth.jwt_algorithms": auth.jwt_algorithms,
        "auth.jwt_producer_claim": auth.jwt_producer_claim,
    }
    for option, value in needed.items():
        if not value:
            yield Problem(option, "missing", "a value, as auth.mode has jwt")
    if auth.jwt_jwks_url and not is_trusted_url(auth.jwt_jwks_url, is_file_fine=True):
        expected = "https://..., file:///..., or http:// on this machine"
        fix = "Whoever can change the keys on their way can make tokens."
        yield Problem("auth.jwt_jwks_url", shown(auth.jwt_jwks_url), expected, fix)
    if auth.jwt_keys_max_age_ms < auth.jwt_refresh_ms:
        found = f"{auth.jwt_keys_max_age_ms} is less than jwt_refresh_ms"
        expected = f"at least {auth.jwt_refresh_ms}"
        yield Problem("auth.jwt_keys_max_age_ms", found, expected)


def is_trusted_url(url: str, *, is_file_fine: bool = False) -> bool:
    """Whether nobody on the way can read or change what is exchanged."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "file":
        return is_file_fine and parts.netloc == "" and parts.path.startswith("/")
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and _is_this_machine(host)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
