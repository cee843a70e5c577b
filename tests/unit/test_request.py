"""What request headers ask for."""

import pytest

from headgate.core.event import Refused
from headgate.core.http.request import NO_WISHES, read_wishes
from headgate.core.outcome import Reason


def refusal(name: bytes, value: bytes) -> Reason:
    with pytest.raises(Refused) as caught:
        read_wishes({name: value})
    assert name.decode().title() in caught.value.failure.detail
    return caught.value.failure.reason


def test_ordinary_headers_ask_for_nothing() -> None:
    headers = {b"host": b"x", b"content-type": b"application/json", b"x-request-id": b"7"}
    assert read_wishes(headers) is NO_WISHES


def test_each_header_is_read() -> None:
    wishes = read_wishes(
        {
            b"headgate-key": "ключ".encode(),
            b"headgate-event-id": b"e-1",
            b"headgate-timestamp": b"1700000000000",
            b"headgate-tombstone": b"True",
            b"headgate-force": b"true",
            b"prefer": b"respond-async, return=minimal",
        }
    )
    assert wishes.key == "ключ".encode()
    assert wishes.event_id == "e-1"
    assert wishes.timestamp_ms == 1_700_000_000_000
    assert (wishes.tombstone, wishes.force, wishes.minimal) == (True, True, True)
    assert wishes.single_event_header == "Headgate-Key"


@pytest.mark.parametrize("name", ["Key", "Event-Id", "Timestamp", "Tombstone"])
def test_headers_that_mean_one_event_are_named(name: str) -> None:
    header = f"Headgate-{name}"
    value = b"1"
    assert read_wishes({header.lower().encode(): value}).single_event_header == header
    assert read_wishes({b"headgate-force": b"true"}).single_event_header is None


def test_what_is_false_asks_for_nothing() -> None:
    headers = {b"headgate-force": b"0", b"headgate-tombstone": b"false", b"prefer": b"wait=1"}
    wishes = read_wishes(headers)
    assert (wishes.tombstone, wishes.force, wishes.minimal) == (False, False, False)


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
    wishes = read_wishes(
        {
            b"headgate-header-tenant": b"\xff raw",
            b"headgate-header-hg-producer": b"forged",
            b"headgate-header-hg-": b"forged",
            b"headgate-header-": b"nameless",
            b"traceparent": b"00-abc-def-01",
            b"tracestate": b"x=y",
        }
    )
    assert dict(wishes.record_headers) == {"tenant": b"\xff raw", "traceparent": b"00-abc-def-01"}
