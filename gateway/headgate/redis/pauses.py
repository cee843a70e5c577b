"""Pause intents: partitions that must not be read, with reasons, apart from Kafka's flags.

A Kafka consumer forgets its pauses at every rebalance
(docs/design/measured.md#pauses-end-with-a-rebalance), so the intent is stored here and applied
repeatedly. Each pause has a reason; a partition is read again when all its reasons are removed.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from headgate.errors_in_words import connection_error
from headgate.redis.sentinel import pool_of


class PauseScope(NamedTuple):
    """All of a group (no topic), a topic (no partition), or one partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "all"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def covers(self, topic: str, partition: int) -> bool:
        """Return whether the scope covers a partition."""
        return self.topic in (None, topic) and self.partition in (None, partition)


class Intent(NamedTuple):
    """A pause of a scope for one reason."""

    scope: PauseScope
    reason: str


class Kept(NamedTuple):
    """A stored intent.

    Attributes:
        intent: The intent.
        by: The name of the operator.
        at_ms: The time of the pause, in milliseconds since 1970.
    """

    intent: Intent
    by: str
    at_ms: int


ALL = PauseScope()


class Pauses:
    """All intents of one group that this process knows.

    Local intents are the process's own. Stored intents come from a store that operators write to;
    each poll replaces all of them.
    """

    __slots__ = ("_local", "_stored")

    def __init__(self) -> None:
        self._local: set[Intent] = set()
        self._stored: frozenset[Intent] = frozenset()

    def pause(self, scope: PauseScope, reason: str) -> bool:
        """Add a reason; return False if it was present already. Raises ValueError."""
        intent = Intent(checked(scope), checked_reason(reason))
        is_new = intent not in self._local
        self._local.add(intent)
        return is_new

    def resume(self, scope: PauseScope, reason: str) -> bool:
        """Remove one reason, not the others of its scope; return False if it was absent."""
        intent = Intent(scope, reason)
        was_there = intent in self._local
        self._local.discard(intent)
        return was_there

    def store_says(self, intents: Iterable[Intent]) -> bool:
        """Replace the stored intents; return whether they changed."""
        now = frozenset(intents)
        is_new = now != self._stored
        self._stored = now
        return is_new

    def forbids(self, topic: str, partition: int) -> bool:
        """Return whether events of this partition must not be handed out."""
        return any(
            intent.scope.covers(topic, partition)
            for intents in (self._local, self._stored)
            for intent in intents
        )

    def intents(self) -> list[Intent]:
        """Return all intents, in the order of scope and reason."""
        return sorted(
            self._local | self._stored, key=lambda intent: (str(intent.scope), intent.reason)
        )


def checked(scope: PauseScope) -> PauseScope:
    """Validate and return a scope. Raises ValueError."""
    if scope.topic is None and scope.partition is not None:
        raise ValueError("a partition without its topic cannot be paused: name the topic, too")
    if scope.topic == "" or (scope.partition is not None and scope.partition < 0):
        raise ValueError(f"no such partition: {scope.topic!r}, {scope.partition!r}")
    return scope


def checked_reason(reason: str) -> str:
    """Validate and return a reason, which `resume` must name later. Raises ValueError."""
    if not reason or len(reason) > 200 or not reason.isprintable():
        raise ValueError("a reason is 1 to 200 printable characters: it is what resuming names")
    return reason


# ---- pause intents in Redis, which operators write and consumers read
#
# There is one hash for each group, with a field for each scope and reason. The value is the
# operator and the time. So two operators never overwrite each other, and a resume removes exactly
# one reason.


KEY_PREFIX = "hg:pauses:"
_AT_ONCE = 500  # groups


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
        return (await self.kept_of((group,)))[0]

    async def kept_of(self, groups: Sequence[str]) -> list[list[Kept]]:
        """Return the intents of each of these groups, in their order. Raises OSError."""
        fields: list[dict[bytes, bytes]] = []
        for first in range(0, len(groups), _AT_ONCE):
            pipeline = self._redis.pipeline(transaction=False)
            for group in groups[first : first + _AT_ONCE]:
                pipeline.hgetall(self._prefix + group)
            fields += await self._call(pipeline.execute())
        return [[_kept(field, value) for field, value in each.items()] for each in fields]

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
            raise OSError(f"Redis does not answer: {connection_error(error)}") from error


def _kept(field: bytes, value: bytes) -> Kept:
    note = json.loads(value)
    return Kept(field_intent(field.decode()), str(note["by"]), int(note["at_ms"]))


def intent_field(intent: Intent) -> str:
    """Return the field of the hash. It is JSON, because topics may contain any separator."""
    topic, partition = intent.scope
    return json.dumps([topic, partition, intent.reason])


def field_intent(field: str) -> Intent:
    """Return the intent of a field (inverse of `intent_field`). Raises ValueError."""
    topic, partition, reason = json.loads(field)
    return Intent(PauseScope(topic, partition), reason)
