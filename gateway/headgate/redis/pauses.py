"""Pause intents in Redis, which operators write and consumers read.

There is one hash for each group, with a field for each scope and reason. The value is the operator
and the time. So two operators never overwrite each other, and a resume removes exactly one reason.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol

from headgate.core.pauses import Intent, Kept, PauseScope
from headgate.redis.sentinel import pool_of

KEY_PREFIX = "hg:pauses:"


class PauseStore(Protocol):
    """A store of pause intents. It raises OSError if it cannot be read."""

    async def intents(self, group: str) -> Iterable[Intent]:
        """Return every reason why this group, or a part of it, is paused."""
        ...


class _NothingStored:
    async def intents(self, group: str) -> Iterable[Intent]:
        return ()


NOTHING_STORED: PauseStore = _NothingStored()


class RedisPauses:
    """Pause intents in Redis.

    The first call imports redis, which takes 6 MiB: not all consumers keep intents in Redis, and
    most installations never use the store in a gateway's parent process.

    Args:
        url: URL of Redis.
        timeout_s: Timeout of a call, in seconds.
        prefix: Prefix of the keys, for installations that share one Redis.
    """

    def __init__(self, url: str, timeout_s: float = 1.0, prefix: str = KEY_PREFIX) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._prefix = prefix

    @cached_property
    def _redis(self) -> Any:
        from redis.asyncio import Redis

        options = {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._timeout_s}
        return Redis.from_pool(pool_of(self._url, options))  # closing it closes the pool, too

    async def intents(self, group: str) -> Iterable[Intent]:
        """Return every reason why this group, or a part of it, is paused. Raises OSError."""
        fields = await self._call(self._redis.hkeys(self._prefix + group))
        return [field_intent(field.decode()) for field in fields]

    async def kept(self, group: str) -> Iterable[Kept]:
        """Return the intents with operator and time. Raises OSError."""
        values = await self._call(self._redis.hgetall(self._prefix + group))
        said = (
            (field_intent(field.decode()), json.loads(value)) for field, value in values.items()
        )
        return [Kept(intent, str(note["by"]), int(note["at_ms"])) for intent, note in said]

    async def pause(self, group: str, intent: Intent, by: str, at_ms: int) -> None:
        """Add a reason.

        Args:
            group: Name of the group.
            intent: Scope and reason.
            by: Operator.
            at_ms: Time of the pause, in milliseconds since 1970.

        Raises:
            OSError: Redis does not answer.
        """
        said = json.dumps({"by": by, "at_ms": at_ms})
        await self._call(self._redis.hset(self._prefix + group, intent_field(intent), said))

    async def resume(self, group: str, intent: Intent) -> bool:
        """Remove one reason; return False if there was none. Raises OSError."""
        return bool(await self._call(self._redis.hdel(self._prefix + group, intent_field(intent))))

    async def close(self) -> None:
        if "_redis" in self.__dict__:
            await self._redis.aclose()

    @staticmethod
    async def _call(call: Any) -> Any:
        from redis.exceptions import RedisError

        try:
            return await call
        except RedisError as error:
            raise OSError(f"Redis does not answer: {error!r}") from error


def intent_field(intent: Intent) -> str:
    """Return the field of the hash. It is JSON, because topics may contain any separator."""
    topic, partition = intent.scope
    return json.dumps([topic, partition, intent.reason])


def field_intent(field: str) -> Intent:
    """Return the intent of a field (inverse of `intent_field`). Raises ValueError."""
    topic, partition, reason = json.loads(field)
    return Intent(PauseScope(topic, partition), reason)
