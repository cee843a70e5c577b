"""The suppression state in a real Redis: one connection, one script.

redis-py's `Connection` connects, authenticates, does TLS and parses; the command itself is packed
here, because redis-py's command layer costs 25 us an event at 64 events a call (measured).
One connection matters: a connection never outlives a Redis process, so R, read once for each
connection, is the R of every call on it (8-suppression-model).

Not for Redis Cluster: a call's entries lie in many slots. `connect` refuses one.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import hiredis
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from headgate.backends.suppression_store import StoreError
from headgate.core.suppression import Call, Reply, read_reply

_CONNECT_TIMEOUT_S = 1.0  # a connection task waits for it, no request does
_LATE_S = 0.01  # a timer later than this was held up by something on the loop
_SCRIPT = files("headgate.backends").joinpath("lua/suppression.lua")


class RedisStore:
    """`SuppressionStore` on Redis. url: redis://, rediss:// or unix://.  timeout_ms: of a call."""

    def __init__(self, url: str, timeout_ms: float, script: str | None = None) -> None:
        self._url = url
        self._timeout_s = timeout_ms / 1000
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
            async with _patience(self._timeout_s):
                return read_reply(call, await self._evaluate(connection, call))
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error

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


@asynccontextmanager
async def _patience(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError after that time, unless it was our own event loop that was late.

    A loop that is held up for longer finds the answer and the timer at once, and would run the
    timer first; it gets one more turn to read what is there already.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds

    def expire() -> None:
        if loop.time() - due > _LATE_S:
            scope.reschedule(loop.time() + _LATE_S)
        else:
            scope.reschedule(0)

    timer = loop.call_later(seconds, expire)
    try:
        async with asyncio.timeout(None) as scope:
            yield
    finally:
        timer.cancel()


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
