"""Strategies for oversized events, tried in order without blocking the event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from headgate.formats.decode import is_plain_json
from headgate.ingest.records import fits, partition_of
from headgate.ingest.turn import EventIds
from headgate.model.outcome import (
    OVERLOADED_RETRY_S,
    Failure,
    Outcome,
    OutcomeName,
    Reason,
    Refused,
)
from headgate.model.oversize import (
    Large,
    Prepared,
    SplitRule,
    StoredBlob,
    claim_headers,
    notify_headers,
    split_headers,
    without_dataref,
)
from headgate.model.publish import Common, Publish, Record, Stage
from headgate.model.record import CONTENT_TYPE, EVENT_ID, RECORD_OVERHEAD, Header, size_of
from headgate.model.route import Route
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.chunks import (
    HEADERS_BYTES,
    MAX_BYTES,
    MIN_CHUNK_BYTES,
    Head,
    NotSplit,
    Split,
    cut,
    headers_of,
    split,
)

log = logging.getLogger("headgate.oversize")

# ---- plans of the strategies: records that replace an event; None if a strategy does not fit


JSON_TYPE: Header = (CONTENT_TYPE, b"application/json")


class PlannedRecord(NamedTuple):
    """A planned record.

    Attributes:
        record: The record.
        size: Upper bound of its size, in bytes.
        event_id: Id of its event.
        batch: Its compressed batch, if it was compressed in advance.
    """

    record: Record
    size: int
    event_id: str
    batch: Prepared | None = None


class OversizePlan(NamedTuple):
    """Records that replace an oversized event.

    Attributes:
        strategy: Strategy that made the records.
        records: Records in order; the manifest of a split is last.
    """

    strategy: str
    records: list[PlannedRecord]


def finished(publish: Publish, value: bytes, own: Sequence[Header]) -> PlannedRecord:
    """Return a record with all headers: its own, the event's id, and the request's.

    Args:
        publish: The event.
        value: Value of the record.
        own: Headers of the record itself.
    """
    assert publish.event_id is not None
    assert publish.common is not None
    headers = [*own, (EVENT_ID, publish.event_id.encode()), *publish.common.headers]
    old = publish.record
    record = Record(old.topic, old.partition, old.key, value, headers, old.timestamp_ms)
    return PlannedRecord(record, size_of(record.key, value, headers), publish.event_id)


def _fits(planned: PlannedRecord, route: Route) -> bool:
    return fits(route, len(planned.record.value or b""), planned.size)


def standing(
    publish: Publish, route: Route, strategy: str, more: list[Header]
) -> OversizePlan | None:
    """Return a plan with one record without value, whose headers describe the event.

    Args:
        publish: The event.
        route: Route of its topic.
        strategy: Strategy of the plan.
        more: Headers that describe the event.
    """
    planned = finished(publish, b"", [*without_dataref(publish.record.headers), *more])
    return OversizePlan(strategy, [planned]) if _fits(planned, route) else None


def claim_check(publish: Publish, route: Route, stored: StoredBlob) -> OversizePlan | None:
    return standing(publish, route, "claim-check", claim_headers(*stored))


def chunk(publish: Publish, route: Route, set_id: str) -> OversizePlan | None:
    """Return a plan with chunks as large as the limits allow, each with all event headers."""
    value = publish.record.value or b""
    beside = publish.size - len(value) + HEADERS_BYTES
    limit = min(route.max_record_bytes - beside, route.max_value_bytes)
    if len(value) > MAX_BYTES or limit < MIN_CHUNK_BYTES:
        return None
    pieces, digest = cut(value, limit), sha256(value).digest()
    records = []
    for number, piece in enumerate(pieces):
        head = Head(set_id.encode(), number, len(pieces), len(value), digest)
        records.append(finished(publish, piece, [*publish.record.headers, *headers_of(head)]))
    return OversizePlan("chunk", records)


def split_plan(publish: Publish, route: Route, parts: Split, set_id: str) -> OversizePlan | None:
    """Return a plan with elements under keys of their own, then the manifest.

    All records must be within the limits, and no key may exceed the limit for keys. Elements get
    the request's headers when they enter their lanes (`ingest.turn.Produce`), like any event.

    Args:
        publish: The event.
        route: Route of its topic.
        parts: Elements and manifest of the document.
        set_id: Id that all records of the split share.
    """
    old, event_id = publish.record, publish.event_id
    key = old.key
    assert key is not None
    assert event_id is not None
    assert publish.common is not None
    mark = split_headers("element", set_id, key)
    shared = size_of(None, None, publish.common.headers) - RECORD_OVERHEAD
    records = []
    for number, (own_key, value) in enumerate(parts.elements):
        if len(own_key) > route.key_max_bytes:
            return None
        headers, own_id = [JSON_TYPE, *mark], f"{event_id}/{number}"
        partition = partition_of(route, own_key)
        record = Record(old.topic, partition, own_key, value, headers, old.timestamp_ms)
        size = shared + size_of(own_key, value, [*headers, (EVENT_ID, own_id.encode())])
        records.append(PlannedRecord(record, size, own_id))
    own = [header for header in publish.record.headers if header[0] != CONTENT_TYPE]
    about = [JSON_TYPE, *own, *split_headers("manifest", set_id, key)]
    records.append(finished(publish, parts.manifest, about))
    return OversizePlan("split", records) if all(_fits(each, route) for each in records) else None


_SPLIT_HERE_BYTES = 65_536  # smaller documents cost less to split than to send to the helper
_AT_A_TIME = 2  # documents compressed or split at a time: each holds copies of its value
_LOST = Failure(
    Reason.OVERLOADED,  # it was killed or timed out, which the producer cannot correct
    "the process that cuts documents ended; nothing was written",
    retry_after_s=OVERLOADED_RETRY_S,
)


class Tools(NamedTuple):
    """Tools of the strategies.

    Attributes:
        ids: Generates ids of splits and chunk sets.
        store: Stores a topic's value for claim checks; None if there is no blob store.
        helper: Process that splits large documents.
        compress: Compresses a record into a batch of its own; blocks.
        lone_bytes: A record that counts as so many bytes is always alone in its batch.
    """

    ids: EventIds
    store: Callable[[str, bytes], Awaitable[StoredBlob]] | None
    helper: HelperProcess
    compress: Callable[[Record], Prepared]
    lone_bytes: int


class ChooseStrategy:
    """Choice of the strategy for an oversized event."""

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
        """Return the plan of the first strategy that fits.

        Returns:
            The plan; None if no strategy fits, or if the event was dropped meanwhile.

        Raises:
            Refused: A strategy fits but fails; nothing is published then.
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
        if publish.record.key is None:
            return None
        value = publish.record.value or b""
        digest = (await asyncio.to_thread(sha256, value)).hexdigest()
        return standing(publish, route, "notify", notify_headers(len(value), digest))

    async def _claim_check(self, publish: Publish, route: Route) -> OversizePlan | None:
        if self._tools.store is None:
            return None
        stored = await self._tools.store(publish.record.topic, publish.record.value or b"")
        return claim_check(publish, route, stored)

    async def _split(self, publish: Publish, route: Route) -> OversizePlan | None:
        rule, value, key = route.policy.split, publish.record.value or b"", publish.record.key
        content_type = dict(publish.record.headers).get(CONTENT_TYPE)
        if rule is None or key is None or content_type is None or not is_plain_json(content_type):
            return None  # only keyed JSON documents are split
        parts: Split | str | None
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
    """Split a document in the helper process. Return the reason as text if it cannot be split."""
    try:
        return split(document, rule, key)
    except NotSplit as no:
        return str(no)


def _common(publish: Publish) -> Common:
    assert publish.common is not None  # it came with a request
    return publish.common


# ---- records of one oversized event, and their common outcome
#
# A part goes through the lanes like any publish, but reports its end to its `MultiRecordPublish`
# instead of a ticket. The event itself (`MultiRecordPublish.parent`) never enters a lane: it keeps
# the reservation, the followers, and the position in its request.


_SOME_MISSING = Failure(
    Reason.UNKNOWN,
    "not all of the event's records are known to be written; it may be in Kafka in part",
    retry_after_s=2,
)


class MultiRecordPublish:
    """A countdown over the records of one event.

    Args:
        parent: The event.
        strategy: Strategy that made the records.
        records: The planned records.
        on_end: Called once, when all parts have ended or the last one will not be sent.
        on_others_written: Called when all parts but the last are in Kafka; the last part waits
            for this call.

    Attributes:
        count: Number of records.
        last: Outcome of the last part, once it is written.
    """

    def __init__(
        self,
        parent: Publish,
        strategy: str,
        records: Sequence[PlannedRecord],
        on_end: "Callable[[MultiRecordPublish], None]",
        on_others_written: "Callable[[MultiRecordPublish], None] | None" = None,
    ) -> None:
        self.parent = parent
        self.strategy = strategy
        self.count = len(records)
        self.last: Outcome | None = None
        self._records = records
        self._on_end = on_end
        self._on_others_written = on_others_written
        self._parts: list[Publish] = []
        self._ended = self._written = 0
        self._refusal: Failure | None = None
        self._is_unknown = False

    @property
    def written(self) -> Outcome | None:
        """Return the last part's outcome if every part is in Kafka."""
        return self.last if self._written == self.count else None

    @property
    def failure(self) -> Failure:
        """Return the event's failure; it is certain only if no part is or may be in Kafka."""
        if self._refusal is not None and not self._written and not self._is_unknown:
            return self._refusal
        return _SOME_MISSING

    def next_part(self) -> Publish:
        """Return a publish for the next record."""
        planned = self._records[len(self._parts)]
        part = Publish(planned.record, planned.size, None, len(self._parts), planned.event_id)
        part.common, part.owner = self.parent.common, self
        is_element = self.strategy == "split" and part.index < self.count - 1
        if self.parent.is_client_placed and not is_element:  # elements have keys of their own
            part.is_client_placed = True
        if planned.batch is not None:
            part.large = Large(batch=planned.batch)
        self._parts.append(part)
        return part

    def handed_over(self) -> None:
        """Mark the event as handed over: one of its parts was."""
        if self.parent.stage < Stage.HANDED:
            self.parent.advance(Stage.HANDED)

    def drop(self) -> list[Publish]:
        """Drop all parts of an event that was not handed over.

        Returns:
            Parts in lanes, whose end the caller must report. The other parts still wait for
            their verdict.
        """
        parts = self._let_go()
        for part in parts:
            part.dropped = True
        return [part for part in parts if part.stage is Stage.LANE]

    def ended(self, part: Publish, outcome: Outcome) -> None:
        """Count a part that has ended."""
        self._ended += 1
        if outcome.name is OutcomeName.PUBLISHED:
            self._written += 1
            if part.index == self.count - 1:
                self.last = outcome
        elif outcome.name is OutcomeName.UNKNOWN:
            self._is_unknown = True
        else:
            self._refusal = self._refusal or outcome.failure
        if self._ended == self.count:
            self._end()
        elif self._on_others_written is not None and self._ended == self.count - 1:
            if self._written == self._ended:
                self._on_others_written(self)
            else:  # the last one is not sent
                self._end()

    def _end(self) -> None:
        self._let_go()
        self._on_end(self)

    def _let_go(self) -> list[Publish]:
        """Release the parts, and return them.

        The parts refer to this object. The garbage collector runs rarely (`wiring.reloading`), so
        the cycle would keep their values in memory for long.
        """
        parts, self._parts, self._records = self._parts, [], ()
        return parts
