"""From a body to events: the table of content types, exact slices, and what is refused."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.formats.decode import BodyKind, Decoded, decode, kind_of, with_hint
from headgate.ingest.records import build_record
from headgate.model.outcome import Failure, Reason, Refused, malformed
from headgate.model.publish import RawEvent
from headgate.model.route import Route
from support.gateway.fakes import common, route
from support.gateway.json_texts import BAD_UTF8, NO, YES
from support.scale import examples

JSON, NDJSON = b"application/json", b"application/x-ndjson"


def post(body: bytes, content_type: bytes | None = JSON, **headers: bytes) -> Decoded:
    """Decode with these headers; underscores in names stand for dashes."""
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    if content_type is not None:
        named[b"content-type"] = content_type
    return decode(body, named)


def value(event: bytes | RawEvent | Failure) -> bytes | Reason | None:
    if isinstance(event, bytes):
        return event
    return event.reason if isinstance(event, Failure) else event.value


def values(decoded: Decoded) -> list[bytes | Reason | None]:
    return [value(event) for event in decoded.events]


def endings(decoded: Decoded) -> list[bytes | Reason | None]:
    """Values of what the topic takes; it has no key rule and validates everything."""
    anything, found = route(keyless="spread"), list[bytes | Reason | None]()
    for event in decoded.events:
        if isinstance(event, Failure):
            found.append(event.reason)
            continue
        try:
            found.append(build_record(anything, event, common()).value)
        except Refused as refused:
            found.append(refused.failure.reason)
    return found


def refusal(body: bytes, content_type: bytes | None = JSON, **headers: bytes) -> Reason:
    with pytest.raises(Refused) as caught:
        post(body, content_type, **headers)
    return caught.value.failure.reason


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        (b"application/json", BodyKind.JSON),
        (b"Application/JSON ; charset=utf-8", BodyKind.JSON),
        (b"application/x-ndjson", BodyKind.NDJSON),
        (b"application/cloudevents+json; charset=UTF-8", BodyKind.CLOUDEVENT),
        (b"application/cloudevents-batch+json", BodyKind.CLOUDEVENTS),
        (b"application/problem+json", BodyKind.JSON_ONE),
        (b"application/vnd.acme.v2+json;x=y", BodyKind.JSON_ONE),
        (b"application/octet-stream", BodyKind.OPAQUE),
        (b"text/plain", BodyKind.OPAQUE),
        (b"application/avro", BodyKind.OPAQUE),
        (b"application/jsonp", BodyKind.OPAQUE),
        (b"Application/Vnd.Headgate.Batch+JSON ; charset=utf-8", BodyKind.ENVELOPE),
        (b"", BodyKind.OPAQUE),
    ],
)
def test_the_content_type_says_how_a_body_is_cut(content_type: bytes, kind: BodyKind) -> None:
    assert kind_of(content_type) is kind


@pytest.mark.parametrize("text", YES)
@pytest.mark.parametrize("blanks", [(b"", b""), (b" \r\n", b"\t\n")])
def test_one_document_is_published_byte_by_byte(text: bytes, blanks: tuple[bytes, bytes]) -> None:
    body = blanks[0] + text + blanks[1]
    decoded = post(body, headgate_batch=b"false")
    assert decoded.is_batch is False
    assert decoded.events == endings(decoded) == [body]
    other = post(body, b"application/vnd.acme+json")
    assert endings(other) == [body]
    assert other.events == [RawEvent(body, body, content_type=b"application/vnd.acme+json")]
    assert not other.is_batch


@pytest.mark.parametrize("text", NO + BAD_UTF8)
def test_what_is_not_json_is_malformed(text: bytes) -> None:
    for headers in ({}, {"headgate_batch": b"false"}):
        try:
            found = endings(post(text, **headers))
        except Refused as refused:
            found = [refused.failure.reason]
        assert Reason.MALFORMED in found


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(YES), st.sampled_from([b"", b" ", b"\n\t"])), max_size=8))
def test_array_elements_are_exact_slices(parts: list[tuple[bytes, bytes]]) -> None:
    body = b" [" + b",".join(blank + text + blank for text, blank in parts) + b"]\n"
    decoded = post(body)
    assert decoded.is_batch is True
    assert all(isinstance(event, bytes) for event in decoded.events)
    assert endings(decoded) == [text.strip(b" \t\r\n") for text, _ in parts]


def test_an_array_as_one_event_if_asked() -> None:
    assert post(b"[1, 2]", headgate_batch=b"false").is_batch is False
    assert values(post(b"[1, 2]", headgate_batch=b"FALSE")) == [b"[1, 2]"]
    assert values(post(b"[1, 2]", headgate_batch=b"true")) == [b"1", b"2"]
    assert values(post(b"[1, 2]", b"application/x+json")) == [b"[1, 2]"]


def is_empty_batch(decoded: Decoded) -> bool:
    return decoded.is_batch and not decoded.events


def test_a_batch_of_nothing_is_no_error_and_an_empty_body_is() -> None:
    assert is_empty_batch(post(b"[]"))
    assert is_empty_batch(post(b" [ ] "))
    assert is_empty_batch(post(b"\n \r\n\n", NDJSON))
    assert is_empty_batch(post(b"[]", b"application/cloudevents-batch+json"))
    for content_type in (JSON, NDJSON, b"application/x+json", b"application/cloudevents+json"):
        assert refusal(b"", content_type) is Reason.MALFORMED
    assert values(post(b"", b"text/plain")) == [b""]


def test_opaque_bytes_are_one_event_with_their_content_type() -> None:
    body = b'\x00\xff[1,2]\n\xef\xbb\xbf{"id":1}'
    decoded = post(body, b"application/avro; x=1")
    assert decoded.events == [RawEvent(body, content_type=b"application/avro; x=1")]
    assert not decoded.is_batch
    assert post(body, None).events == [RawEvent(body, content_type=b"application/octet-stream")]


# ---- lines


def test_each_line_is_an_event_and_blank_lines_are_not() -> None:
    body = b'{"a":1}\n\n  \t\n {"b": 2 } \n"x"\n[1, 2]'
    assert endings(post(body, NDJSON)) == [b'{"a":1}', b' {"b": 2 } ', b'"x"', b"[1, 2]"]
    assert post(body, NDJSON).is_batch is True
    assert post(b"1", NDJSON).is_batch is True


def test_crlf_ends_a_line_too() -> None:
    assert endings(post(b'{"a":1}\r\n\r\n{"b":2}\r\n1\n2\r', NDJSON)) == [
        b'{"a":1}', b'{"b":2}', b"1", b"2",
    ]  # fmt: skip


def test_a_bad_line_fails_alone() -> None:
    lines = [b'{"a":1}', b"{} {}", b"{", b'{"a":"\xff"}', b'{"a":"\\ud800"}', b"NaN", b"7"]
    bad = Reason.MALFORMED
    assert endings(post(b"\n".join(lines), NDJSON)) == [
        lines[0], bad, bad, bad, lines[4], bad, lines[6],
    ]  # fmt: skip


def test_ten_thousand_lines_with_three_bad_ones() -> None:
    lines = [b'{"id":%d}' % number for number in range(10_000)]
    for number in (0, 5_000, 9_999):
        lines[number] = b'{"id":'
    found = endings(post(b"\n".join(lines), NDJSON))
    assert [number for number, one in enumerate(found) if one is Reason.MALFORMED] == [
        0, 5_000, 9_999,
    ]  # fmt: skip
    assert found[1:5_000] == lines[1:5_000]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(YES + NO + BAD_UTF8).filter(lambda text: b"\n" not in text)),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_lines_are_judged_one_by_one(lines: list[bytes], end: bytes) -> None:
    if end.join(lines).startswith(b"\xef\xbb\xbf") or not lines or not end.join(lines):
        return
    good = set(YES)
    expected = [
        line if line in good else Reason.MALFORMED
        for line in lines
        if line.strip(b" \t\r\n")
    ]  # fmt: skip
    assert endings(post(end.join(lines), NDJSON)) == expected


# ---- refused as a whole


@pytest.mark.parametrize("content_type", [JSON, NDJSON, b"application/x+json"])
def test_a_byte_order_mark_is_malformed(content_type: bytes) -> None:
    assert refusal(b"\xef\xbb\xbf{}", content_type) is Reason.MALFORMED


@pytest.mark.parametrize("body", [b'["\xff"]', b'["\\ud800","\xff"]', b'[1, "\xff\\ud800", 2]'])
def test_bad_utf8_in_an_array_is_refused(body: bytes) -> None:
    try:
        found = values(post(body))
    except Refused as refused:
        found = [refused.failure.reason]
    assert Reason.MALFORMED in found


def test_a_hundred_thousand_brackets_are_malformed_everywhere() -> None:
    deep = b"[" * 100_000
    assert refusal(deep) is Reason.MALFORMED
    assert endings(post(deep, headgate_batch=b"false")) == [Reason.MALFORMED]
    assert endings(post(deep + b"\n1", NDJSON)) == [Reason.MALFORMED, b"1"]
    assert endings(post(b'{"a":' * 100_000)) == [Reason.MALFORMED]


def test_the_depth_is_counted_for_each_event() -> None:
    at, over = b"[" * 128 + b"]" * 128, b"[" * 129 + b"]" * 129
    assert endings(post(at + b"\n" + over, NDJSON)) == [at, Reason.MALFORMED]
    assert endings(post(b"[" + at + b"," + over + b"]")) == [at, Reason.MALFORMED]
    assert endings(post(at, headgate_batch=b"false")) == [at]
    assert endings(post(over, headgate_batch=b"false")) == [Reason.MALFORMED]


# ---- tombstones


@pytest.mark.parametrize("content_type", [None, JSON, b"text/plain", b"application/x+json"])
def test_a_tombstone_has_an_empty_body_of_any_type(content_type: bytes | None) -> None:
    decoded = post(b"", content_type, headgate_tombstone=b"true")
    assert decoded.is_batch is False
    assert values(decoded) == [None]


@pytest.mark.parametrize("content_type", [None, JSON, b"text/plain"])
def test_a_tombstone_with_a_body_is_refused_not_thrown_away(content_type: bytes | None) -> None:
    assert refusal(b"{}", content_type, headgate_tombstone=b"true") is Reason.MALFORMED


def test_no_tombstone_without_the_flag() -> None:
    assert values(post(b"null")) == [b"null"]
    assert values(post(b"{}", headgate_tombstone=b"false")) == [b"{}"]
    assert refusal(b"", headgate_tombstone=b"false") is Reason.MALFORMED


def test_a_tombstone_of_a_cloudevent_keeps_its_attributes() -> None:
    attributes = {"ce_specversion": b"1.0", "ce_id": b"7", "ce_source": b"s", "ce_type": b"t"}
    (event,) = post(b"", None, headgate_tombstone=b"true", **attributes).events
    assert isinstance(event, RawEvent)
    assert event.value is None
    assert event.event_id == "7"
    assert refusal(b"x", None, headgate_tombstone=b"true", **attributes) is Reason.MALFORMED


# ---- whatever comes

pieces = st.sampled_from([*YES, *NO, *BAD_UTF8, b"\n", b"\r\n", b",", b"[", b"]", b"{", b"}"])
ATTRIBUTES = b'"specversion":"1.0","id":"7","source":"/s","type":"t","time":"2024-01-01T00:00:00Z"'
bodies = st.lists(pieces | st.binary(max_size=8), max_size=6).map(b"".join) | st.lists(
    st.tuples(st.sampled_from(["data", "data_base64", "subject", "x", "datacontenttype"]), pieces),
    max_size=3,
).map(
    lambda more: (
        b"{%s}"
        % b",".join([ATTRIBUTES, *(b'"%s":%s' % (name.encode(), text) for name, text in more)])
    )
)
TYPES = [
    JSON, NDJSON, b"application/x+json", b"application/cloudevents+json", b"text/plain", b"",
    b"application/cloudevents-batch+json",
]  # fmt: skip
RULES = [
    route(keyless="spread", key=key, timestamp=timestamp)
    for key in ((), ("/id",), ("/0",), ("/data/a", "/x~0~1"), ("",))
    for timestamp in ("arrival", "event")
]


@settings(max_examples=examples(500), deadline=None)
@given(
    bodies, st.sampled_from(TYPES), st.booleans(), st.sampled_from(RULES),
    st.dictionaries(st.sampled_from([b"ce-id", b"ce-time", b"ce-subject", b"ce-x"]), st.binary()),
    st.booleans(),
)  # fmt: skip
def test_any_body_ends_in_events_or_in_a_refusal(
    body: bytes, content_type: bytes, structured: bool, rules: Route,
    more: dict[bytes, bytes], is_binary: bool,
) -> None:  # fmt: skip
    headers = {b"content-type": content_type, **more}
    if is_binary:
        attributes = {b"ce-specversion": b"1.0", b"ce-source": b"/s", b"ce-type": b"t"}
        headers = {**attributes, b"ce-id": b"7", **headers}
    try:
        events = decode(body, headers, structured).events
    except Refused:
        return
    for event in events:
        if not isinstance(event, Failure):
            with suppress(Refused):
                made = build_record(rules, event, common())
                assert isinstance(made.value, bytes)
                assert all(isinstance(content, bytes) for _, content in made.headers)


# Bodies with very many events: refused before they are cut, and never refused wrongly.


IN_JSON = {b"content-type": b"application/json"}
IN_LINES = {b"content-type": b"application/x-ndjson"}
CLOUDEVENTS = {b"content-type": b"application/cloudevents-batch+json"}
ENVELOPE = {b"content-type": b"application/vnd.headgate.batch+json"}
MANY = 300_000


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"1\n" * MANY, IN_LINES),
        (b"1\n" * 11, IN_LINES),
        (b"\n \n1" * 11, IN_LINES),
        (b"[" + b"1," * MANY + b"1]", IN_JSON),
        (b" [ " + b"1 , " * MANY, IN_JSON),
        (b"[" + b"{}," * MANY + b"{}]", CLOUDEVENTS),
        (b'{"events":[' + b"{}," * MANY + b"{}]}", ENVELOPE),
    ],
)
def test_more_than_the_limit(body: bytes, headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Refused) as caught:
        decode(body, headers, limit=10)
    assert caught.value.failure.reason is Reason.TOO_MANY_EVENTS
    assert caught.value.failure.figures == {"limit": 10}


def test_many_commas_are_not_many_events() -> None:
    elements = [b'[{"n":[%s]},"a,b"]' % b",".join([b"1"] * (MANY // 10))] * 10
    body = b" [" + b" ,\n".join(elements) + b"] "
    assert decode(body, IN_JSON, limit=10).events == elements
    with pytest.raises(Refused) as caught:
        decode(body.replace(b"] ", b",1] "), IN_JSON, limit=10)
    assert caught.value.failure.reason is Reason.TOO_MANY_EVENTS


@pytest.mark.parametrize("body", [b"[1" + b"," * MANY, b"[" + b",[" * MANY])
def test_crowds_that_are_no_json(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode(body, IN_JSON, limit=10)
    assert caught.value.failure.reason is Reason.MALFORMED


def test_blank_lines_are_no_events() -> None:
    lines = [json.dumps({"id": n}).encode() for n in range(10)]
    body = b"\n" * MANY + b"\r\n \n\t".join(lines) + b"\n" * MANY
    assert [bytes(each).strip() for each in decode(body, IN_LINES, limit=10).events] == lines
    few = decode(b"\r\n \n\t".join(lines), IN_LINES, limit=100).events
    assert decode(body, IN_LINES, limit=10).events == few, "the same slices on both ways"


def test_a_wrong_flag_of_a_tombstone_gets_no_hint_about_a_body() -> None:
    failure = malformed("Headgate-Tombstone is true, 1, false or 0, not 'yes'")
    assert with_hint(failure, {b"headgate-tombstone": b"yes"}, b"") == failure
