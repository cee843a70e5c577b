"""What a Redis server is called, whatever its password."""

from urllib.parse import parse_qs, urlsplit

_PORTS = {"redis": 6379, "rediss": 6379, "redis+sentinel": 26379, "rediss+sentinel": 26379}


def server_name(url: str) -> str:
    """HOST:PORT/DB, HOST:PORT,HOST:PORT/SERVICE/DB, or the path of a socket. All gateways must
    call a server by the same name.

    TLS, users, passwords and options are no part of it, so that they may change one gateway after
    the other. Sentinels are named in any order. Raises ValueError.
    """
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    if parts.scheme == "unix":
        return f"{parts.path}?{options.get('db', ['0'])[0]}"
    hosts = parts.netloc.rpartition("@")[2].split(",")
    places = ",".join(sorted(_place(host, _PORTS.get(parts.scheme, 6379)) for host in hosts))
    path = parts.path.strip("/")
    if "+sentinel" in parts.scheme:
        service, _, database = path.partition("/")
        return f"{places}/{service}/{database or 0}"
    return f"{places}/{options.get('db', [path or '0'])[0]}"


def _place(text: str, port: int) -> str:
    parts = urlsplit(f"//{text}")
    host = (parts.hostname or "localhost").lower()
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or port}"
