"""CloudEvents 1.0: binary, structured and batch over HTTP, to Kafka's binding."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.formats.cloudevents import batch, from_headers, from_json, time_ms
from headgate.ingest.records import build_record
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import RawEvent
from support.gateway.fakes import common, route

HEADERS = {b"ce-specversion": b"1.0", b"ce-id": b"7", b"ce-source": b"/s", b"ce-type": b"t"}
REQUIRED = b'"specversion":"1.0","id":"7","source":"/s","type":"t"'


def binary(body: bytes = b"", structured: bool = False, **changes: bytes | None) -> RawEvent:
    """Binary mode; underscores in names stand for dashes, None takes a header away."""
    named = {name.replace("_", "-").encode(): value for name, value in changes.items()}
    headers = {name: value for name, value in {**HEADERS, **named}.items() if value is not None}
    return from_headers(body, headers, structured)


def structured(more: bytes, keep: bool = False) -> RawEvent:
    return from_json(b"{" + REQUIRED + more + b"}", keep)


def refused(make: object, *args: object, **kwargs: object) -> Failure:
    with pytest.raises(Refused) as caught:
        make(*args, **kwargs)  # type: ignore[operator]
    assert caught.value.failure.reason is Reason.MALFORMED
    return caught.value.failure


# ---- binary mode


def test_binary_mode_takes_attributes_from_headers_and_the_body_as_it_is() -> None:
    event = binary(b'{"a": 1.0}', content_type=b"application/json", ce_subject=b"s1", ce_x1=b"y")
    assert event.value == event.document == b'{"a": 1.0}'
    assert event.key == b"s1"
    assert event.event_id == "7"
    assert event.content_type == b"application/json"
    assert dict(event.headers) == {
        "ce_specversion": b"1.0", "ce_id": b"7", "ce_source": b"/s", "ce_type": b"t",
        "ce_subject": b"s1", "ce_x1": b"y",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content_type", "is_document"),
    [(b"application/json", True), (b"text/json", True), (b"application/x+JSON; a=b", True),
     (b"application/avro", False), (b"text/plain", False), (b"application/octet-stream", False)],
)  # fmt: skip
def test_pointers_look_into_json_data_only(content_type: bytes, is_document: bool) -> None:
    event = binary(b"{}", content_type=content_type)
    assert (event.document is not None) == is_document
    assert event.content_type == content_type


def test_data_that_claims_to_be_json_must_be_it() -> None:
    def publish(body: bytes) -> None:
        event = binary(body, content_type=b"application/json")
        build_record(route(keyless="spread"), event, common())

    publish(b'{"a":"\\ud800"}')
    for body in (b"{", b'{"a":"\xff"}', b'["\\ud800\xff"]'):
        refused(publish, body)


def test_no_data_is_a_zero_length_value_and_never_a_tombstone() -> None:
    event = binary(b"")
    assert (event.value, event.document, event.content_type) == (b"", None, None)
    assert structured(b"").value == b""


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b"a%20b", "a b"),
        (b"%22x%22", '"x"'),
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € \U0001f600"),
        (b"100%25", "100%"),
        (b"%2520", "%20"),  # decoded once
        ("roh é".encode(), "roh é"),
        (b'"a b"', "a b"),  # quoted by senders of an older version of the binding
        (b'"a \\"b\\" \\\\ %20c"', 'a "b" \\  c'),
        (b'"', '"'),
        (b"50%", "50%"),
    ],
)
def test_header_values_are_unquoted_and_percent_decoded(sent: bytes, meant: str) -> None:
    event = binary(ce_subject=sent)
    assert event.key == meant.encode()
    assert dict(event.headers)["ce_subject"] == meant.encode()


@pytest.mark.parametrize("name", ["ce_id", "ce_source", "ce_type"])
def test_the_required_attributes_must_be_there(name: str) -> None:
    detail = refused(binary, **{name: None}).detail
    assert name[3:] in detail
    refused(binary, **{name: b""})


def test_other_bad_attributes_are_malformed() -> None:
    refused(binary, ce_specversion=b"0.3")
    refused(binary, ce_subject=b"%FF")
    refused(binary, **{"ce_a.b": b"x"})
    refused(binary, ce_=b"x")
    refused(binary, ce_time=b"yesterday")


# ---- structured mode


def test_structured_mode_becomes_kafkas_binary_mode() -> None:
    event = structured(b',"data": {"a" : 1.0,"a":2} ,"comexampleflag":true,"n":-5')
    assert event.value == event.document == b'{"a" : 1.0,"a":2}'
    assert event.content_type == b"application/json"
    assert dict(event.headers) == {
        "ce_specversion": b"1.0", "ce_id": b"7", "ce_source": b"/s", "ce_type": b"t",
        "ce_comexampleflag": b"true", "ce_n": b"-5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "value", "is_document"),
    [
        (b',"data":null', b"null", True),
        (b',"data":"x\\u0041"', b'"x\\u0041"', True),
        (b',"data":1E400', b"1E400", True),
        (b',"data":"\\ud800"', b'"\\ud800"', True),
        (b',"data":"x","datacontenttype":"application/x+json"', b'"x"', True),
        (b',"data":"<a>\\n\\u00e9</a>","datacontenttype":"text/xml"', b"<a>\n\xc3\xa9</a>", False),
        (b',"data":{"a":1},"datacontenttype":"text/xml"', b'{"a":1}', False),
        (b',"data_base64":"AP+A","datacontenttype":"image/png"', b"\x00\xff\x80", False),
        (b',"data_base64":"e30=","datacontenttype":"application/json"', b"{}", True),
        (b',"data_base64":"","datacontenttype":"image/png"', b"", False),
    ],
)
def test_data_gives_the_value(more: bytes, value: bytes, is_document: bool) -> None:
    event = structured(more)
    assert event.value == value
    assert (event.document == value) == is_document


@pytest.mark.parametrize(
    "more",
    [
        b',"data":1,"data_base64":"e30="',
        b',"data_base64":"e3"',
        b',"data_base64":"e30=\\n"',
        b',"data_base64":"*"',
        b',"data_base64":7',
        b',"data":"\\ud800","datacontenttype":"text/plain"',
        b',"subject":{}',
        b',"subject":[]',
        b',"n":1.5',
        b',"n":1e5',
        b',"n":1E5',
        b',"Subject":"x"',
        b',"my_name":"x"',
        b',"":"x"',
        '"é":1'.encode(),
        b',"subject":"\\ud800"',
        b',"time":"2024-13-01T00:00:00Z"',
        b',1:"\\ud800"',
        b",",
    ],
)
def test_bad_structured_events_are_malformed(more: bytes) -> None:
    refused(structured, more)


@pytest.mark.parametrize("text", [b"[]", b'"x"', b"null", b"{", b"{}", b"{} x", b'{"\xff":1}'])
def test_what_is_no_cloudevent_at_all(text: bytes) -> None:
    refused(from_json, text, False)


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (b',"data_base64":null', b""),
        (b',"data":1,"data_base64":null', b"1"),
        (b',"data":null,"data_base64":"eA=="', b"x"),
        (b',"data":null,"data_base64":null', b"null"),
    ],
)
def test_null_data_is_absent_beside_other_data(more: bytes, value: bytes) -> None:
    assert structured(more).value == value
    (found,) = batch(b"[{" + REQUIRED + more + b"}]", structured=False)
    assert isinstance(found, RawEvent)
    assert found.value == value


def test_null_attributes_are_absent() -> None:
    event = structured(b',"subject":null,"time":null,"datacontenttype":null,"x":null')
    assert event.key is None
    assert event.timestamp_ms is None
    assert len(event.headers) == 4
    refused(from_json, b'{"specversion":"1.0","id":null,"source":"/s","type":"t"}', False)


def test_json_in_base64_must_be_utf8_too() -> None:
    encoded = base64.b64encode(b'{"a":"\xff"}')
    refused(structured, b',"data_base64":"' + encoded + b'"')


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (b',"partitionkey":"p","subject":"s"', b"p"),
        (b',"partitionkey":null,"subject":"s"', b"s"),
        (b',"subject":"s"', b"s"),
        (b',"subject":""', None),
        (b"", None),
    ],
)
def test_partitionkey_comes_before_subject(more: bytes, key: bytes | None) -> None:
    assert structured(more).key == key


def test_an_empty_partitionkey_is_no_key() -> None:
    """It is refused as any empty key is; the subject must not order in its place."""
    for more in (b',"partitionkey":"","subject":"s"', b',"partitionkey":""'):
        with pytest.raises(Refused) as caught:
            structured(more)
        assert caught.value.failure.reason is Reason.MISSING_KEY
    headers = {
        b"ce-specversion": b"1.0", b"ce-id": b"7", b"ce-source": b"/s", b"ce-type": b"t",
        b"ce-partitionkey": b"", b"ce-subject": b"s",
    }  # fmt: skip
    with pytest.raises(Refused) as caught:
        from_headers(b"", headers, False)
    assert caught.value.failure.reason is Reason.MISSING_KEY


def test_the_key_precedence_is_request_then_attributes_then_pointers() -> None:
    orders = route(key=("/id",))
    event = structured(b',"data":{"id":"doc"},"subject":"s"')
    assert build_record(orders, event, common()).key == b"s"
    assert build_record(orders, event, common(key=b"r")).key == b"r"
    plain = structured(b',"data":{"id":"doc"}')
    assert build_record(orders, plain, common()).key == b"doc"


# ---- structured in Kafka


def test_structured_stays_the_exact_text_if_asked() -> None:
    text = b'{ "data" : [1.0], ' + REQUIRED + b', "subject":"s" }'
    event = from_json(text, True)
    assert event.value == text
    assert (event.document, event.key, event.headers) == (b"[1.0]", b"s", ())
    assert event.content_type == b"application/cloudevents+json"


def test_binary_mode_can_become_structured() -> None:
    event = binary(b'{"a": 1E400}', structured=True, content_type=b"application/json")
    assert event.value is not None
    again = from_json(event.value, False)
    assert again.value == b'{"a": 1E400}'
    assert again.headers == binary(b"").headers
    opaque = binary(b"\x00\xff", structured=True, content_type=b"image/png")
    assert opaque.value is not None
    assert from_json(opaque.value, False).value == b"\x00\xff"
    assert from_json(binary(b"", structured=True).value or b"", False).value == b""


# ---- batch mode


def test_a_wrong_event_of_a_batch_fails_alone() -> None:
    good = b"{" + REQUIRED + b',"data":"\\ud800"}'
    events = batch(b"[ " + good + b" , {}, 7, " + good + b"]", True)
    assert [isinstance(event, RawEvent) for event in events] == [True, False, False, True]
    assert all(event.value == good for event in events if isinstance(event, RawEvent))
    refused(batch, b"{" + REQUIRED + b"}", False)
    refused(batch, b"[{]", False)


# ---- time


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2018-04-05T17:31:00Z", 1522949460000),
        ("2018-04-05T19:31:00.125+02:00", 1522949460125),
        ("2018-04-05t17:31:00z", 1522949460000),
        ("2018-04-05T17:31:00.1239999Z", 1522949460123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2016-12-31T23:59:60Z", 1483228799000),  # a leap second, which Unix time has not
    ],
)
def test_times_are_rfc_3339(time: str, expected: int) -> None:
    assert time_ms(time) == expected


@pytest.mark.parametrize(
    "time",
    ["", "now", "2018-04-05", "2018-04-05T17:31:00", "20180405T173100Z", "2018-W14-4T17:31:00Z",
     "2018-04-05T17:31Z", "2018-04-05T17:31:00,5Z", "2018-02-30T00:00:00Z", "2018-04-05T24:00:00Z",
     "2018-04-05T17:31:00+0200", "2018-04-05T17:31:61Z", "1522949460000",
     "\uff12018-04-05T17:31:00Z"],
)  # fmt: skip
def test_other_times_are_malformed(time: str) -> None:
    with pytest.raises(Refused):
        time_ms(time)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_milliseconds_are_exact(moment_ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)
    assert time_ms(moment.isoformat(timespec="milliseconds")) == moment_ms
