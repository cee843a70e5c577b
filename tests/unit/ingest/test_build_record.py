"""From a raw event to a record: key, partition, timestamp, headers, size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.formats.json_text import KeyReader
from headgate.ingest.records import build_record, fits
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import SPREAD, RawEvent, Record, content_type_of
from headgate.model.record import BATCH_OVERHEAD, size_of
from headgate.model.route import Route, event_too_large, too_large
from support.gateway.fakes import NOW_MS, common, policy, route, topic_state
from support.kafka.lane_history import fields_of

DAY_MS = 86_400_000


def document(text: bytes, **changes: object) -> bytes | RawEvent:
    """A JSON document: plain, unless something more is known of the event."""
    if not changes:
        return text
    return RawEvent(text, text, content_type=b"application/json")._replace(**changes)


def record(rules: Route, event: bytes | RawEvent, **changes: object) -> Record:
    return build_record(rules, event, common(**changes))


def refusal(rules: Route, event: bytes | RawEvent, **changes: object) -> Reason:
    with pytest.raises(Refused) as caught:
        record(rules, event, **changes)
    return caught.value.failure.reason


# ---- keys


def test_the_key_is_the_requests_else_the_events_else_the_pointers() -> None:
    rules = route(key=("/id",))
    assert record(rules, document(b'{"id":5}')).key == b"5"
    assert record(rules, document(b'{"id":5}', key=b"own")).key == b"own"
    assert record(rules, document(b'{"id":5}', key=b"own"), key=b"given").key == b"given"
    assert record(rules, document(b'{"id":1.5}'), key=b"given").key == b"given"
    assert record(rules, document(b"{}", key=b"own")).key == b"own"


def test_a_key_does_not_excuse_malformed_json() -> None:
    assert refusal(route(), document(b"{"), key=b"given") is Reason.MALFORMED
    assert refusal(route(depth=2), document(b"[[[]]]"), key=b"given") is Reason.MALFORMED


def test_without_a_key_the_topic_rejects_or_spreads() -> None:
    reject, spread = route(key=("/id",)), route(key=("/id",), keyless="spread")
    for event in (document(b"{}"), document(b'{"id":null}'), document(b'{"id":""}')):
        assert refusal(reject, event) is Reason.MISSING_KEY
        assert record(spread, event).key is None
    assert refusal(spread, document(b'{"id":1.5}')) is Reason.INVALID_KEY
    assert refusal(route(), document(b"{}")) is Reason.MISSING_KEY
    assert refusal(reject, RawEvent(b"x")) is Reason.MISSING_KEY
    assert record(spread, RawEvent(b"x")).key is None


def test_the_partition_is_kafkas_and_keyless_events_of_a_request_share_one() -> None:
    rules = route(topic_state(partitions=7), key=("/id",), keyless="spread")
    for number in range(50):
        made = record(rules, document(b'{"id":"k%d"}' % number))
        assert made.partition == partition_for(b"k%d" % number, 7)
    partitions = {record(rules, document(b"{}"), request_number=n).partition for n in range(7)}
    assert partitions == set(range(7))
    assert record(rules, document(b"{}"), request_number=10).partition == 3


# ---- headers and values


def test_headers_and_value() -> None:
    event = document(b' {"id": 1.0}\n', key=b"k", headers=(("ce_id", b"7"),))
    made = record(route(), event, headers=[("hg-producer", b"p"), ("tenant", b"t")])
    assert made.value == b' {"id": 1.0}\n'
    # The request's own are added when the record goes to its lane.
    assert made.headers == [("content-type", b"application/json"), ("ce_id", b"7")]
    assert (made.topic, made.timestamp_ms) == ("orders", NOW_MS)


def test_the_content_type_is_the_first_header_or_there_is_none() -> None:
    spread = route(keyless="spread")
    for event, content_type in (
        (b"{}", b"application/json"),
        (RawEvent(b"x", content_type=b"text/plain", headers=(("ce_id", b"7"),)), b"text/plain"),
        (RawEvent(b"x", headers=(("ce_id", b"7"),)), None),
        (RawEvent(b""), None),
    ):
        made = record(spread, event)
        assert content_type_of(made.headers) == content_type
        assert ("content-type" in dict(made.headers)) == (content_type is not None)


@given(
    st.sampled_from(
        [b"{}", b'{"id":"a"}', b' {"id" : 5}\n', b'{"id":1.5}', b'{"id":null}', b"[[[1]]]", b"{",
         b"null", b'{"id":"\\ud800"}', b"7", b'{"id":{"a":"b"}}']
    ),
    st.sampled_from([(), ("/id",), ("/id/a", "/id"), ("/0/0/0",)]), st.booleans(),
    st.sampled_from([None, b"k"]), st.sampled_from([None, 5, NOW_MS - 5]), st.booleans(),
)  # fmt: skip
def test_a_plain_document_makes_the_same_record_as_one_with_all_its_fields(
    text: bytes, key: tuple[str, ...], spread: bool, given_key: bytes | None,
    timestamp: int | None, by_event: bool,
) -> None:  # fmt: skip
    rules = route(
        depth=2, key=key, keyless="spread" if spread else "reject",
        timestamp="event" if by_event else "arrival",
    )  # fmt: skip
    shared = common(key=given_key, timestamp_ms=timestamp, request_number=2)

    def end(event: bytes | RawEvent) -> object:
        try:
            return fields_of(build_record(rules, event, shared))
        except Refused as refused:
            return refused.failure

    assert end(text) == end(RawEvent(text, text, content_type=b"application/json"))


def test_null_is_four_bytes_and_a_tombstone_is_none() -> None:
    assert record(route(), document(b"null"), key=b"k").value == b"null"
    assert record(route(), RawEvent(None), key=b"k", tombstone=True).value is None
    assert record(route(), RawEvent(b""), key=b"k").value == b""
    assert record(route(), b"null", key=b"k", tombstone=True).value is None


def test_an_empty_key_that_was_given_is_the_key() -> None:
    """Over Confluent's REST it may be: it must neither become null nor the document's own key."""
    rules = route(key=("/id",))
    event = document(b'{"id":5}', key=b"", partition=SPREAD)
    for request_number in range(3):
        made = record(rules, event, request_number=request_number)
        assert (made.key, made.partition) == (b"", partition_for(b"", rules.state.partitions))
    opaque = record(rules, RawEvent(b"x", key=b"", partition=SPREAD))
    assert (opaque.key, opaque.partition) == (b"", partition_for(b"", rules.state.partitions))
    assert record(rules, RawEvent(b"x", key=b"", partition=1)).key == b""


# ---- timestamps


def at(rules: Route, given: int | None, own: int | None = None) -> int | Reason:
    event = document(b"{}", key=b"k", timestamp_ms=own)
    try:
        return record(rules, event, timestamp_ms=given).timestamp_ms
    except Refused as refused:
        return refused.failure.reason


def test_by_default_the_timestamp_is_arrival_whatever_the_event_says() -> None:
    assert at(route(), 5, 7) == NOW_MS


OUT = Reason.TIMESTAMP_OUT_OF_RANGE


def test_the_events_time_is_taken_inside_what_the_topic_keeps() -> None:
    state = topic_state(retention_ms=7 * DAY_MS, timestamp_after_max_ms=3_600_000)
    rules = route(state, timestamp="event")
    assert at(rules, None) == NOW_MS
    assert at(rules, None, NOW_MS - 5) == NOW_MS - 5
    assert at(rules, NOW_MS - 9, NOW_MS - 5) == NOW_MS - 9
    assert at(rules, NOW_MS - 7 * DAY_MS) == NOW_MS - 7 * DAY_MS
    assert at(rules, NOW_MS - 7 * DAY_MS - 1) is OUT
    assert at(rules, NOW_MS + 3_600_000) == NOW_MS + 3_600_000
    assert at(rules, NOW_MS + 3_600_001) is OUT


def test_the_narrower_of_retention_and_limit_counts_and_for_ever_is_for_ever() -> None:
    narrow = topic_state(retention_ms=7 * DAY_MS, timestamp_before_max_ms=DAY_MS)
    assert at(route(narrow, timestamp="event"), NOW_MS - DAY_MS) == NOW_MS - DAY_MS
    assert at(route(narrow, timestamp="event"), NOW_MS - DAY_MS - 1) is OUT
    forever = topic_state(retention_ms=-1)
    assert at(route(forever, timestamp="event"), 0) == 0
    assert at(route(forever, timestamp="event"), None, -1) is OUT


@pytest.mark.parametrize("policy", ["compact", ""])
def test_a_topic_without_retention_by_time_takes_any_old_time(policy: str) -> None:
    """Kafka reads retention.ms only where cleanup.policy has `delete`."""
    compacted = topic_state(retention_ms=DAY_MS, cleanup_policy=policy)
    placed = RawEvent(b"x", timestamp_ms=5, partition=SPREAD)
    for rules in (route(compacted, timestamp="event"), route(compacted)):
        assert record(rules, placed).timestamp_ms == 5
    assert at(route(compacted, timestamp="event"), 5) == 5
    both = topic_state(retention_ms=DAY_MS, cleanup_policy="compact,delete")
    assert at(route(both, timestamp="event"), NOW_MS - DAY_MS - 1) is OUT
    narrow = compacted._replace(timestamp_before_max_ms=DAY_MS)
    assert at(route(narrow, timestamp="event"), NOW_MS - DAY_MS - 1) is OUT


def test_a_time_that_kafka_overwrites_is_not_refused() -> None:
    stamped = topic_state(
        timestamp_type="LogAppendTime", retention_ms=DAY_MS, timestamp_before_max_ms=DAY_MS
    )
    for own_ms in (5, NOW_MS - 9 * DAY_MS, NOW_MS + 9 * DAY_MS):
        assert at(route(stamped, timestamp="event"), own_ms) == own_ms
        placed = RawEvent(b"x", timestamp_ms=own_ms, partition=SPREAD)
        assert record(route(stamped), placed).timestamp_ms == own_ms


def test_the_refusal_tells_the_window() -> None:
    rules = route(topic_state(retention_ms=DAY_MS), timestamp="event")
    with pytest.raises(Refused) as caught:
        record(rules, document(b"{}", key=b"k"), timestamp_ms=1)
    assert caught.value.failure.figures == {
        "oldest_ms": NOW_MS - DAY_MS, "newest_ms": NOW_MS + 3_600_000,
    }  # fmt: skip


# ---- size


def size(made: Record) -> int:
    return size_of(made.key, made.value, made.headers)


def oversize(rules: Route, made: Record) -> Failure | None:
    """As the pipeline asks: first the limits, then which of them it was."""
    length = len(made.value or b"")
    if fits(rules, length, size(made)):
        return None
    return event_too_large(rules, length, size(made))


def test_max_bytes_limits_the_value() -> None:
    rules = route(max_bytes=10)
    assert oversize(rules, record(rules, RawEvent(b"x" * 10), key=b"k" * 100)) is None
    failure = oversize(rules, record(rules, RawEvent(b"x" * 11), key=b"k"))
    assert failure is not None
    assert failure == too_large(11, 10, "max_bytes")
    assert failure.figures == {"size_bytes": 11, "limit_bytes": 10, "limit": "max_bytes"}
    assert oversize(rules, record(rules, RawEvent(None), key=b"k")) is None


sizes = st.integers(0, 40_000).map(bytes)


@settings(deadline=None)
@given(sizes, sizes, st.integers(2_000, 60_000))
def test_what_is_let_through_fits_the_topics_real_limit(
    key: bytes, value: bytes, limit: int
) -> None:
    state = topic_state(max_message_bytes=limit)
    rules = Route(policy(), state, KeyReader.parse((), 1_000_000), 128, key_max_bytes=1_000_000)
    made = record(rules, RawEvent(value), key=b"k" + key)
    failure = oversize(rules, made)
    if failure is None:
        assert size(made) + BATCH_OVERHEAD <= limit
    else:
        assert failure.figures is not None
        assert failure.figures["limit"] == "max.message.bytes"
        assert failure.figures["size_bytes"] > failure.figures["limit_bytes"]
        assert len(key) + len(value) + 1200 > limit * 0.99 - 1024  # nothing small is refused


# ---- clients that may choose the partition


def test_timestamps_of_clients_that_choose_the_partition_are_taken() -> None:
    rules = route(topic_state(retention_ms=DAY_MS))
    for partition in (SPREAD, 1):
        event = RawEvent(b"x", timestamp_ms=NOW_MS - 5, partition=partition)
        assert record(rules, event).timestamp_ms == NOW_MS - 5
        assert record(rules, event._replace(timestamp_ms=None)).timestamp_ms == NOW_MS
        old = event._replace(timestamp_ms=NOW_MS - DAY_MS - 1)
        assert refusal(rules, old) is Reason.TIMESTAMP_OUT_OF_RANGE


def test_a_topic_may_refuse_such_timestamps() -> None:
    rules = route(compat_timestamps="refuse", timestamp="event")
    event = RawEvent(b"x", timestamp_ms=NOW_MS, partition=SPREAD)
    assert refusal(rules, event) is Reason.TIMESTAMP_OUT_OF_RANGE
    assert record(rules, event._replace(timestamp_ms=None)).timestamp_ms == NOW_MS
    own = document(b"{}", key=b"k", timestamp_ms=NOW_MS - 1)
    assert record(rules, own).timestamp_ms == NOW_MS - 1
