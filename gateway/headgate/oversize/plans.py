"""What each strategy makes of an event: a plan with its records, or None when it does not fit."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from headgate.core.formats.decode import is_json
from headgate.core.oversize.chunks import (
    HEADERS_BYTES,
    MAX_BYTES,
    MIN_CHUNK_BYTES,
    Head,
    cut,
    headers_of,
)
from headgate.core.oversize.limits import fits
from headgate.core.oversize.split import Split
from headgate.core.oversize.strategies import (
    Prepared,
    StoredBlob,
    claim_headers,
    notify_headers,
    split_headers,
    without_dataref,
)
from headgate.core.publish import Publish
from headgate.core.record import CONTENT_TYPE, EVENT_ID, RECORD_OVERHEAD, Header, Record, size_of
from headgate.core.topics.route import Route

JSON_TYPE: Header = (CONTENT_TYPE, b"application/json")


class PlannedRecord(NamedTuple):
    """A record to be. its size is an upper bound; batch: compressed beforehand."""

    record: Record
    size: int
    event_id: str
    batch: Prepared | None = None


class OversizePlan(NamedTuple):
    """strategy: how the event is fitted.  records: in order; of a split the manifest is last."""

    strategy: str
    records: list[PlannedRecord]


def finished(publish: Publish, value: bytes, own: Sequence[Header]) -> PlannedRecord:
    """The record with all its headers: its own, the event's id, and what its request shares."""
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
    """One record without the value, which says what it stands for."""
    planned = finished(publish, b"", [*without_dataref(publish.record.headers), *more])
    return OversizePlan(strategy, [planned]) if _fits(planned, route) else None


def claim_check(publish: Publish, route: Route, stored: StoredBlob) -> OversizePlan | None:
    return standing(publish, route, "claim-check", claim_headers(*stored))


def notify(publish: Publish, route: Route, digest: str) -> OversizePlan | None:
    """Without a key there is nobody to notify about."""
    if publish.record.key is None:
        return None
    size = len(publish.record.value or b"")
    return standing(publish, route, "notify", notify_headers(size, digest))


def chunk(publish: Publish, route: Route, set_id: str) -> OversizePlan | None:
    """Chunks as large as the limits allow, each with all of the event's headers."""
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
    """Elements under keys of their own, then the manifest; all must fit their limits, and no key
    may be longer than an event's.

    Elements get their shared headers at hand-over (`pipeline.produce`), as any event.
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
        place = route.partition(own_key)
        record = Record(old.topic, place, own_key, value, headers, old.timestamp_ms)
        size = shared + size_of(own_key, value, [*headers, (EVENT_ID, own_id.encode())])
        records.append(PlannedRecord(record, size, own_id))
    own = [header for header in publish.record.headers if header[0] != CONTENT_TYPE]
    about = [JSON_TYPE, *own, *split_headers("manifest", set_id, key)]
    records.append(finished(publish, parts.manifest, about))
    return OversizePlan("split", records) if all(_fits(each, route) for each in records) else None


def may_split(publish: Publish) -> bool:
    """Whether it is a keyed JSON document: only such a one has elements."""
    content_type = dict(publish.record.headers).get(CONTENT_TYPE)
    return publish.record.key is not None and content_type is not None and is_json(content_type)
