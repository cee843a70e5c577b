"""Request identity on several Redis servers: all of a topic is known by one of them.

By topic and not by key, since a topic's requests and events go on in the order in which they came,
whatever their keys and ids are.
"""

from collections.abc import Callable, Mapping

from headgate.backends.redis.session import all_ended
from headgate.core.idempotency.protocol import ClaimStep
from headgate.core.redis_servers import Slots
from headgate.idempotency.identity_client import IdentityClient

_STEM_BYTES = 6  # of a token, which tell whose it is


class ShardedIdentity:
    """clients: one for each server, by its name."""

    def __init__(self, clients: Mapping[str, IdentityClient]) -> None:
        self._clients = dict(clients)
        self._list = list(clients.values())
        self._slots = Slots(list(clients))
        self._by_stem = {client.stem: client for client in self._list}

    async def start(self) -> None:
        """See `IdentityClient`."""
        await all_ended(client.start() for client in self._list)

    async def close(self) -> None:
        """See `IdentityClient`."""
        await all_ended(client.close() for client in self._list)

    def of(self, topic_id: bytes) -> IdentityClient:
        """Who knows the keys and ids of a topic."""
        return self._list[self._slots.owner(topic_id)]

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """See `IdentityClient`."""
        self._by_stem[token[:_STEM_BYTES]].end(token, operation)

    def when_reported(self, token: bytes, call: Callable[[], None]) -> None:
        """See `IdentityClient`."""
        self._by_stem[token[:_STEM_BYTES]].when_reported(token, call)

    def dependencies(self) -> list[tuple[str, bool, bool, str]]:
        """See `IdentityClient`."""
        found = []
        for name, client in self._clients.items():
            ok, detail = client.health()
            found.append((f"redis identity {name}", ok, False, detail))
        return found
