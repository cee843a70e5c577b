"""One connection to Redis and the scripts that run on it.

redis-py's `Connection` connects, authenticates, does TLS and parses; the command itself is packed
here, because redis-py's command layer costs 25 us an event at 64 events a call (measured).

Not for Redis Cluster: a call's entries lie in many slots. `connect` refuses one.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from headgate.backends.patience import Patience
from headgate.backends.redis.errors import StoreError
from headgate.backends.redis.sentinel import NO_INTRODUCTION, resolved
from headgate.native.chosen import packed

# What clients may see: the exceptions' own texts name addresses.
_WORDS = (
    ((AuthenticationError, NoPermissionError), "the credentials are refused"),
    ((TimeoutError, RedisTimeoutError), "nothing came in time"),
    ((BusyLoadingError,), "it is loading its data"),
    ((OutOfMemoryError,), "it is full"),
    ((ReadOnlyError,), "it is read-only"),
    ((RedisConnectionError, OSError), "no connection"),
    ((ResponseError,), "it answers with an error"),
)
_CONNECT_TIMEOUT_S = 1.0  # a connection task waits for it, no request does


class RedisScript:
    """A connection and its scripts. url: redis://, rediss://, unix://, or see `sentinel`.
    timeout_ms: of a call.  others: scripts that are called by their number, from 1."""

    def __init__(self, url: str, timeout_ms: float, script: str, *others: str) -> None:
        self._url = url
        self._patience = Patience(timeout_ms / 1000)
        self._scripts = [text.encode() for text in (script, *others)]
        self._shas: list[bytes] = []
        self.connection: AbstractConnection | None = None

    async def connect(self) -> Mapping[str, str]:
        """Open a new connection, load the scripts, return what INFO says. Raises StoreError."""
        await self.close()
        try:
            connection = self.connection = _connection(await resolved(self._url))
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                lines = _lines(await _ask(connection, b"INFO"))
                self._shas = [
                    await _ask(connection, b"SCRIPT", [b"LOAD", text]) for text in self._scripts
                ]
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error
        if lines.get("role") == "slave":  # it was the master, or is to be
            await self.close()
            raise StoreError("redis_error", "Redis: a replica, which takes no writes")
        return lines

    async def evaluate(self, arguments: Sequence[int | bytes], script: int = 0) -> Any:
        """One EVALSHA. After an error or a timeout the connection is closed.

        arguments: what follows the script's name.  script: its number. Raises StoreError.
        """
        connection = self.connection
        if connection is None or not connection.is_connected:
            raise StoreError("redis_error", "not connected to Redis")
        try:
            async with asyncio.timeout(None) as scope:
                self._patience.begins(scope)
                return await self._run(connection, arguments, script)
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error
        finally:
            self._patience.ends()

    async def info(self) -> Mapping[str, str]:
        """Return what INFO says now. Raises StoreError and closes the connection, as `evaluate`."""
        connection = self.connection
        if connection is None or not connection.is_connected:
            raise StoreError("redis_error", "not connected to Redis")
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                return _lines(await _ask(connection, b"INFO"))
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _run(
        self, connection: AbstractConnection, arguments: Sequence[int | bytes], script: int
    ) -> Any:
        try:
            return await _ask(connection, b"EVALSHA", [self._shas[script], *arguments])
        except NoScriptError:  # SCRIPT FLUSH; nothing ran
            await _ask(connection, b"SCRIPT", [b"LOAD", self._scripts[script]])
            return await _ask(connection, b"EVALSHA", [self._shas[script], *arguments])


def script_text(name: str) -> str:
    """The text of one of our scripts, by its file's name."""
    return files("headgate.backends.redis").joinpath("lua", name).read_text()


def _connection(url: str) -> AbstractConnection:
    options: dict[str, Any] = dict(parse_url(url))
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    # Timeouts are set around calls, and callers retry.
    options |= {"socket_timeout": None, "retry": Retry(NoBackoff(), 0), **NO_INTRODUCTION}
    return kind(socket_connect_timeout=_CONNECT_TIMEOUT_S, **options)


async def _ask(
    connection: AbstractConnection, name: bytes, arguments: Iterable[bytes | int] = ()
) -> Any:
    await connection.send_packed_command([packed(name, arguments)], check_health=False)
    answer = await connection.read_response(timeout=math.inf)
    if isinstance(answer, RedisError):
        raise answer
    return answer


def _lines(answer: bytes) -> dict[str, str]:
    text = answer.decode()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if lines.get("redis_mode") == "cluster":
        raise StoreError("redis_error", "redis.url names a Redis Cluster: it cannot be used")
    return lines


def _in_words(error: Exception) -> str:
    return next((words for kinds, words in _WORDS if isinstance(error, kinds)), "no usable answer")


def _translate(error: Exception) -> StoreError:
    timeout = isinstance(error, TimeoutError | RedisTimeoutError)
    detail = f"Redis: {str(error) or type(error).__name__}"
    label = "redis_timeout" if timeout else "redis_error"
    return StoreError(label, detail, _in_words(error))
