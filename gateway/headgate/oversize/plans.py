"""What each rung makes of an event: a plan with its records, or None when it does not fit."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from headgate.core.formats.decode import is_json
from headgate.core.oversize.chunks import (
    HEADERS_BYTES,
    LEAST_CHUNK_BYTES,
    MOST_BYTES,
    Head,
    cut,
    headers_of,
)
from headgate.core.oversize.split import Split
from headgate.core.oversize.strategies import (
    StoredBlob,
    claim_headers,
    notify_headers,
    split_headers,
    without_dataref,
)
from headgate.core.publish import Publish
from headgate.core.record import CONTENT_TYPE, EVENT_ID, RECORD_OVERHEAD, Record, size_of
from headgate.core.route import Route

JSON_TYPE = (CONTENT_TYPE, b"application/json")


class Planned(NamedTuple):
    """A record to be. its size is an upper bound; lone: its batch, compressed beforehand."""

    record: Record
    size: int
    event_id: str
    lone: Any = None


class Plan(NamedTuple):
    """rung: what the event becomes.  records: in their order; of a split the manifest is last."""

    rung: str
    records: list[Planned]


def finished(publish: Publish, value: bytes, own: Sequence[tuple[str, bytes]]) -> Planned:
    """The record with all its headers: its own, the event's id, and what its request shares."""
    assert publish.event_id is not None
    headers = [*own, (EVENT_ID, publish.event_id.encode()), *publish.common.headers]
    old = publish.record
    record = Record(old.topic, old.partition, old.key, value, headers, old.timestamp_ms)
    return Planned(record, size_of(record.key, value, headers), publish.event_id)


def fits(planned: Planned, route: Route) -> bool:
    """Whether a record surely passes both limits, uncompressed."""
    value = planned.record.value or b""
    return len(value) <= route.most_value_bytes and planned.size <= route.most_record_bytes


def standing(
    publish: Publish, route: Route, rung: str, more: list[tuple[str, bytes]]
) -> Plan | None:
    """One record without the value, which says what it stands for."""
    planned = finished(publish, b"", [*without_dataref(publish.record.headers), *more])
    return Plan(rung, [planned]) if fits(planned, route) else None


def claim_check(publish: Publish, route: Route, stored: StoredBlob) -> Plan | None:
    return standing(publish, route, "claim-check", claim_headers(*stored))


def notify(publish: Publish, route: Route, digest: str) -> Plan | None:
    """Without a key there is nobody to notify about."""
    if publish.record.key is None:
        return None
    size = len(publish.record.value or b"")
    return standing(publish, route, "notify", notify_headers(size, digest))


def chunk(publish: Publish, route: Route, set_id: str) -> Plan | None:
    """Chunks as large as the limits allow, each with all of the event's headers."""
    value = publish.record.value or b""
    beside = publish.size - len(value) + HEADERS_BYTES
    most = min(route.most_record_bytes - beside, route.most_value_bytes)
    if len(value) > MOST_BYTES or most < LEAST_CHUNK_BYTES:
        return None
    pieces, digest = cut(value, most), sha256(value).digest()
    records = []
    for number, piece in enumerate(pieces):
        head = Head(set_id.encode(), number, len(pieces), len(value), digest)
        records.append(finished(publish, piece, [*publish.record.headers, *headers_of(head)]))
    return Plan("chunk", records)


def split_plan(publish: Publish, route: Route, parts: Split, set_id: str) -> Plan | None:
    """Elements under keys of their own, then the manifest; all must fit their limits.

    Elements get their shared headers at hand-over (`Endings.hand_over`), as any event.
    """
    old, event_id = publish.record, publish.event_id
    key = old.key
    assert key is not None
    assert event_id is not None
    mark = split_headers("element", set_id, key)
    shared = size_of(None, None, publish.common.headers) - RECORD_OVERHEAD
    records = []
    for number, (own_key, value) in enumerate(parts.elements):
        headers, own_id = [JSON_TYPE, *mark], f"{event_id}/{number}"
        place = route.partition(own_key)
        record = Record(old.topic, place, own_key, value, headers, old.timestamp_ms)
        size = shared + size_of(own_key, value, [*headers, (EVENT_ID, own_id.encode())])
        records.append(Planned(record, size, own_id))
    own = [header for header in publish.record.headers if header[0] != CONTENT_TYPE]
    about = [JSON_TYPE, *own, *split_headers("manifest", set_id, key)]
    records.append(finished(publish, parts.manifest, about))
    return Plan("split", records) if all(fits(each, route) for each in records) else None


def may_split(publish: Publish) -> bool:
    """Whether it is a keyed JSON document: only such a one has elements."""
    content_type = dict(publish.record.headers).get(CONTENT_TYPE)
    return publish.record.key is not None and content_type is not None and is_json(content_type)
