"""Names of Redis servers, and the server of each key.

A key has a slot, and a slot belongs to the server whose hash with it is highest (rendezvous
hashing). Therefore the order of the list does not matter. An n-th server takes 1/n of the slots,
and no other slot moves. An event costs one hash, whatever the number of servers.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from urllib.parse import parse_qs, urlsplit

_PORTS = {"redis": 6379, "rediss": 6379, "redis+sentinel": 26379, "rediss+sentinel": 26379}


def server_name(url: str) -> str:
    """Return the name of a server, which must be the same on all gateways.

    The name is HOST:PORT/DB, HOST:PORT,HOST:PORT/SERVICE/DB, or the path of a socket. It does not
    contain TLS, users, passwords and options, so that these may change on one gateway after the
    other. The order of sentinels does not matter.

    Raises:
        ValueError: The URL is malformed.
    """
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    if parts.scheme == "unix":
        return f"{parts.path}?{options.get('db', ['0'])[0]}"
    hosts = parts.netloc.rpartition("@")[2].split(",")
    addresses = ",".join(sorted(_address(host, _PORTS.get(parts.scheme, 6379)) for host in hosts))
    path = parts.path.strip("/")
    if "+sentinel" in parts.scheme:
        service, _, database = path.partition("/")
        return f"{addresses}/{service}/{database or 0}"
    return f"{addresses}/{options.get('db', [path or '0'])[0]}"


def _address(text: str, port: int) -> str:
    parts = urlsplit(f"//{text}")
    host = (parts.hostname or "localhost").lower()
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or port}"


_SLOTS: Final = 4096
MAX_SERVERS: Final = 32


class Slots:
    """Mapping from keys to servers; `servers` are their names, all different."""

    __slots__ = ("_owners",)

    def __init__(self, servers: Sequence[str]) -> None:
        if not 0 < len(set(servers)) == len(servers) <= MAX_SERVERS:
            raise ValueError(f"not 1 to {MAX_SERVERS} different servers: {servers}")
        seeds = [blake2b(server.encode(), digest_size=32).digest() for server in servers]
        self._owners = bytes(_owner(slot.to_bytes(2, "big"), seeds) for slot in range(_SLOTS))

    def owner(self, key: bytes) -> int:
        """Return the index of the server that has the key."""
        digest = blake2b(key, digest_size=2).digest()
        return self._owners[(digest[0] << 8 | digest[1]) % _SLOTS]


def _owner(slot: bytes, seeds: Sequence[bytes]) -> int:
    scores = [blake2b(slot, digest_size=8, key=seed).digest() for seed in seeds]
    return max(range(len(seeds)), key=lambda number: (scores[number], seeds[number]))
