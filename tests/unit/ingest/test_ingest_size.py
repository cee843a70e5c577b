"""What ingest presumes of a record's bytes, against what aiokafka makes of the finished record."""

from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.model.outcome import Reason
from headgate.model.publish import Publish, Ticket
from headgate.model.record import BATCH_OVERHEAD, size_of
from support.gateway.room import Room
from support.scale import examples

MOST_SLACK = 2_000  # bytes a record of few headers is presumed larger than it is

CE = {"ce_specversion": b"1.0", "ce_source": b"/s", "ce_type": b"t"}
texts = st.text(max_size=40).map(str.encode).filter(bool)
ce_texts = st.text("abcé\U0001f600", min_size=1, max_size=200).map(str.encode)
names = st.text("abcxyz", min_size=1, max_size=20)
ours = st.fixed_dictionaries(
    {},
    optional={
        "headgate_event_id": texts,
        "traceparent": st.binary(max_size=60),
        "headgate_header_tenant": st.binary(max_size=300),
    },
)
attributes = st.fixed_dictionaries(
    {"ce_id": ce_texts}, optional={"ce_partitionkey": ce_texts, "ce_x": ce_texts}
)
types = st.sampled_from(
    [b"application/json", b"application/x+json", b"text/plain", b"a/" + b"b" * 90]
)
values = st.integers(0, 3_000).map(lambda length: b'{"id":"k","v":"%s"}' % (b"x" * length))


def built(batch: Sequence[Publish]) -> int:
    """Bytes of an uncompressed batch of these records."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for offset, publish in enumerate(batch):
        one = publish.record
        added = builder.append(offset, one.timestamp_ms, one.key, one.value, one.headers)
        assert added is not None
    return len(builder.build())


def check(room: Room, ticket: Ticket) -> None:
    """Each lane's records as one batch, once they are finished."""
    publishes = list(ticket.publishes)
    room.run()
    assert sum(map(len, room.lanes.logs.values())) == len(publishes)
    for log in room.lanes.logs.values():
        presumed = BATCH_OVERHEAD + sum(publish.size for publish in log)
        assert built(log) <= presumed <= built(log) + MOST_SLACK * len(log)
        for publish in log:
            one = publish.record
            assert built([publish]) <= BATCH_OVERHEAD + publish.size
            assert (
                size_of(one.key, one.value, one.headers) <= publish.size
            )  # without the slack of `size_of`


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(["clicks", "deals"]), values, types, ours, st.none() | attributes)
def test_the_size_of_an_event_is_an_upper_bound_of_its_finished_record(
    topic: str, body: bytes, content_type: bytes, more: dict[str, bytes],
    cloudevent: dict[str, bytes] | None,
) -> None:  # fmt: skip
    headers = {**more, **({**CE, **cloudevent} if cloudevent is not None else {})}
    if topic == "deals":
        headers["headgate_key"] = b"k"
    room = Room()
    ticket = room.post(topic, body, content_type=content_type, **headers)
    assert len(ticket.publishes) == 1
    check(room, ticket)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=20), st.sampled_from([b"\n", b","]), ours)
def test_the_sizes_of_a_batch_are_upper_bounds_too(
    documents: list[bytes], between: bytes, more: dict[str, bytes]
) -> None:
    more.pop("headgate_event_id", None)  # means one event
    room, body = Room(), between.join(documents)
    if between == b",":
        ticket = room.post("clicks", b"[" + body + b"]", **more)
    else:
        ticket = room.post("clicks", body, content_type=b"application/x-ndjson", **more)
    assert len(ticket.publishes) == len(documents)
    check(room, ticket)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ce_texts, values), min_size=1, max_size=10))
def test_ids_of_their_own_are_counted_for_each_event(events: list[tuple[bytes, bytes]]) -> None:
    fields = b'{"specversion":"1.0","source":"/s","type":"t","id":"%s","data":%s}'
    body = b"[" + b",".join([fields % event for event in events]) + b"]"
    room = Room()
    ticket = room.post("clicks", body, content_type=b"application/cloudevents-batch+json")
    assert len(ticket.publishes) == len(events)
    check(room, ticket)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 12_000), st.integers(1, 3_000), st.integers(2_000, 12_000), ours)
def test_what_is_let_through_fits_the_topics_real_limit(
    length: int, key: int, limit: int, more: dict[str, bytes]
) -> None:
    room = Room(max_message_bytes=limit)
    ticket = room.post(
        "clicks", bytes(length), content_type=b"text/plain", headgate_key=b"k" * key, **more
    )
    if ticket.publishes:
        room.run()
        (log,) = room.lanes.logs.values()
        assert built(log) <= limit
        return
    (outcome,) = ticket.answered()
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.TOO_LARGE
    figures = outcome.failure.figures
    assert figures is not None
    assert figures["limit"] == "max.message.bytes"
    assert figures["size_bytes"] > figures["limit_bytes"]
    assert length + key + MOST_SLACK > limit * 0.99 - 1024  # nothing small is refused
