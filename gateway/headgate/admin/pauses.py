"""Pages of pause intent: paused groups, topics and partitions, and the reasons.

Consumers of `headgate.consumer` with a pause store follow changes within a second. Other consumers
do not read pause intent.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from headgate.admin.requests import Access
from headgate.admin.views import iso
from headgate.http.pages import json_page
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.model.text import segment_name
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


class PausePages:
    """Pages of pause intent.

    Args:
        store: The store; None if no Redis is configured.
        access: Authentication, request bodies and the change log.
    """

    def __init__(self, store: RedisPauses | None, access: Access) -> None:
        self._store = store
        self._access = access

    async def show(self, request: web.Request) -> web.Response:
        """Respond with all reasons for which a group, or a part of it, is paused."""
        return json_page(request, await self.shown(segment_name(request.match_info["group"])))

    async def pause(self, request: web.Request) -> web.Response:
        """Pause a group, or a topic or partition of it, for a reason."""
        return await self._changed(request, is_pause=True)

    async def resume(self, request: web.Request) -> web.Response:
        """Remove one reason; the group reads again once all are removed."""
        return await self._changed(request, is_pause=False)

    async def _changed(self, request: web.Request, *, is_pause: bool) -> web.Response:
        self._access.identify(request, "operate")
        intent = read_intent(await self._access.json(request))
        await self.change(request, intent, is_pause=is_pause)
        return await self.show(request)

    async def change(self, request: web.Request, intent: Intent, *, is_pause: bool) -> None:
        """Add or remove a reason, and record that in the change log.

        Args:
            request: Request with the group.
            intent: Scope and reason.
            is_pause: Whether to add the reason; otherwise it is removed.
        """
        caller, group = (
            self._access.identify(request, "operate"),
            segment_name(request.match_info["group"]),
        )
        if is_pause:
            await self._add(group, intent, caller.name)
        else:
            await self._remove(group, intent)
        fields = {"group": group, "scope": str(intent.scope), "reason": intent.reason}
        self._access.changed(request, caller, "pause" if is_pause else "resume", fields)

    async def shown(self, group: str) -> dict[str, Any]:
        """Return the page of one group."""
        with self._usable(group) as store:
            kept = await store.kept(group)
        rows = [
            {
                "scope": _shown_scope(pause.intent.scope),
                "reason": pause.intent.reason,
                "by": pause.by,
                "at": iso(pause.at_ms / 1000),
            }
            for pause in sorted(kept, key=lambda pause: (pause.at_ms, str(pause.intent)))
        ]
        return {"group": group, "intents": rows}

    async def _add(self, group: str, intent: Intent, by: str) -> None:
        """Add a reason; an existing one is not changed."""
        with self._usable(group) as store:
            kept = list(await store.kept(group))
            if any(existing.intent == intent for existing in kept):
                return
            if len(kept) >= _MAX_INTENTS:
                detail = f"group {brief(group)} has {len(kept)} reasons already: resume some first"
                raise Refused(malformed(detail))
            await store.pause(group, intent, by, int(time.time() * 1000))

    async def _remove(self, group: str, intent: Intent) -> None:
        with self._usable(group) as store:
            is_removed = await store.resume(group, intent)
        if not is_removed:
            detail = f"group {brief(group)} is not paused for {intent.scope} with this reason"
            raise Refused(Failure(Reason.NOT_FOUND, detail))

    @contextmanager
    def _usable(self, group: str) -> Iterator[RedisPauses]:
        """Give the store for one group, and refuse the request if Redis does not answer."""
        if not 0 < len(group) <= _MAX_GROUP or not group.isprintable():
            raise Refused(malformed("a group's name has 1 to 255 printable characters"))
        if self._store is None:
            raise Refused(
                Failure(Reason.REDIS_UNAVAILABLE, "pauses are kept in Redis: set redis.url")
            )
        try:
            yield self._store
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
