"""Contradictions between options, each allowed by itself: the gateway refuses to start with them.

PEM files that options name are checked here, too. Options of topics, producers, the spool and blobs
are in topic_checks.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urlsplit

from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.problems import DEFAULT, ConfigError, Problem, missing_files, shown
from headgate.config.settings import (
    AuthSettings,
    ConsoleSettings,
    MonitorSettings,
    Settings,
    TracingSettings,
    dotted,
)
from headgate.config.topic_checks import (
    blob_contradictions,
    not_a_cluster,
    producer_contradictions,
    spool_contradictions,
    topic_contradictions,
)
from headgate.errors_in_words import FileTrouble, PemFile, authorities_trouble, key_pair_trouble
from headgate.redis.servers import MAX_SERVERS, server_name

INSTALL_JWT = 'Install what checks signed tokens: pip install "headgate[jwt]".'
_NAME = r"[A-Za-z0-9][\w\-]*"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[\w.\-]+):(\d{1,5})"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*:\s*[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SCHEMES: Final = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_FORMS: Final = {
    "unix": "unix:///PATH[?db=DB]",
    "redis+sentinel": "redis+sentinel://HOST[:26379][,HOST]/SERVICE[/DB]",
    "rediss+sentinel": "rediss+sentinel://HOST[:26379][,HOST]/SERVICE[/DB]",
}
_ENCODE: Final = (
    'In user and password write "/" as %2F, "?" as %3F, "#" as %23, "%" as %25, a blank as %20.'
)
# URL options that redis-py's connections accept and that have a meaning here. Any other option
# raises at every attempt to connect (tests/unit/config/test_redis_urls.py compares).
COMMON: Final = frozenset(
    (
        *("db", "username", "password", "client_name", "health_check_interval", "lib_name"),
        *("lib_version", "protocol", "retry_on_timeout", "socket_read_size", "socket_timeout"),
    )
)
KEEPALIVE: Final = frozenset({"socket_keepalive"})
TLS: Final = frozenset(
    (
        *("ssl_keyfile", "ssl_certfile", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_data"),
        *("ssl_ca_path", "ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "ssl_password"),
        *("ssl_include_verify_flags", "ssl_exclude_verify_flags"),
    )
)
SENTINEL: Final = frozenset({"sentinel_username", "sentinel_password"})
_NUMBERS: Final = ("db", "health_check_interval", "protocol", "socket_read_size", "ssl_min_version")


def contradictions(settings: Settings, origins: Mapping[str, str]) -> list[Problem]:
    """Return everything in which these settings, each allowed by itself, do not fit together."""
    problems = [
        *_http(settings),
        *_auth(settings),
        *_clusters(settings),
        *_redis(settings.redis),
        *_console(settings.console),
        *blob_contradictions(settings.blobs),
        *topic_contradictions(settings),
        *spool_contradictions(settings),
        *producer_contradictions(settings),
        *_tracing(settings.tracing),
        *_group_owners(settings.monitor),
    ]
    return with_origins(problems, origins)


def with_origins(problems: Iterable[Problem], origins: Mapping[str, str]) -> list[Problem]:
    """Return the problems with the origins of their options."""
    written = {option: origin for option, origin in origins.items() if origin != DEFAULT}
    return [problem._replace(origin=written.get(problem.option, "")) for problem in problems]


def _auth(settings: Settings) -> Iterator[Problem]:
    """Yield everything wrong with the authentication of callers."""
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
    yield from missing_files({"auth.jwt_jwks_ca_file": auth.jwt_jwks_ca_file})


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
        text = f"{auth.jwt_keys_max_age_ms} is less than jwt_refresh_ms"
        expected = f"at least {auth.jwt_refresh_ms}"
        yield Problem("auth.jwt_keys_max_age_ms", text, expected)


def is_trusted_url(url: str, *, is_file_fine: bool = False) -> bool:
    """Return whether a URL is safe from reading and changes on the way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "file":
        return is_file_fine and parts.netloc == "" and parts.path.startswith("/")
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether a host of an option is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _clusters(settings: Settings) -> Iterator[Problem]:
    """Yield everything wrong with the clusters."""
    if not any(each.tier == "ingest" for each in settings.clusters.values()):
        expected = "at least one cluster of tier ingest"
        fix = 'Add [clusters.main] with bootstrap_servers = "host:9092".'
        yield Problem("clusters", "none takes events", expected, fix)
    for name, cluster in settings.clusters.items():
        if not re.fullmatch(_NAME, name):
            expected = "letters, digits, dashes and underscores"
            yield Problem(dotted(("clusters", name)), shown(name), expected)
        for problem in chain(_servers(cluster), _sasl(cluster), _tls(cluster)):
            yield problem._replace(option=dotted(("clusters", name, problem.option)))
        yield from _tiers(name, settings)
        yield from _deadlines(name, settings)


def _servers(cluster: ClusterSettings) -> Iterator[Problem]:
    expected = "host:port, or a list of them"
    if not cluster.bootstrap_servers:
        yield Problem("bootstrap_servers", "no server", expected)
    for server in cluster.bootstrap_servers:
        match = re.fullmatch(_SERVER, server)
        if match is None or not 0 < int(match[2]) < 65536:
            yield Problem("bootstrap_servers", shown(server), expected)


def _sasl(cluster: ClusterSettings) -> Iterator[Problem]:
    by_password = {
        "sasl_username": cluster.sasl_username,
        "sasl_password": cluster.sasl_password,
    }
    by_token = {
        "sasl_oauth_token_url": cluster.sasl_oauth_token_url,
        "sasl_oauth_client_id": cluster.sasl_oauth_client_id,
        "sasl_oauth_client_secret": cluster.sasl_oauth_client_secret,
    }
    is_token = cluster.sasl_mechanism == "OAUTHBEARER"
    needed, others = (by_token, by_password) if is_token else (by_password, by_token)
    needed = {"sasl_mechanism": cluster.sasl_mechanism, **needed}
    protocol = shown(cluster.security_protocol)
    if not cluster.security_protocol.startswith("SASL_"):
        expected = 'nothing, or security_protocol = "SASL_SSL" or "SASL_PLAINTEXT"'
        for option, value in (needed | others).items():
            if value is not None:
                yield Problem(option, f"set, but security_protocol = {protocol}", expected)
        return
    for option, value in needed.items():
        if value is None:
            yield Problem(option, "missing", f"a value, as security_protocol = {protocol}")
    for option, value in others.items():
        if value is not None and cluster.sasl_mechanism is not None:
            text = f"set, but sasl_mechanism = {shown(cluster.sasl_mechanism)}"
            yield Problem(option, text, "nothing, or another mechanism")
    if is_token:
        yield from _token_source(cluster)


def _token_source(cluster: ClusterSettings) -> Iterator[Problem]:
    url, ca_file = cluster.sasl_oauth_token_url, cluster.sasl_oauth_ca_file
    if url is not None and not is_trusted_url(url):
        expected = "https://..., or http:// on this machine: the secret goes there"
        yield Problem("sasl_oauth_token_url", shown(url), expected)
    yield from missing_files({"sasl_oauth_ca_file": ca_file})


def _tls(cluster: ClusterSettings) -> Iterator[Problem]:
    files = {
        "ssl_cafile": cluster.ssl_cafile,
        "ssl_certfile": cluster.ssl_certfile,
        "ssl_keyfile": cluster.ssl_keyfile,
    }
    if (cluster.ssl_certfile is None) != (cluster.ssl_keyfile is None):
        lacking = "ssl_certfile" if cluster.ssl_certfile is None else "ssl_keyfile"
        yield Problem(lacking, "missing", "certificate and key together, or neither")
    for option, path in files.items():
        if path is not None and not cluster.security_protocol.endswith("SSL"):
            text = f"set, but security_protocol = {shown(cluster.security_protocol)}"
            yield Problem(option, text, 'nothing, or security_protocol = "SSL" or "SASL_SSL"')
        else:
            yield from missing_files({option: path})


def _tiers(name: str, settings: Settings) -> Iterator[Problem]:
    cluster = settings.clusters[name]
    if cluster.backfill is None:
        return
    option = dotted(("clusters", name, "backfill"))
    backfill = settings.clusters.get(cluster.backfill)
    if cluster.tier == "backfill":
        text = f"{shown(cluster.backfill)} on a cluster of tier backfill"
        yield Problem(option, text, "nothing: only an ingest cluster has a backfill cluster")
    elif backfill is None or backfill.tier != "backfill":
        yield not_a_cluster(option, cluster.backfill, "backfill", settings)


def _deadlines(name: str, settings: Settings) -> Iterator[Problem]:
    cluster, request_ms = settings.clusters[name], settings.http.request_timeout_ms
    if cluster.tier == "ingest" and request_ms > cluster.delivery_timeout_ms:
        option = dotted(("clusters", name, "delivery_timeout_ms"))
        text = f"{cluster.delivery_timeout_ms} is less than http.request_timeout_ms = {request_ms}"
        fix = "A request would outwait its lane; lower http.request_timeout_ms or raise this."
        yield Problem(option, text, f"at least {request_ms}", fix)
    if cluster.lane_stall_ms > cluster.delivery_timeout_ms:
        option = dotted(("clusters", name, "lane_stall_ms"))
        text = f"{cluster.lane_stall_ms} is more than delivery_timeout_ms"
        yield Problem(option, text, f"at most {cluster.delivery_timeout_ms}")


def _redis(redis: RedisSettings) -> Iterator[Problem]:
    """Yield everything wrong with the section as a whole."""
    if redis.url is not None and redis.urls:
        expected = "redis.url for one server, or redis.urls for several, not both"
        yield Problem("redis.urls", "set beside redis.url", expected)
    problems = [
        *(() if redis.url is None else _url("redis.url", "a hidden value", redis.url)),
        *chain.from_iterable(
            _url("redis.urls", f"a hidden value, number {number} of the list", url)
            for number, url in enumerate(redis.urls, 1)
        ),
    ]
    yield from problems
    if not problems and len({server_name(url) for url in redis.urls}) < len(redis.urls):
        yield Problem("redis.urls", "one server twice", "each server once")
    if len(redis.urls) > MAX_SERVERS:
        yield Problem("redis.urls", f"{len(redis.urls)} servers", f"at most {MAX_SERVERS}")
    yield from missing_files({"redis.ssl_cafile": redis.ssl_cafile})
    has_tls = any(url.startswith("rediss") for url in redis.listed)
    if redis.ssl_cafile is not None and not has_tls:
        yield Problem("redis.ssl_cafile", shown(redis.ssl_cafile), "not set, or a rediss:// URL")
    if not re.fullmatch(r"[\w.:\-]+", redis.namespace):
        expected = "letters, digits, dots, colons, dashes and underscores"
        yield Problem("redis.namespace", shown(redis.namespace), expected)


def _url(option: str, which: str, url: str) -> Iterator[Problem]:
    """Yield at most one problem, which never shows the URL: it may have a password."""
    fault, fix = next(_url_faults(url), ("", ""))
    if not fault:
        return
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        expected = "a redis://, rediss://, unix:// or redis+sentinel://HOST,HOST/SERVICE URL"
    else:
        expected = _FORMS.get(scheme, f"{scheme}://[USER:PASSWORD@]HOST[:6379][/DB]")
    yield Problem(option, f"{which}: {fault}", expected, fix)


def _url_faults(url: str) -> Iterator[tuple[str, str]]:
    """Yield faults of a URL, the most useful first, each with its fix."""
    scheme, slashes, _ = url.partition("://")
    if scheme not in _SCHEMES or not slashes:
        yield "not a URL of Redis", "Begin it with the scheme, in small letters."
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        yield "a blank or control character is in it", _ENCODE
    if re.search(r"%(?![0-9A-Fa-f]{2})", url):
        yield 'a "%" without two hexadecimal digits is in it', _ENCODE
    try:
        decoded = unquote_to_bytes(url).decode()
    except UnicodeError:
        yield "its percent-encoding is not UTF-8", "Encode the bytes of UTF-8."
        return
    if "\0" in decoded:
        yield "a NUL character is in it", "Leave it out."
    try:
        parts = urlsplit(url)
    except ValueError:
        yield "its host cannot be read", "Write an IPv6 address in brackets: [::1]."
        return
    if parts.fragment or url.endswith("#"):
        yield 'a "#" is in it', _ENCODE
    yield from _path_faults(parts) if scheme == "unix" else _host_faults(parts)
    yield from _option_faults(parts)


def _path_faults(parts: SplitResult) -> Iterator[tuple[str, str]]:
    if parts.netloc.rpartition("@")[2] or not parts.path.strip("/"):
        yield "it has no path of a socket", "Write three slashes: unix:///run/redis.sock"


def _host_faults(parts: SplitResult) -> Iterator[tuple[str, str]]:
    hosts = parts.netloc.rpartition("@")[2]
    is_sentinel = parts.scheme.endswith("+sentinel")
    if "," in hosts and not is_sentinel:
        yield "it has several hosts", "Name each server by a URL of its own in redis.urls."
    for host in hosts.split(",") if is_sentinel else [hosts]:
        yield from _address_faults(host)
    path = parts.path.strip("/")
    if is_sentinel:
        service, _, path = path.partition("/")
        if not service:
            yield "it has no service", "Name the service that the sentinels watch: /SERVICE"
    if path and not _is_number(path):
        yield "its database is not a number", f"End it with /0, or with nothing. {_ENCODE}"


def _address_faults(text: str) -> Iterator[tuple[str, str]]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        yield "its port is not a number from 1 to 65535", _ENCODE
        return
    if not host:
        yield "it has no host", f"Name the host, for example 127.0.0.1. {_ENCODE}"
        return
    if port == 0:
        yield "its port is 0", "Leave the port out, or name the one that Redis listens on."
    try:
        ip_address(host.partition("%")[0]) if ":" in host else host.encode("idna")
    except ValueError:
        yield "its host is no name and no address", "Write a host name, 127.0.0.1 or [::1]."


def _option_faults(parts: SplitResult) -> Iterator[tuple[str, str]]:
    has_tls, is_sentinel = parts.scheme.startswith("rediss"), parts.scheme.endswith("+sentinel")
    allowed = COMMON
    allowed |= KEEPALIVE if parts.scheme != "unix" else frozenset()
    allowed |= TLS if has_tls else frozenset()
    allowed |= SENTINEL if is_sentinel else frozenset()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            fix = f"Leave it out; known are {', '.join(sorted(allowed))}."
            fix = "It needs rediss://." if name in TLS else f"{fix} {_ENCODE}"
            # text that is no word may be the rest of a password
            which = f' "{name}"' if re.fullmatch("[a-z_]{1,40}", name) else ""
            yield f"it has an option{which} that means nothing here", fix
        elif name in _NUMBERS and not _is_number(value):
            yield f'its option "{name}" is not a number', "Write digits only."
        elif name == "ssl_cert_reqs" and value not in ("none", "optional", "required"):
            yield f'its option "{name}" is unknown', 'Write "required", "optional" or "none".'


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None


def _tracing(tracing: TracingSettings) -> Iterator[Problem]:
    """Yield everything wrong with tracing."""
    if tracing.endpoint is not None and _has_credentials(tracing.endpoint):
        fix = 'Give them as a header: tracing.headers = ["authorization: Basic ..."].'
        expected = "a URL without user and password"
        yield Problem("tracing.endpoint", shown(tracing.endpoint, secret=True), expected, fix)
    elif tracing.endpoint is not None and not _is_endpoint(tracing.endpoint):
        expected = "an http:// or https:// URL without a query, such as http://collector:4318"
        # without its scheme, it may have a password that is not seen as one
        text = shown(tracing.endpoint, secret="@" in tracing.endpoint)
        yield Problem("tracing.endpoint", text, expected)
    for header in tracing.headers:
        if _HEADER.fullmatch(header) is None:
            expected = 'each as "name: value", in ASCII'
            yield Problem("tracing.headers", shown(header, secret=True), expected)
    if not tracing.service_name.strip():
        yield Problem("tracing.service_name", shown(tracing.service_name), "a name")


def _group_owners(monitor: MonitorSettings) -> Iterator[Problem]:
    """Yield the entries of monitor.group_owners without a group or an owner."""
    for entry, pair in zip(monitor.group_owners, monitor.owners, strict=True):
        if not all(pair):
            expected = 'each as "group: owner", such as "billing-*: team-billing"'
            yield Problem("monitor.group_owners", shown(entry), expected)


def _has_credentials(url: str) -> bool:
    """Find credentials also in text that is no URL: the option is shown and logged."""
    return "@" in re.split(r"[/?#]", url.partition("//")[2], maxsplit=1)[0]


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_is_fit = parts.port != 0  # raises ValueError unless it is a number up to 65535
    except ValueError:
        return False
    if re.search(r"\s", url) or not port_is_fit or parts.query or parts.fragment:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _http(settings: Settings) -> Iterator[Problem]:
    http = settings.http
    files = {"http.tls_cert_file": http.tls_cert_file, "http.tls_key_file": http.tls_key_file}
    if len([path for path in files.values() if path is None]) == 1:
        lacking = next(option for option, path in files.items() if path is None)
        yield Problem(lacking, "missing", "certificate and key together, or neither")
    yield from missing_files(files | {"http.tls_client_ca_file": http.tls_client_ca_file})
    if http.tls_client_ca_file is not None and http.tls_cert_file is None:
        yield Problem("http.tls_client_ca_file", "set without http.tls_cert_file", "both, or none")
    if not http.host or re.search(r"[\s/]", http.host):
        yield Problem("http.host", shown(http.host), "an address or a host name")
    for origin in http.cors_origins:
        if origin != "*" and not re.fullmatch(r"https?://[^/\s*]+", origin):
            expected = 'an origin as browsers send it ("https://app.example"), or "*"'
            yield Problem("http.cors_origins", shown(origin), expected)
    for host in http.hosts:
        if host != "*" and not re.fullmatch(r"[A-Za-z0-9_]([\w.\-]*\w)?", host):
            expected = 'a name without scheme and port ("events.example"), or "*"'
            yield Problem("http.hosts", shown(host), expected)


def _console(console: ConsoleSettings) -> Iterator[Problem]:
    url = console.prometheus_url
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        expected = "a URL such as http://prometheus.internal:9090"
        yield Problem("console.prometheus_url", shown(url, secret=True), expected)


# ---- PEM files that options name: certificates, keys and certificate authorities

_PEM_EXPECTED = "a PEM file that can be used"


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
        Problem(option, fault, _PEM_EXPECTED, fix, origins[option.partition(" ")[0]])
        for option, fault, fix in pem_troubles(settings)
        if not option.startswith("http.")
    ]
    if problems:
        raise ConfigError(str(file), problems)
