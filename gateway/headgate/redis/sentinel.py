"""Redis behind Sentinel: each new connection asks the sentinels for the master.

    redis+sentinel://[user:password@]host[:26379][,host[:26379]...]/SERVICE[/DB][?options]
    rediss+sentinel://...       TLS to the servers and to the sentinels

User, password and options (such as `ssl_ca_certs`) are those of the Redis servers. The options
`sentinel_username` and `sentinel_password` are the sentinels' own login.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
_PORT: Final = 26_379
_TIMEOUT_S: Final = 0.5  # of each sentinel, before the next one is tried

# redis-py begins with HELLO, CLIENT SETINFO and CLIENT MAINT_NOTIFICATIONS. The documented ACL rule
# does not allow them, and Redis would log a refusal for each connection.
NO_INTRODUCTION: Final[Mapping[str, Any]] = {"protocol": 2, "driver_info": None}


class Sentinels(NamedTuple):
    """The parts of a URL with sentinels.

    Attributes:
        hosts: Hosts and ports of the sentinels.
        service: Name of the master.
        login: `user:password@` as in the URL, or empty.
    """

    hosts: list[tuple[str, int]]
    service: str
    scheme: str
    login: str
    database: str
    options: dict[str, str]

    def master(self, host: str, port: int) -> str:
        """Return the URL of a Redis server."""
        address = f"[{host}]" if ":" in host else host
        query = f"?{urlencode(self.options)}" if self.options else ""
        return f"{self.scheme}://{self.login}{address}:{port}/{self.database}{query}"


def is_behind_sentinels(url: str) -> bool:
    """Return whether a URL names sentinels."""
    return urlsplit(url).scheme in SCHEMES


def sentinels_of(url: str) -> tuple[Sentinels, dict[str, str]]:
    """Return the parts of the URL, and the login at the sentinels. Raises ValueError."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    if not hosts or not service:
        raise ValueError("redis+sentinel://HOST[,HOST]/SERVICE has hosts and a service")
    options = dict(parse_qsl(parts.query))
    own = {
        name: options.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in options
    }
    addresses = [_address(host) for host in hosts.split(",")]
    scheme = parts.scheme.removesuffix("+sentinel")
    database = database or "0"
    return Sentinels(addresses, unquote(service), scheme, login + at, database, options), own


async def resolved(url: str) -> str:
    """Return the URL of the current master; any other URL unchanged.

    Raises:
        redis.exceptions.RedisError: No sentinel knows a master.
        OSError: The connection to a sentinel failed.
        ValueError: The URL is malformed.
    """
    if not is_behind_sentinels(url):
        return url
    parts, sentinels = sentinels_of(url)[0], _sentinels(url)
    try:
        host, port = await sentinels.discover_master(parts.service)
    finally:
        for sentinel in sentinels.sentinels:
            await sentinel.aclose()
    return parts.master(str(host), int(port))


def _sentinels(url: str) -> Any:
    from redis.asyncio.sentinel import Sentinel  # most installations have no sentinels

    parts, login = sentinels_of(url)
    options: dict[str, Any] = {
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
        **NO_INTRODUCTION,
        **login,
    }
    if parts.scheme == "rediss":
        options |= {"ssl": True, "ssl_ca_certs": parts.options.get("ssl_ca_certs")}
    return Sentinel(parts.hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call]


def pool_of(url: str, options: dict[str, Any]) -> Any:
    """Return a pool of connections to the server in the URL, or to the current master.

    Args:
        url: As `redis.url` has it.
        options: Options of each connection.
    """
    options = {**NO_INTRODUCTION, **options}
    from redis.asyncio.connection import ConnectionPool, parse_url

    if not is_behind_sentinels(url):
        return ConnectionPool.from_url(url, **options)
    from redis.asyncio.sentinel import SentinelConnectionPool

    parts, _ = sentinels_of(url)
    given = dict(parse_url(parts.master("sentinel", _PORT)))
    for name in ("host", "port"):
        given.pop(name)
    given["ssl"] = given.pop("connection_class", None) is not None
    pool: Any = SentinelConnectionPool  # redis-py has no types for its constructor
    return pool(parts.service, _sentinels(url), **given, **options)


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is no host of a sentinel")
    return parts.hostname, parts.port or _PORT
