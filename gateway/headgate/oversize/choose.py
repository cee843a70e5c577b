"""Tries the strategies of one oversized event, in order, without holding up the event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from headgate.core.admission import OVERLOADED_RETRY_S
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.split import NotSplit, Split, split
from headgate.core.oversize.strategies import Prepared, SplitRule, StoredBlob
from headgate.core.publish import Publish
from headgate.core.record import Record
from headgate.core.refusal import Refused
from headgate.core.topics.route import Common, Route
from headgate.oversize.plans import (
    OversizePlan,
    chunk,
    claim_check,
    finished,
    may_split,
    notify,
    split_plan,
)

log = logging.getLogger("headgate.ladder.climb")

_SPLIT_HERE_BYTES = 65_536  # below, cutting costs less than the way to another process and back
_AT_A_TIME = 2  # documents compressed or cut at a time: each holds copies of its value
_LOST = Failure(
    Reason.OVERLOADED,  # it was killed, or had no time: nothing that the producer can mend
    "the process that cuts documents ended; nothing was written",
    retry_after_s=OVERLOADED_RETRY_S,
)


class BlobStore(Protocol):
    """Where claim checks' values go (`backends.blobs`)."""

    async def put(self, topic: str, value: bytes) -> StoredBlob: ...


class Helper(Protocol):
    """For work that holds the interpreter's lock (`offload.helper_process.HelperProcess`)."""

    def ask(self, work: Callable[..., Any], *args: Any) -> "Awaitable[Any]": ...


class Tools(NamedTuple):
    """compress: blocking, record -> `backends.kafka.lane.LoneBatch`.
    lone_bytes: a record that counts so many bytes is always alone in its batch.
    """

    ids: EventIds
    blobs: BlobStore | None
    helper: Helper
    compress: Callable[[Record], Prepared]
    lone_bytes: int


class ChooseStrategy:
    """Chooses the strategy of an oversized event."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._room = asyncio.Semaphore(_AT_A_TIME)
        self._strategies = {
            "compress": self._compress,
            "notify": self._notify,
            "claim-check": self._claim_check,
            "split": self._split,
            "chunk": self._chunk,
        }

    async def plan(self, publish: Publish) -> OversizePlan | None:
        """The first strategy that fits; None: no one does, or the event was given up meanwhile.

        Raises Refused where a strategy fits and fails: nothing is published then.
        """
        route = _common(publish).route
        if publish.large is not None and publish.large.stored is not None:
            return claim_check(publish, route, publish.large.stored)
        for strategy in route.strategies:
            if publish.dropped:
                return None
            plan = await self._strategies[strategy](publish, route)
            if plan is not None:
                return plan
        return None

    async def _compress(self, publish: Publish, route: Route) -> OversizePlan | None:
        planned = finished(publish, publish.record.value or b"", publish.record.headers)
        async with self._room:
            lone = await asyncio.to_thread(self._tools.compress, planned.record)
        if lone.size > min(route.state.batch_limit_bytes, route.max_value_bytes):
            return None
        size = max(planned.size, self._tools.lone_bytes)
        return OversizePlan("compress", [planned._replace(batch=lone, size=size)])

    async def _notify(self, publish: Publish, route: Route) -> OversizePlan | None:
        digest = await asyncio.to_thread(_sha256, publish.record.value or b"")
        return notify(publish, route, digest)

    async def _claim_check(self, publish: Publish, route: Route) -> OversizePlan | None:
        blobs = self._tools.blobs
        if blobs is None:
            return None
        stored = await blobs.put(publish.record.topic, publish.record.value or b"")
        return claim_check(publish, route, stored)

    async def _split(self, publish: Publish, route: Route) -> OversizePlan | None:
        rule, value, key = route.policy.split, publish.record.value or b"", publish.record.key
        if rule is None or key is None or not may_split(publish):
            return None
        if len(value) <= _SPLIT_HERE_BYTES:
            parts = try_split(value, rule, key)
        else:
            async with self._room:
                parts = await self._tools.helper.ask(try_split, value, rule, key)
        if parts is None:
            raise Refused(_LOST)
        if isinstance(parts, str):
            log.debug("event of topic %s not split: %s", publish.record.topic, parts)
            return None
        return split_plan(publish, route, parts, self._tools.ids.take(_common(publish).now_ms))

    async def _chunk(self, publish: Publish, route: Route) -> OversizePlan | None:
        set_id = self._tools.ids.take(_common(publish).now_ms)  # a new one each attempt
        return await asyncio.to_thread(chunk, publish, route, set_id)


def try_split(document: bytes, rule: SplitRule, key: bytes) -> Split | str:
    """`split` for another process: why it does not come apart is an answer, no exception."""
    try:
        return split(document, rule, key)
    except NotSplit as no:
        return str(no)


def _sha256(value: bytes) -> str:
    return sha256(value).hexdigest()


def _common(publish: Publish) -> Common:
    assert publish.common is not None  # it came with a request
    return publish.common
