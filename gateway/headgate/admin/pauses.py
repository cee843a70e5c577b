"""Pages of pause intent: paused groups, topics and partitions, and the reasons.

Consumers of `headgate.consumer` with a pause store follow changes within a second. Other consumers
do not read pause intent.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headgate.admin.views import iso
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.redis.pauses import (
    ALL,
    Intent,
    PauseScope,
    RedisPauses,
    checked,
    checked_reason,
)

log = logging.getLogger("headgate.admin")

_MAX_INTENTS = 100  # of one group
_MAX_GROUP = 255

_T = TypeVar("_T")


class PauseEndpoints:
    """Endpoints for pause intent. `store` is None if no Redis is configured."""

    def __init__(self, store: RedisPauses | None) -> None:
        self._store = store

    async def shown(self, group: str) -> dict[str, Any]:
        """Return the page of one group."""
        store = self._usable(group)
        kept = await _from_store(lambda: store.kept(group))
        rows = [
            {
                "scope": _shown_scope(pause.intent.scope),
                "reason": pause.intent.reason,
                "by": pause.by,
                "at": iso(pause.at_ms / 1000),
            }
            for pause in sorted(kept, key=lambda one: (one.at_ms, str(one.intent)))
        ]
        return {"group": group, "intents": rows}

    async def pause(self, group: str, intent: Intent, by: str) -> None:
        """Add a reason; an existing one is not changed."""
        store = self._usable(group)
        kept = list(await _from_store(lambda: store.kept(group)))
        if any(existing.intent == intent for existing in kept):
            return
        if len(kept) >= _MAX_INTENTS:
            detail = f"group {brief(group)} has {len(kept)} reasons already: resume some first"
            raise Refused(malformed(detail))
        await _from_store(lambda: store.pause(group, intent, by, int(time.time() * 1000)))

    async def resume(self, group: str, intent: Intent) -> None:
        """Remove one reason."""
        store = self._usable(group)
        if not await _from_store(lambda: store.resume(group, intent)):
            detail = f"group {brief(group)} is not paused for {intent.scope} with this reason"
            raise Refused(Failure(Reason.NOT_FOUND, detail))

    def _usable(self, group: str) -> RedisPauses:
        if not 0 < len(group) <= _MAX_GROUP or not group.isprintable():
            raise Refused(malformed("a group's name has 1 to 255 printable characters"))
        if self._store is None:
            raise Refused(
                Failure(Reason.REDIS_UNAVAILABLE, "pauses are kept in Redis: set redis.url")
            )
        return self._store


async def _from_store(call: Callable[[], Awaitable[_T]]) -> _T:
    try:
        return await call()
    except OSError as error:
        log.warning("pauses: %s", error)
        detail = "pauses are kept in Redis, which does not answer"
        raise Refused(Failure(Reason.REDIS_UNAVAILABLE, detail)) from error


def read_intent(document: object) -> Intent:
    """Read the intent from a request body.

    Raises:
        Refused: The document is no intent.
    """
    example = '{"scope": "all", "reason": "deploy"}'
    if not isinstance(document, dict) or set(document) != {"scope", "reason"}:
        raise Refused(malformed(f"scope and reason are asked for, such as {example}"))
    if not isinstance(document["reason"], str):
        raise Refused(malformed(f"reason is a text, such as {example}"))
    try:
        return Intent(checked(_read_scope(document["scope"])), checked_reason(document["reason"]))
    except ValueError as error:
        raise Refused(malformed(str(error))) from error


def fields_of(group: str, intent: Intent) -> dict[str, Any]:
    """Return the fields of the change log."""
    return {"group": group, "scope": str(intent.scope), "reason": intent.reason}


def _read_scope(document: object) -> PauseScope:
    """Read the scope of an intent.

    Raises:
        ValueError: The document is no scope.
    """
    if document == "all":
        return ALL
    if (
        isinstance(document, dict)
        and "topic" in document
        and set(document) <= {"topic", "partition"}
    ):
        topic, partition = document["topic"], document.get("partition")
        is_number = isinstance(partition, int) and not isinstance(partition, bool)
        if isinstance(topic, str) and (is_number or "partition" not in document):
            return PauseScope(topic, partition)
    shapes = '"all", {"topic": "orders"} or {"topic": "orders", "partition": 3}'
    raise ValueError(f"scope is one of {shapes}")


def _shown_scope(scope: PauseScope) -> object:
    if scope.topic is None:
        return "all"
    if scope.partition is None:
        return {"topic": scope.topic}
    return {"topic": scope.topic, "partition": scope.partition}
