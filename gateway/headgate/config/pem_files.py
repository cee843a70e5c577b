"""PEM files that options name: certificates, keys and certificate authorities."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from headgate.config.problems import ConfigError, Problem
from headgate.config.settings import Settings, dotted
from headgate.errors_in_words import FileTrouble, PemFile, authorities_trouble, key_pair_trouble

_EXPECTED = "a PEM file that can be used"


class KeyPair(NamedTuple):
    """A certificate and its key; a path is None if its option is not set."""

    certificate_option: str
    certificate: str | None
    key_option: str
    key: str | None


def authorities(settings: Settings) -> Iterator[tuple[str, str | None]]:
    """Yield the options of certificate authorities with their files."""
    yield "http.tls_client_ca_file", settings.http.tls_client_ca_file
    yield "redis.ssl_cafile", settings.redis.ssl_cafile
    yield "auth.jwt_jwks_ca_file", settings.auth.jwt_jwks_ca_file
    for option, given in _redis_urls(settings):
        yield f"{option} (ssl_ca_certs)", given.get("ssl_ca_certs")
    for name, cluster in settings.clusters.items():
        yield dotted(("clusters", name, "ssl_cafile")), cluster.ssl_cafile
        yield dotted(("clusters", name, "sasl_oauth_ca_file")), cluster.sasl_oauth_ca_file


def key_pairs(settings: Settings) -> Iterator[KeyPair]:
    """Yield the options of certificates and their keys."""
    http = settings.http
    yield KeyPair("http.tls_cert_file", http.tls_cert_file, "http.tls_key_file", http.tls_key_file)
    for option, given in _redis_urls(settings):
        if "ssl_password" not in given:
            certificate = given.get("ssl_certfile")
            key = given.get("ssl_keyfile", certificate)
            yield KeyPair(f"{option} (ssl_certfile)", certificate, f"{option} (ssl_keyfile)", key)
    for name, cluster in settings.clusters.items():
        options = (dotted(("clusters", name, each)) for each in ("ssl_certfile", "ssl_keyfile"))
        yield KeyPair(next(options), cluster.ssl_certfile, next(options), cluster.ssl_keyfile)


def _redis_urls(settings: Settings) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the options inside each URL with TLS."""
    redis = settings.redis
    for url in redis.listed:
        if url.startswith("rediss"):
            yield "redis.urls" if redis.urls else "redis.url", dict(parse_qsl(urlsplit(url).query))


def pem_troubles(settings: Settings) -> Iterator[FileTrouble]:
    """Yield the files that cannot be used, with the option, the reason and the fix."""
    for option, path in authorities(settings):
        if path is not None and (trouble := authorities_trouble(PemFile(option, path))):
            yield trouble
    for pair in key_pairs(settings):
        if pair.certificate is None or pair.key is None:
            continue
        certificate = PemFile(pair.certificate_option, pair.certificate)
        if trouble := key_pair_trouble(certificate, PemFile(pair.key_option, pair.key)):
            yield trouble


def refuse_bad_pem_files(file: Path, settings: Settings, origins: Mapping[str, str]) -> None:
    """Refuse a configuration whose PEM files for Kafka, Redis or issuers cannot be used.

    Workers skip this: a file that is being replaced must not block the restart of a worker. The
    files of the HTTP ports are not tried here: `supervisor.active_config` reads them, and a bad one
    does not keep the rest of a changed configuration from becoming active.

    Args:
        file: The configuration file, for the error.
        settings: The configuration.
        origins: The origin of each value.

    Raises:
        ConfigError: It names each option, its file, the reason and the fix.
    """
    problems = [
        Problem(option, fault, _EXPECTED, fix, origins[option.partition(" ")[0]])
        for option, fault, fix in pem_troubles(settings)
        if not option.startswith("http.")
    ]
    if problems:
        raise ConfigError(str(file), problems)
