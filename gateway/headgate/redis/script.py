"""One connection to Redis and the scripts that run on it.

redis-py's `Connection` connects, authenticates, does TLS and parses. This module packs commands
itself: redis-py's command layer costs 25 us per event with 64 events per call (measured).

Redis Cluster is not supported, because a call's entries are in many slots. `connect` refuses it.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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

from headgate.errors_in_words import cause
from headgate.native.chosen import packed
from headgate.redis.sentinel import NO_INTRODUCTION, resolved


class StoreError(Exception):
    """An error of a store, or a missing reply.

    Args:
        reason: Label for metrics; there are few of them.
        detail: Description for the log.
        in_words: Description for clients, by default the detail.
    """

    def __init__(self, reason: str, detail: str, in_words: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.in_words = detail if in_words is None else in_words


class ScriptStore(Protocol):
    """A connection that `client.ScriptClient` keeps open."""

    async def connect(self) -> None:
        """Open a new connection. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...


LATE_S = 0.01  # a timer that is later was blocked by other work on the event loop


class SharedTimeout:
    """A timeout of all calls with one timer: each call ends with TimeoutError after `seconds`.

    A timer and a context manager per call would cost 10 us, as much as the call (measured).
    """

    __slots__ = ("_due_s", "_has_waited", "_runs_s", "_scope", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._runs_s = 0.0
        self._has_waited = False

    def begins(self, scope: asyncio.Timeout) -> None:
        """Begin a call in this scope, which was entered without a timeout."""
        loop = asyncio.get_running_loop()
        self._scope = scope
        self._due_s = loop.time() + self._seconds
        self._has_waited = False
        if self._timer is None:
            self._run_at(loop, self._due_s)

    def ends(self) -> None:
        """End the call. The timer stays for the next call, and ends by itself."""
        self._scope = None

    def _run_at(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._runs_s = due_s
        self._timer = loop.call_at(due_s, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._scope is None:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if now_s < self._due_s:
            self._run_at(loop, self._due_s)
        elif now_s - self._runs_s > LATE_S and not self._has_waited:
            # The event loop was blocked, and it runs timers before it reads: give it one turn to
            # read replies that have arrived. Only one: a loop that is always late would never end.
            self._has_waited = True
            self._run_at(loop, now_s + LATE_S)
        else:
            self._scope.reschedule(0)


# Texts for clients: the exceptions' own texts contain addresses.
_WORDS = (
    ((AuthenticationError, NoPermissionError), "the credentials are refused"),
    ((TimeoutError, RedisTimeoutError), "nothing came in time"),
    ((BusyLoadingError,), "it is loading its data"),
    ((OutOfMemoryError,), "it is full"),
    ((ReadOnlyError,), "it is read-only"),
    ((ResponseError,), "it answers with an error"),
)
_CONNECT_TIMEOUT_S = 1.0  # a background task waits for it, no request


class RedisScript:
    """A connection and its scripts.

    Args:
        url: redis://, rediss://, unix://, or see `sentinel`.
        timeout_ms: Timeout of a call, in milliseconds.
        script: Text of the script with number 0.
        *others: Texts of further scripts, which are called by their numbers from 1.
    """

    def __init__(self, url: str, timeout_ms: float, script: str, *others: str) -> None:
        self._url = url
        self._timeout = SharedTimeout(timeout_ms / 1000)
        self._scripts = [text.encode() for text in (script, *others)]
        self._shas: list[bytes] = []
        self.connection: AbstractConnection | None = None

    async def connect(self) -> Mapping[str, str]:
        """Open a new connection and load the scripts.

        Returns:
            The fields of INFO.

        Raises:
            StoreError: Redis cannot be used.
        """
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
        if lines.get("role") == "slave":  # the server was the master, or is to be
            await self.close()
            raise StoreError("redis_error", "Redis: a replica, which takes no writes")
        return lines

    async def evaluate(self, arguments: Sequence[int | bytes], script: int = 0) -> Any:
        """Run a script by EVALSHA; an error or a timeout closes the connection.

        Args:
            arguments: Arguments after the script's name.
            script: Number of the script.

        Raises:
            StoreError: The call failed, or its result is unknown.
        """
        connection = self.connection
        if connection is None or not connection.is_connected:
            raise StoreError("redis_error", "not connected to Redis")
        try:
            async with asyncio.timeout(None) as scope:
                self._timeout.begins(scope)
                return await self._run(connection, arguments, script)
        except (TimeoutError, RedisError, OSError) as error:
            await self.close()
            raise _translate(error) from error
        finally:
            self._timeout.ends()

    async def info(self) -> Mapping[str, str]:
        """Return the fields of INFO, with errors as in `evaluate`."""
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
        except NoScriptError:  # after SCRIPT FLUSH; no script ran
            await _ask(connection, b"SCRIPT", [b"LOAD", self._scripts[script]])
            return await _ask(connection, b"EVALSHA", [self._shas[script], *arguments])


def script_text(room: str, name: str) -> str:
    """Return the text of a script.

    Args:
        room: Package that has the script, below `headgate`.
        name: Name of the file, without `.lua`.
    """
    return (Path(__file__).parents[1] / room / f"{name}.lua").read_text()


def _connection(url: str) -> AbstractConnection:
    options: dict[str, Any] = dict(parse_url(url))
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    # Callers set timeouts and retry.
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
    for kinds, words in _WORDS:
        if isinstance(error, kinds):
            return words
    is_away = isinstance(error, RedisConnectionError | OSError)
    return (cause(error) or "no connection") if is_away else "no usable answer"


def _translate(error: Exception) -> StoreError:
    timeout = isinstance(error, TimeoutError | RedisTimeoutError)
    detail = f"Redis: {str(error) or type(error).__name__}"
    label = "redis_timeout" if timeout else "redis_error"
    return StoreError(label, detail, _in_words(error))
