"""The suppression state in a real Redis: one connection, one script.

redis-py's `Connection` connects, authenticates, does TLS and parses; the command itself is packed
here, because redis-py's command layer costs 25 us an event at 64 events a call (measured).
One connection matters: a connection never outlives a Redis process, so R, read once for each
connection, is the R of every call on it (8-suppression-model).

Not for Redis Cluster: a call's entries lie in many slots. `connect` refuses one.
"""

import asyncio
import math
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from headgate.backends.patience import Patience
from headgate.backends.suppression_store import StoreError
from headgate.core.suppression import Call, Reply, read_reply

_CONNECT_TIMEOUT_S = 1.0  # a connection task waits for it, no request does
_SCRIPT = files("headgate.backends").joinpath("lua/suppression.lua")


class RedisStore:
    """`SuppressionStore` on Redis. url: redis://, rediss:// or unix://.  timeout_ms: of a call."""

    def __init__(self, url: str, timeout_ms: float, script: str | None = None) -> None:
        self._url = url
        self._patience = Patience(timeout_ms / 1000)
        self._script = _SCRIPT.read_text() if script is None else script
        self._connection: AbstractConnection | None = None
        self._sha = b""
        self._identity = b""

    async def connect(self) -> None:
        """Open a new connection, load the script, read run_id and master_replid."""
        await self.close()
        connection = self._connection = _connection(self._url)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                self._identity = await _identity(connection)
                self._sha = await _ask(connection, "SCRIPT", "LOAD", self._script)
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error

    async def run(self, call: Call) -> Reply:
        """One EVALSHA. After an error or a timeout the connection is closed."""
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise StoreError("redis_error", "not connected to Redis")
        try:
            async with asyncio.timeout(None) as scope:
                self._patience.begins(scope)
                answer = await self._evaluate(connection, call)
            return read_reply(call, answer)
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error
        finally:
            self._patience.ends()

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _evaluate(self, connection: AbstractConnection, call: Call) -> Any:
        arguments = arguments_of(call, self._identity)
        try:
            return await _ask(connection, "EVALSHA", self._sha, *arguments)
        except NoScriptError:  # SCRIPT FLUSH; nothing ran
            await _ask(connection, "SCRIPT", "LOAD", self._script)
            return await _ask(connection, "EVALSHA", self._sha, *arguments)


def arguments_of(call: Call, identity: bytes) -> list[int | bytes]:
    """Return what follows the script's name in an EVALSHA. identity: R of the connection."""
    keys = [scope.incarnation for scope in call.scopes]
    keys += call.entries
    return [len(keys), *keys, call.header(identity), *call.operations]


def _connection(url: str) -> AbstractConnection:
    options: dict[str, Any] = dict(parse_url(url))
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    # Timeouts are set around calls, retries are the suppressor's business, and RESP 2 needs no
    # handshake that an older server or a proxy might not know.
    options |= {"socket_timeout": None, "protocol": 2, "retry": Retry(NoBackoff(), 0)}
    return kind(socket_connect_timeout=_CONNECT_TIMEOUT_S, driver_info=None, **options)


async def _ask(connection: AbstractConnection, *command: Any) -> Any:
    await connection.send_packed_command([hiredis.pack_command(command)], check_health=False)
    answer = await connection.read_response(timeout=math.inf)
    if isinstance(answer, RedisError):
        raise answer
    return answer


async def _identity(connection: AbstractConnection) -> bytes:
    """Return R: another process has another run_id, another history another replication id."""
    text = (await _ask(connection, "INFO")).decode()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if lines.get("redis_mode") == "cluster":
        raise StoreError("redis_error", "redis.url names a Redis Cluster: it cannot be used")
    identity = f"{lines['run_id']} {lines['master_replid']}".encode()
    return blake2b(identity, digest_size=16).digest()


def _translate(error: Exception) -> StoreError:
    timeout = isinstance(error, TimeoutError | RedisTimeoutError)
    detail = str(error) or type(error).__name__
    return StoreError("redis_timeout" if timeout else "redis_error", f"Redis: {detail}")
