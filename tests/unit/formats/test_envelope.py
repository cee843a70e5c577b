"""The envelope: what its events become, exact slices, and what is refused where."""

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.formats.decode import decode
from headgate.formats.envelope import read_envelope
from headgate.ingest.records import build_record
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import RawEvent
from headgate.model.route import Route
from support.gateway.fakes import common, route
from support.gateway.json_texts import NO, YES

MOST = 10_000


def one(event: str | bytes) -> RawEvent | Failure:
    """The only event of an envelope with this element."""
    text = event.encode() if isinstance(event, str) else event
    (found,) = read_envelope(b'{"events": [' + text + b"]}", MOST)
    return found


def event(text: str | bytes) -> RawEvent:
    found = one(text)
    assert isinstance(found, RawEvent), found
    return found


def reason(text: str | bytes) -> Reason:
    found = one(text)
    assert isinstance(found, Failure), found
    return found.reason


def test_an_event_has_what_its_members_say() -> None:
    found = event(
        '{"key": "k\\u00e9", "value": {"a" : 1.50}, "id": "e-1", "timestamp_ms": 1700000000000,'
        ' "headers": {"Shop": "é", "hg-producer": "x", "HG-x": "y"}}'
    )
    assert found == RawEvent(
        b'{"a" : 1.50}', b'{"a" : 1.50}', "ké".encode(), "e-1", 1_700_000_000_000,
        b"application/json", (("Shop", "é".encode()),),
    )  # fmt: skip


def test_null_is_absent_beside_another_value_and_among_headers() -> None:
    found = event('{"value": 1, "tombstone": null, "headers": {"a": null, "b": "c"}}')
    assert (found.value, found.headers) == (b"1", (("b", b"c"),))
    assert event('{"value": null, "value_base64": "eA=="}').value == b"x"
    assert event('{"value": null, "tombstone": true}').value is None
    assert event('{"value": 1, "headers": {"content-type": null}}').content_type == (
        b"application/json"
    )


def test_headers_of_the_gateway_are_dropped() -> None:
    given = {"hg-x": "", "CE_DataRef": "", "traceparent": "", "tracestate": "", "ce_id": "7"}
    assert event(json.dumps({"value": 1, "headers": given})).headers == (("ce_id", b"7"),)


def test_what_may_be_left_out_may_be_null() -> None:
    found = event(
        '{"key": null, "key_base64": null, "value": null, "value_base64": null, "id": null,'
        ' "headers": null, "timestamp_ms": null, "tombstone": false}'
    )
    assert found == RawEvent(b"null", b"null", content_type=b"application/json")


def test_bytes_come_as_base64() -> None:
    found = event('{"key_base64": "/wA=", "value_base64": "iVBORw=="}')
    assert found == RawEvent(b"\x89PNG", None, b"\xff\0")
    assert event('{"key": "k", "value_base64": ""}').value == b""


def test_a_content_type_among_the_headers_is_that_of_the_record() -> None:
    png = event(
        '{"key": "k", "value_base64": "iVBORw==", "headers": {"Content-Type": "image/png"}}'
    )
    assert (png.content_type, png.headers) == (b"image/png", ())
    patch = event('{"value": [], "headers": {"content-type": "application/json-patch+json"}}')
    assert patch.content_type == b"application/json-patch+json"


def test_a_tombstone_has_no_value_and_no_document() -> None:
    assert event('{"key": "k", "tombstone": true}') == RawEvent(None, None, b"k")


@pytest.mark.parametrize(
    "text",
    [
        "{}", '{"key": "k"}', '{"value": 1, "value_base64": "aQ=="}', '{"value": 1, "x": 2}',
        '{"value": 1, "tombstone": true}', '{"value_base64": "aQ", "key": "k"}',
        '{"value_base64": "a Q=", "key": "k"}', '{"value_base64": "é", "key": "k"}',
        '{"key": "k", "key_base64": "aQ==", "value": 1}', '{"key": 1, "value": 1}',
        '{"key_base64": "*", "value": 1}', '{"value": 1, "id": ""}', '{"value": 1, "id": 7}',
        '{"value": 1, "timestamp_ms": -1}', '{"value": 1, "timestamp_ms": 1.5}',
        '{"value": 1, "timestamp_ms": 1000000000000000}', '{"value": 1, "timestamp_ms": "1"}',
        '{"value": 1, "headers": {"": "x"}}', '{"value": 1, "headers": {"é": "x"}}',
        '{"value": 1, "headers": {"a b": "x"}}', '{"value": 1, "headers": {"a": 1}}',
        '{"value": 1, "headers": ["a"]}', '{"value": 1, "tombstone": 1}', "[]", "7", "null", '"x"',
        '{"value": "\\ud800", "x": 1}', '{"value": 1, "id": "\\ud800"}',
        '{"value": "\\ud800", "id": 7}', '["\\ud800"]',
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_event_is_malformed(text: str) -> None:
    assert reason(text) is Reason.MALFORMED
    # Whatever stands around it, and in the slow reading, too.
    before, wrong, after = read_envelope(
        b'{"events": [{"value": 1}, ' + text.encode() + b', {"value": "\\ud800"}]}', MOST
    )
    assert isinstance(before, RawEvent)
    assert isinstance(wrong, Failure)
    assert isinstance(after, RawEvent)


def test_an_id_is_at_most_256_bytes() -> None:
    assert event('{"value": 1, "id": "' + "é" * 128 + '"}').event_id == "é" * 128
    assert reason('{"value": 1, "id": "' + "é" * 128 + 'x"}') is Reason.MALFORMED


def test_empty_and_invalid_keys_of_envelopes_are_refused() -> None:
    assert reason('{"key": "", "value": 1}') is Reason.MISSING_KEY
    assert reason('{"key_base64": "", "value": 1}') is Reason.MISSING_KEY
    assert reason('{"key": "\\ud800", "value": 1}') is Reason.MALFORMED


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"{}", b"null", b'{"events": {}}', b'{"events": null}', b'{"events": [],"x":1}',
        b'{"events": [}', b'{"events": [{"value": 1}]} x', b'{"events": [{"value": 1}',
        b'{"x":"\\ud800","events":[]}', b'{"events": "\\ud800"}', b'["\\ud800"]', b"x",
        b'{"events": [{"value": "\\ud800"}]',
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        read_envelope(body, MOST)
    assert caught.value.failure.reason is Reason.MALFORMED


def test_an_empty_envelope_has_no_events() -> None:
    assert read_envelope(b' { "events" : [ ] } ', MOST) == []


def test_invalid_utf8_spoils_only_its_event() -> None:
    found = read_envelope(b'{"events": [{"value": "\xff"}, {"value": "\xc3\xa9"}]}', MOST)
    assert isinstance(found[0], Failure)
    assert found[0].reason is Reason.MALFORMED
    assert isinstance(found[1], RawEvent)


def ending(found: RawEvent | Failure, anything: Route) -> bytes | Reason | None:
    if isinstance(found, Failure):
        return found.reason
    try:
        return build_record(anything, found, common()).value
    except Refused as refused:
        return refused.failure.reason


@pytest.mark.parametrize("text", YES)
def test_valid_values_are_exact_slices(text: bytes) -> None:
    anything = route(keyless="spread")
    assert ending(one(b'{"value":' + text + b"}"), anything) == text.strip(b" \t\r\n")
    beside = read_envelope(b'{"events":[{"value":"\\ud800"},{"value":' + text + b"}]}", MOST)
    assert ending(beside[1], anything) == text.strip(b" \t\r\n")


@pytest.mark.parametrize("text", NO)
def test_invalid_values_never_pass(text: bytes) -> None:
    body = b'{"events":[{"value":' + text + b"}]}"
    anything = route(keyless="spread")
    with suppress(Refused):  # the envelope is broken as a whole
        assert Reason.MALFORMED in [ending(each, anything) for each in read_envelope(body, MOST)]


def is_encodable(text: str) -> bool:
    return not any(0xD800 <= ord(sign) < 0xE000 for sign in text)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    JSON_VALUES, st.booleans(), st.sampled_from([None, 2]),
).filter(is_encodable)  # fmt: skip


@given(st.lists(st.tuples(TEXTS, st.binary(min_size=1, max_size=9), st.booleans()), max_size=5))
def test_every_event_comes_out_as_it_went_in(events: list[tuple[str, bytes, bool]]) -> None:
    """Values byte for byte, keys as bytes; lone surrogates (of `st.text`, escaped) included."""
    texts = []
    for text, key, as_bytes in events:
        value = '"value": ' + text
        if as_bytes:
            value = f'"value_base64": "{base64.b64encode(text.encode()).decode()}"'
        texts.append(f'{{"key_base64": "{base64.b64encode(key).decode()}", {value}}}')
    body = ('{"events":[' + " , ".join(texts) + "]}").encode()
    decoded = decode(body, {b"content-type": b"Application/vnd.headgate.batch+json; charset=utf-8"})
    assert decoded.is_batch
    assert [
        (found.value, found.key, found.document is None)
        for found in decoded.events
        if isinstance(found, RawEvent)
    ] == [(text.encode(), key, as_bytes) for text, key, as_bytes in events]
