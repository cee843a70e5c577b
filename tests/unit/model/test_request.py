"""What request headers ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.outcome import Reason, Refused
from headgate.model.request import NO_OPTIONS, read_options
from headgate.model.trace import Parent, read_parent, read_state, traceparent


def refusal(name: bytes, value: bytes) -> Reason:
    with pytest.raises(Refused) as caught:
        read_options({name: value})
    assert name.decode().title() in caught.value.failure.detail
    return caught.value.failure.reason


def test_ordinary_headers_ask_for_nothing() -> None:
    headers = {b"host": b"x", b"content-type": b"application/json", b"x-request-id": b"7"}
    assert read_options(headers) is NO_OPTIONS


def test_each_header_is_read() -> None:
    options = read_options(
        {
            b"headgate-key": "ключ".encode(),
            b"headgate-event-id": b"e-1",
            b"headgate-timestamp": b"1700000000000",
            b"headgate-tombstone": b"True",
            b"headgate-force": b"true",
            b"prefer": b"respond-async, return=minimal",
        }
    )
    assert options.key == "ключ".encode()
    assert options.event_id == "e-1"
    assert options.timestamp_ms == 1_700_000_000_000
    assert (options.tombstone, options.force, options.minimal) == (True, True, True)
    assert options.single_event_header == "Headgate-Key"


@pytest.mark.parametrize("name", ["Key", "Event-Id", "Timestamp", "Tombstone"])
def test_headers_that_mean_one_event_are_named(name: str) -> None:
    header = f"Headgate-{name}"
    value = b"1"
    assert read_options({header.lower().encode(): value}).single_event_header == header
    assert read_options({b"headgate-force": b"true"}).single_event_header is None


def test_what_is_false_asks_for_nothing() -> None:
    headers = {b"headgate-force": b"0", b"headgate-tombstone": b"false", b"prefer": b"wait=1"}
    options = read_options(headers)
    assert (options.tombstone, options.force, options.minimal) == (False, False, False)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (b"headgate-key", b"", Reason.MISSING_KEY),
        (b"headgate-key", b"\xff", Reason.MALFORMED),
        (b"headgate-event-id", b"", Reason.MALFORMED),
        (b"headgate-event-id", b"x" * 257, Reason.MALFORMED),
        (b"headgate-event-id", b"\xc3", Reason.MALFORMED),
        (b"headgate-tombstone", b"", Reason.MALFORMED),
        (b"headgate-force", b"yes", Reason.MALFORMED),
        (b"headgate-batch", b"no", Reason.MALFORMED),
        (b"headgate-timestamp", b"", Reason.MALFORMED),
        (b"headgate-timestamp", b"-1", Reason.MALFORMED),
        (b"headgate-timestamp", b"1.5", Reason.MALFORMED),
        (b"headgate-timestamp", b" 1", Reason.MALFORMED),
        (b"headgate-timestamp", b"1_000", Reason.MALFORMED),
        (b"headgate-timestamp", b"9" * 16, Reason.MALFORMED),
        (b"headgate-timestamp", "１".encode(), Reason.MALFORMED),  # noqa: RUF001
    ],
)
def test_bad_values_are_refused_naming_the_header(
    name: bytes, value: bytes, reason: Reason
) -> None:
    assert refusal(name, value) is reason


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        (b"headgate-keey", 'there is no header Headgate-Keey. Did you mean "Headgate-Key"?'),
        (b"headgate-tombston", 'Did you mean "Headgate-Tombstone"?'),
        (b"headgate-eventid", 'Did you mean "Headgate-Event-Id"?'),
        (b"headgate-kye", 'there is no header Headgate-Kye. Did you mean "Headgate-Key"?'),
        (b"headgate-kay", 'Did you mean "Headgate-Key"?'),
        (b"headgate-froce", 'Did you mean "Headgate-Force"?'),
        (b"idempotency-kye", 'no header Idempotency-Kye. Did you mean "Idempotency-Key"?'),
        (b"idempotency_key", 'no header Idempotency_Key. Did you mean "Idempotency-Key"?'),
        (b"idempotencykey", 'Did you mean "Idempotency-Key"?'),
        (b"idempotence-key", 'Did you mean "Idempotency-Key"?'),
        (b"idempotnecy-key", 'Did you mean "Idempotency-Key"?'),
        (b"idmpotency-key", 'Did you mean "Idempotency-Key"?'),
        (b"x-idempotency-key", 'no header X-Idempotency-Key. Did you mean "Idempotency-Key"?'),
        (b"headgate-a", "there is no header Headgate-A. Record headers are Headgate-Header-*."),
        (b"headgate-zzzzzzzz", "there is no header Headgate-Zzzzzzzz. Record headers"),
    ],
)
def test_a_header_that_does_not_exist_is_refused_with_the_nearest(name: bytes, fix: str) -> None:
    with pytest.raises(Refused) as caught:
        read_options({b"headgate-key": b"k", name: b"x"})
    assert caught.value.failure.reason is Reason.MALFORMED
    assert fix in caught.value.failure.detail


def test_an_idempotency_key_is_no_option() -> None:
    assert read_options({b"idempotency-key": b"k"}) == NO_OPTIONS


def test_headers_that_others_read_are_left_alone() -> None:
    known = {b"headgate-producer": b"shop", b"headgate-batch": b"1", b"headgate-header-": b"z"}
    others = {b"traceparent-x": b"y", b"x-headgate-a": b"b", b"headgate-header-keey": b"k"}
    assert read_options({**known, **others}).record_headers == (("keey", b"k"),)


def test_record_headers_come_from_the_request_but_never_hg_ones() -> None:
    options = read_options(
        {
            b"headgate-header-tenant": b"\xff raw",
            b"headgate-header-hg-producer": b"forged",
            b"headgate-header-hg-": b"forged",
            b"headgate-header-ce_dataref": b"forged",
            b"headgate-header-content-type": b"forged",
            b"headgate-header-traceparent": b"forged",
            b"headgate-header-tracestate": b"forged",
            b"headgate-header-": b"nameless",
            b"traceparent": b"00-abc-def-01",
            b"tracestate": b"x=y",
        }
    )
    assert dict(options.record_headers) == {
        "tenant": b"\xff raw",
        "traceparent": b"00-abc-def-01",
        "tracestate": b"x=y",
    }


def test_record_headers_are_no_second_attributes_of_a_cloudevent() -> None:
    given = {b"headgate-header-ce_type": b"x", b"headgate-header-tenant": b"y"}
    for of_event in (
        {b"ce-specversion": b"1.0"},
        {b"content-type": b"Application/CloudEvents+json"},
        {b"content-type": b"application/cloudevents-batch+json; charset=utf-8"},
    ):
        assert read_options({**given, **of_event}).record_headers == (("tenant", b"y"),)
    assert len(read_options(given).record_headers) == 2


def test_a_tracestate_that_is_none_is_left_out_and_a_long_one_cut() -> None:
    parent = {b"traceparent": b"00-abc-def-01"}
    for state, written in (
        (b"no state", None),
        (b"a=1,b=" + b"v" * 255 + b",c=" + b"v" * 255, b"a=1"),
    ):
        headers = dict(read_options({**parent, b"tracestate": state}).record_headers)
        assert headers.get("tracestate") == written


def test_a_tracestate_means_nothing_alone() -> None:
    assert read_options({b"tracestate": b"x=y"}).record_headers == ()


# What a `traceparent` says, and which ones say nothing.


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


def test_the_example_of_the_specification() -> None:
    assert read_parent(GOOD) == Parent(TRACE, SPAN, 1)
    assert read_parent(GOOD[:-2] + b"00") == Parent(TRACE, SPAN, 0)


@pytest.mark.parametrize(
    ("value", "is_sampled"),
    [(b"01", True), (b"03", True), (b"ff", True), (b"00", False), (b"02", False), (b"fe", False)],
)
def test_one_bit_says_whether_the_caller_records(value: bytes, is_sampled: bool) -> None:
    parent = read_parent(GOOD[:-2] + value)
    assert parent is not None
    assert parent.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"00-1", GOOD.upper(), GOOD + b" ", b" " + GOOD, GOOD + b"-more",
        b"ff" + GOOD[2:], GOOD.replace(TRACE.encode(), b"0" * 32),
        GOOD.replace(SPAN.encode(), b"0" * 16), GOOD[:-1], GOOD.replace(b"-", b"_"),
        GOOD[:-3] + b"-0g", GOOD + b"\n",
    ],
)  # fmt: skip
def test_invalid_traceparents_are_ignored(value: bytes | None) -> None:
    assert read_parent(value) is None


def test_a_later_version_may_say_more() -> None:
    assert read_parent(b"01" + GOOD[2:] + b"-what-comes") == Parent(TRACE, SPAN, 1)
    assert read_parent(b"01" + GOOD[2:] + b"what-comes") is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read(value: bytes) -> None:
    parent = read_parent(value)
    if parent is not None:
        assert value.decode().split("-")[1:3] == [parent.trace_id, parent.span_id]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b"", b""), (b"v=1", b"v=1"), (b" a=1 ,\t, b@c=2 x ,", b"a=1,b@c=2 x"), (b"a=1,a=2", b""),
        (b"A=1", b""), (b"a", b""), (b"a=", b""), (b"=1", b""), (b"a=1,b=\xc3\xa4", b""),
        (b"a=1=2", b""), (b"a=1;b", b"a=1;b"), (b"a" * 257 + b"=1", b""), (b"a=" + b"v" * 257, b""),
        (b"0tenant@sys/x_y-z*=!", b"0tenant@sys/x_y-z*=!"), (b"a=1\x00", b""),
    ],
)  # fmt: skip
def test_a_state_is_passed_on_if_it_is_one(value: bytes, read: bytes) -> None:
    assert read_state(value) == read


def test_a_long_state_is_cut_between_its_members() -> None:
    many = [b"v%d=%d" % (number, number) for number in range(40)]
    assert read_state(b",".join(many)) == b",".join(many[:32]), "32 members at most"
    some = [b"k%02d=%s" % (number, b"v" * 60) for number in range(10)]
    assert read_state(b",".join(some)) == b",".join(some[:7]), "512 bytes at most"
    long = b"long=" + b"v" * 200
    assert read_state(b",".join([long, *some])) == b",".join(some[:7]), "long ones go first"
    assert read_state(b",".join([long, *some[:3]])) == b",".join([long, *some[:3]])


@given(st.lists(st.binary(max_size=300), max_size=40).map(b",".join))
def test_any_state_is_read_and_reads_again_the_same(value: bytes) -> None:
    state = read_state(value)
    assert len(state) <= 512
    assert read_state(state) == state


@pytest.mark.parametrize(("flags", "shown"), [(0, b"01"), (1, b"01"), (2, b"03"), (3, b"03")])
def test_ours_is_sampled_and_read_again(flags: int, shown: bytes) -> None:
    value = traceparent(TRACE, SPAN, flags)
    assert value[-2:] == shown
    assert read_parent(value) == Parent(TRACE, SPAN, flags | 1)
