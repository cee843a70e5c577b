"""What must be true of `redis`: first of all that each URL is one that can be connected to."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import chain
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urlsplit

from headgate.config.backend_settings import RedisSettings
from headgate.config.errors import Problem, shown
from headgate.config.files import missing_files
from headgate.core.suppression.servers import server_name
from headgate.core.suppression.slots import MAX_SERVERS

_SCHEMES: Final = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_FORMS: Final = {
    "unix": "unix:///PATH[?db=DB]",
    "redis+sentinel": "redis+sentinel://HOST[:26379][,HOST]/SERVICE[/DB]",
    "rediss+sentinel": "rediss+sentinel://HOST[:26379][,HOST]/SERVICE[/DB]",
}
_ENCODE: Final = (
    'In user and password write "/" as %2F, "?" as %3F, "#" as %23, "%" as %25, a blank as %20.'
)
# What redis-py's connections take from a URL, and that has a meaning here. Another option is an
# exception at every attempt to connect (tests/unit/config/test_redis_urls.py compares).
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
_WHOLE: Final = ("db", "health_check_interval", "protocol", "socket_read_size", "ssl_min_version")


def redis_contradictions(redis: RedisSettings) -> Iterator[Problem]:
    """Everything that is wrong with the section as a whole."""
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
    """At most one problem, which never shows the URL: it may have a password."""
    wrong = next(_wrong(url), None)
    if wrong is None:
        return
    what, fix = wrong
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        expected = "a redis://, rediss://, unix:// or redis+sentinel://HOST,HOST/SERVICE URL"
    else:
        expected = _FORMS.get(scheme, f"{scheme}://[USER:PASSWORD@]HOST[:6379][/DB]")
    yield Problem(option, f"{which}: {what}", expected, fix)


def _wrong(url: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a URL, the most telling first, and what to do."""
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
        yield "what is percent-encoded in it is not UTF-8", "Encode the bytes of UTF-8."
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
    yield from _wrong_path(parts) if scheme == "unix" else _wrong_place(parts)
    yield from _wrong_options(parts)


def _wrong_path(parts: SplitResult) -> Iterator[tuple[str, str]]:
    if parts.netloc.rpartition("@")[2] or not parts.path.strip("/"):
        yield "it has no path of a socket", "Write three slashes: unix:///run/redis.sock"


def _wrong_place(parts: SplitResult) -> Iterator[tuple[str, str]]:
    hosts = parts.netloc.rpartition("@")[2]
    is_sentinel = parts.scheme.endswith("+sentinel")
    if "," in hosts and not is_sentinel:
        yield "it has several hosts", "Name each server by a URL of its own in redis.urls."
    for host in hosts.split(",") if is_sentinel else [hosts]:
        yield from _wrong_host(host)
    path = parts.path.strip("/")
    if is_sentinel:
        service, _, path = path.partition("/")
        if not service:
            yield "it has no service", "Name the service that the sentinels watch: /SERVICE"
    if path and not _is_number(path):
        yield "its database is not a number", f"End it with /0, or with nothing. {_ENCODE}"


def _wrong_host(text: str) -> Iterator[tuple[str, str]]:
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


def _wrong_options(parts: SplitResult) -> Iterator[tuple[str, str]]:
    has_tls, is_sentinel = parts.scheme.startswith("rediss"), parts.scheme.endswith("+sentinel")
    allowed = COMMON
    allowed |= KEEPALIVE if parts.scheme != "unix" else frozenset()
    allowed |= TLS if has_tls else frozenset()
    allowed |= SENTINEL if is_sentinel else frozenset()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            known = f"Leave it out; known are {', '.join(sorted(allowed))}."
            fix = "It needs rediss://." if name in TLS else f"{known} {_ENCODE}"
            # What is no word may be the rest of a password.
            which = f' "{name}"' if re.fullmatch("[a-z_]{1,40}", name) else ""
            yield f"it has an option{which} that means nothing here", fix
        elif name in _WHOLE and not _is_number(value):
            yield f'its option "{name}" is not a number', "Write digits only."
        elif name == "ssl_cert_reqs" and value not in ("none", "optional", "required"):
            yield f'its option "{name}" is unknown', 'Write "required", "optional" or "none".'


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None
