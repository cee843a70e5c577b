"""What request headers ask for."""

import pytest

from headgate.core.outcome import Reason
from headgate.core.refusal import Refused
from headgate.core.request import NO_OPTIONS, read_options


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
