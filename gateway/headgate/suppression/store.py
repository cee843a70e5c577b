"""The suppression state in a real Redis: one connection, two scripts.

One connection matters: a connection never outlives a Redis process, so R, read once for each
connection, is the R of every call on it (docs/design/suppression-protocol.md).
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Protocol

from headgate.redis.script import RedisScript, script_text
from headgate.suppression.rules import (
    LayoutCall,
    LayoutReply,
    SuppressionCall,
    SuppressionReply,
    read_reply,
)


class RedisStore:
    """`SuppressionStore` on Redis. url: redis://, rediss:// or unix://.  timeout_ms: of a call."""

    def __init__(self, url: str, timeout_ms: float, script: str | None = None) -> None:
        text = script or script_text("suppression", "suppression")
        self._redis = RedisScript(url, timeout_ms, text, script_text("suppression", "layout"))
        self._identity = b""
        self.server = self.eviction = ""
        self._evicted = 0

    async def connect(self) -> None:
        """Open a new connection, load the script, read run_id and master_replid."""
        lines = await self._redis.connect()
        self._identity = _identity(lines)
        host = getattr(self._redis.connection, "host", "")  # a socket in the file system has none
        self.server = f"{host}:{lines.get('tcp_port', '')} run {lines['run_id'][:12]}"
        self._evicted = int(lines.get("evicted_keys", 0))
        self.eviction = eviction_of(lines, self._evicted)

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """One EVALSHA. After an error or a timeout the connection is closed."""
        return read_reply(call, await self._redis.evaluate(arguments_of(call, self._identity)))

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """Run the layout script. Raises as `run`."""
        arguments: list[int | bytes] = [1, call.name, call.packed(self._identity)]
        now, noisy, disputed = await self._redis.evaluate(arguments, 1)
        return LayoutReply(now, noisy, disputed == 1)

    async def look(self) -> None:
        """One INFO."""
        lines = await self._redis.info()
        self.eviction = eviction_of(lines, self._evicted)
        self._evicted = int(lines.get("evicted_keys", 0))

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        await self._redis.close()


def arguments_of(call: SuppressionCall, identity: bytes) -> list[int | bytes]:
    """Return what follows the script's name in an EVALSHA. identity: R of the connection."""
    keys = [scope.incarnation for scope in call.scopes]
    keys += [scope.mark for scope in call.scopes]
    keys += call.entries
    operations = b"".join(call.operations)
    return [len(keys), *keys, call.header(identity), call.sizes(), operations]


def eviction_of(lines: Mapping[str, str], evicted_before: int) -> str:
    """Say why keys may vanish from a Redis, by its INFO; the empty text if they stay.

    Args:
        evicted_before: How many keys had been evicted at the look before.
    """
    policy = lines.get("maxmemory_policy", "noeviction")
    evicted = int(lines.get("evicted_keys", 0))
    if policy == "noeviction" and evicted <= evicted_before:
        return ""
    done = f", {evicted} were" if evicted else ""
    return f"keys may be evicted (maxmemory-policy {policy}){done}: set it to noeviction"


def _identity(lines: Mapping[str, str]) -> bytes:
    """Return R: another process has another run_id, another history another replication id."""
    identity = f"{lines['run_id']} {lines['master_replid']}".encode()
    return blake2b(identity, digest_size=16).digest()


# What the suppressor asks of Redis.


class SuppressionStore(Protocol):
    """One connection to the state of suppression; the memory store passes the same tests.

    One call at a time. After a StoreError of `run` nothing is known of that call, the connection
    is closed, and `connect` comes before the next `run`.

    server: which Redis process was connected last, for people; empty before the first time.
    eviction: why entries may vanish, as `connect` or `look` saw it last; empty if they stay.
    """

    server: str
    eviction: str

    async def connect(self) -> None:
        """Connect, and read which Redis process this is. Raises StoreError."""
        ...

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Run the script once. Raises StoreError."""
        ...

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """Announce our layout. Raises StoreError, as `run` does."""
        ...

    async def look(self) -> None:
        """Look whether entries may vanish. Raises StoreError, as `run` does."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
