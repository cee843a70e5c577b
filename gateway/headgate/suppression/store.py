# Not compiled: it runs for each call to Redis, not for each event.
"""The suppression state in Redis: one connection, two scripts.

There must be one connection: it never outlives a Redis process. So R, which is read once per
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
    """A `SuppressionStore` on Redis.

    Args:
        url: redis://, rediss:// or unix://.
        timeout_ms: Timeout of a call, in milliseconds.
        script: Text of the script, by default that of `suppression.lua`.
    """

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
        host = getattr(self._redis.connection, "host", "")  # a Unix socket has no host
        self.server = f"{host}:{lines.get('tcp_port', '')} run {lines['run_id'][:12]}"
        self._evicted = int(lines.get("evicted_keys", 0))
        self.eviction = eviction_of(lines, self._evicted)

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Run the script by EVALSHA; an error or a timeout closes the connection."""
        return read_reply(call, await self._redis.evaluate(arguments_of(call, self._identity)))

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """Run the layout script, with errors as in `run`."""
        arguments: list[int | bytes] = [1, call.name, call.packed(self._identity)]
        now, noisy, disputed = await self._redis.evaluate(arguments, 1)
        return LayoutReply(now, noisy, disputed == 1)

    async def look(self) -> None:
        """Read INFO, and update `eviction`."""
        lines = await self._redis.info()
        self.eviction = eviction_of(lines, self._evicted)
        self._evicted = int(lines.get("evicted_keys", 0))

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        await self._redis.close()


def arguments_of(call: SuppressionCall, identity: bytes) -> list[int | bytes]:
    """Return the arguments of an EVALSHA after the script's name.

    Args:
        call: The call.
        identity: R of the connection.
    """
    keys = [scope.incarnation for scope in call.scopes]
    keys += [scope.mark for scope in call.scopes]
    keys += call.entries
    operations = b"".join(call.operations)
    return [len(keys), *keys, call.header(identity), call.sizes(), operations]


def eviction_of(lines: Mapping[str, str], evicted_before: int) -> str:
    """Return why Redis may evict keys, in words; an empty text if it does not.

    Args:
        lines: Fields of INFO.
        evicted_before: Number of evicted keys at the last check.
    """
    policy = lines.get("maxmemory_policy", "noeviction")
    evicted = int(lines.get("evicted_keys", 0))
    if policy == "noeviction" and evicted <= evicted_before:
        return ""
    done = f", {evicted} were" if evicted else ""
    return f"keys may be evicted (maxmemory-policy {policy}){done}: set it to noeviction"


def _identity(lines: Mapping[str, str]) -> bytes:
    """Return R, which differs by process (run_id) and by history (replication id)."""
    identity = f"{lines['run_id']} {lines['master_replid']}".encode()
    return blake2b(identity, digest_size=16).digest()


# ---- the suppressor's interface to Redis


class SuppressionStore(Protocol):
    """One connection to the state of suppression; the memory store passes the same tests.

    It runs one call at a time. After a StoreError of `run` the fate of the call is unknown, the
    connection is closed, and `connect` must come before the next `run`.

    Attributes:
        server: The Redis process that was connected last, for people; empty before the first one.
        eviction: Why Redis may evict entries, from the last `connect` or `look`; empty if it does
            not.
    """

    server: str
    eviction: str

    async def connect(self) -> None:
        """Connect, and read the identity of the Redis process. Raises StoreError."""
        ...

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Run the script once. Raises StoreError."""
        ...

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """Announce the layout of this process. Raises StoreError, as `run`."""
        ...

    async def look(self) -> None:
        """Check whether Redis may evict entries. Raises StoreError, as `run`."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
