"""Confluent REST v2 and v3: what requests become, and the exact shape of answers."""

import json

import pytest

from headgate.formats import confluent
from headgate.formats.confluent import Format
from headgate.model.outcome import TRAITS, Failure, Outcome, OutcomeName, Reason, Refused
from headgate.model.policy import CompatJsonKeys as JsonKeys
from headgate.model.publish import SPREAD, RawEvent

UNAVAILABLE = Failure(Reason.KAFKA_UNAVAILABLE, "no broker", retry_after_s=2)


def v2(
    records: str,
    form: Format = Format.JSON,
    keys: JsonKeys = "quoted",
    partition: int | None = None,
) -> list[RawEvent]:
    body = f'{{"records": [{records}], "value_schema": null, "key_schema_id": 7}}'
    found = confluent.read_records(body.encode(), form, keys, partition, 100)
    return [one for one in found if isinstance(one, RawEvent)]


def v2_refusal(body: bytes, form: Format = Format.JSON, keys: JsonKeys = "quoted") -> Failure:
    with pytest.raises(Refused) as caught:
        confluent.read_records(body, form, keys, None, 100)
    return caught.value.failure


# ---- v2


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (b"application/vnd.kafka.json.v2+json", Format.JSON),
        (b"Application/vnd.kafka.binary.v2+JSON; charset=utf-8", Format.BINARY),
        (b"application/vnd.kafka.text.v2+json", Format.TEXT),
        (b"application/vnd.kafka.avro.v2+json", None),
        (b"application/vnd.kafka.v2+json", None),
        (b"application/json", None),
        (b"", None),
    ],
)
def test_the_content_type_names_the_format(content_type: bytes, form: Format | None) -> None:
    assert confluent.format_of(content_type) is form


def test_v2_json_records() -> None:
    plain, tombstone, placed = v2(
        '{"value": {"a" : 1.50}}, {"key": "k", "value": null},'
        ' {"key": {"id" : 1}, "value": [1 ], "partition": 2}'
    )
    assert plain == RawEvent(
        b'{"a" : 1.50}', b'{"a" : 1.50}', content_type=b"application/json", partition=SPREAD
    )
    assert tombstone == RawEvent(None, None, b'"k"', partition=SPREAD)
    assert (placed.key, placed.value, placed.partition) == (b'{"id":1}', b"[1 ]", 2)


def test_v2_binary_records() -> None:
    record, empty = v2('{"key": "/wA=", "value": "iVBORw=="}, {}', Format.BINARY)
    assert record == RawEvent(b"\x89PNG", None, b"\xff\0", partition=SPREAD)
    assert (empty.key, empty.value) == (None, None)


def test_v2_text_records() -> None:
    record, empty = v2('{"key": "k\\u00e9", "value": "é"}, {"value": null}', Format.TEXT)
    assert record == RawEvent("é".encode(), None, "ké".encode(), partition=SPREAD)
    assert (empty.key, empty.value) == (None, None)
    for wrong in (b'{"value": {}}', b'{"value": "\\ud800"}', b'{"key": 1, "value": "v"}'):
        body = b'{"records": [' + wrong + b"]}"
        assert v2_refusal(body, Format.TEXT).reason is Reason.SCHEMA_VIOLATION


def test_a_partition_that_none_can_have_fails_its_record_alone() -> None:
    body = b'{"records": [{"value": 1, "partition": -1}, {"value": 2, "partition": 1}]}'
    wrong, right = confluent.read_records(body, Format.JSON, "quoted", None, 100)
    assert isinstance(wrong, Failure)
    assert wrong.reason is Reason.UNKNOWN_PARTITION
    assert isinstance(right, RawEvent)


def test_a_records_own_partition_goes_before_that_of_the_path() -> None:
    own, path = v2('{"value": 1, "partition": 5}, {"value": 1}', partition=3)
    assert (own.partition, path.partition) == (5, 3)


def test_headers_and_timestamps_of_the_bridge() -> None:
    (record,) = v2(
        '{"value": 1, "timestamp": 1700000000000,'
        ' "headers": [{"key": "a", "value": "Yg=="}, {"key": "HG-x", "value": "Yg=="}]}'
    )
    assert record.headers == (("a", b"b"),)
    assert record.timestamp_ms == 1_700_000_000_000


def test_header_values_may_be_null_names_any_text_and_padding_left_out() -> None:
    """As kafka-rest and the Kafka Bridge take them."""
    given = '{"N": "a", "value": null}, {"N": "b"}, {"N": "ключ", "value": "Yg"}'
    given += ', {"N": "e", "value": ""}'
    expected = (("a", None), ("b", None), ("ключ", b"b"), ("e", b""))
    (record,) = v2(f'{{"value": 1, "headers": [{given.replace("N", "key")}]}}')
    assert record.headers == expected
    assert v3(f'{{"headers": [{given.replace("N", "name")}]}}').headers == expected
    (binary,) = v2('{"key": "/wA", "value": "iVBORw"}', Format.BINARY)
    assert (binary.key, binary.value) == (b"\xff\0", b"\x89PNG")


def test_headers_of_the_gateway_are_dropped_and_the_content_type_is_the_records() -> None:
    own = ("hg-producer", "Hg-x", "ce_dataref", "CE_DATAREF", "traceparent", "TraceState", "ce_id")
    given = ", ".join(f'{{"N": "{name}", "value": "eA=="}}' for name in (*own, "Content-Type"))
    (record,) = v2(f'{{"value": 1, "headers": [{given.replace("N", "key")}]}}')
    assert (record.headers, record.content_type) == ((("ce_id", b"x"),), b"x")
    event = v3(f'{{"headers": [{given.replace("N", "name")}]}}')
    assert (event.headers, event.content_type) == ((("ce_id", b"x"),), b"x")


def test_lone_surrogates_pass_in_values() -> None:
    (record,) = v2('{"value": "\\ud800", "partition": 1}')
    assert (record.value, record.partition) == (b'"\\ud800"', 1)
    assert v2_refusal(b'{"records": [{"key": "\\ud800", "value": 1}]}').reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("key", "quoted", "plain"),
    [
        ('"k"', b'"k"', b"k"),
        ('"\\u00e9\\/"', '"é/"'.encode(), "é/".encode()),
        ("17", b"17", b"17"),
        ("true", b"true", b"true"),
        ("null", None, None),
        ('""', b'""', b""),
        ("1.5", b"1.5", Reason.INVALID_KEY),
        ('{"a": [1, 2]}', b'{"a":[1,2]}', Reason.INVALID_KEY),
    ],
)
def test_json_keys(key: str, quoted: bytes | None, plain: bytes | Reason | None) -> None:
    records = f'{{"key": {key}, "value": 1}}'
    assert v2(records)[0].key == quoted
    if isinstance(plain, Reason):
        failure = v2_refusal(f'{{"records": [{records}]}}'.encode(), keys="plain")
        assert failure.reason is plain
    else:
        assert v2(records, keys="plain")[0].key == plain


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b'{"records": {}}', b'{"records": [1]}', b'{"records": [{"value": 1}', b"x", b"nul",
        b'{"records": [{"value": "\xff"}]}', b'{"records": [{"value": 1, "partition": 1.5}]}',
        b'{"records": [{"value": 1, "partition": "1"}]}', b'{"records": [{"value": }]}',
        b'{"records": [{"value": 1, "headers": [{"key": "a", "value": "*"}]}]}',
        b'{"records": [{"value": 1, "headers": [{"key": "", "value": ""}]}]}',
        b'{"records": ["\\ud800"]}', b'{"records":"\\ud800"}',
        b'{"records": [{"value": "\\ud800", "partition": "0"}]}',
    ],
)  # fmt: skip
def test_what_is_malformed_in_v2(body: bytes) -> None:
    assert v2_refusal(body).reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "body",
    [
        b"", b" \r\n", b"null", b" null ", b"{}", b'{"records": null}', b'{"records": [ ]}',
        b'{"records": [], "x": 1}', b'{"records": [{"value": 1, "x": 2}]}',
        b'{"records": [{"value": "\\ud800", "x": 1}]}', b'{"key_schema": "\\ud800"}',
        b'{"records": [{"headers": [{"key": "a", "value": "Yg==", "x": 1}]}]}',
    ],
)  # fmt: skip
def test_what_is_json_and_not_what_is_asked_for_in_v2(body: bytes) -> None:
    failure = v2_refusal(body)
    assert failure.reason is Reason.SCHEMA_VIOLATION
    assert confluent.codes_of(failure) == (422, 422)


@pytest.mark.parametrize("value", [b"7", b'"*"', b'"a b="', b"{}", b'"\xc3\xa9"', b'"\\ud800"'])
def test_what_is_no_base64_in_v2(value: bytes) -> None:
    body = b'{"records": [{"value": ' + value + b"}]}"
    assert v2_refusal(body, Format.BINARY).reason is Reason.MALFORMED


def test_the_answer_of_v2() -> None:
    reply = confluent.produced(
        [
            Outcome(OutcomeName.PUBLISHED, 1, 42),
            Outcome(OutcomeName.UNCHANGED, 2, 7),
            Outcome(OutcomeName.REJECTED, failure=UNAVAILABLE),
            Outcome(
                OutcomeName.REJECTED, failure=Failure(Reason.UNKNOWN_PARTITION, "no partition 9")
            ),
        ]
    )
    assert (reply.status, reply.content_type) == (200, "application/vnd.kafka.v2+json")
    assert reply.headers == (("Retry-After", "2"),)
    assert json.loads(reply.body) == {
        "offsets": [
            {"partition": 1, "offset": 42, "error_code": None, "error": None},
            {"partition": 2, "offset": 7, "error_code": None, "error": None},
            {"partition": None, "offset": None, "error_code": 50003, "error": "no broker"},
            {"partition": None, "offset": None, "error_code": 40402, "error": "no partition 9"},
        ],
        "key_schema_id": None,
        "value_schema_id": None,
    }


def test_every_reason_has_codes() -> None:
    for reason in Reason:
        status, code = confluent.codes_of(Failure(reason, ""))
        assert code == status or code // 10_000 == status // 100, reason
        record = confluent.record_code_of(Failure(reason, ""))
        retriable = TRAITS[reason].retryable and status >= 500
        assert (record == 50003) == retriable, reason


def test_errors_of_whole_requests() -> None:
    reply = confluent.failed(UNAVAILABLE, confluent.V2_TYPE)
    assert (reply.status, reply.headers) == (503, (("Retry-After", "2"),))
    assert json.loads(reply.body) == {"error_code": 50302, "message": "no broker"}
    denied = confluent.failed(Failure(Reason.UNAUTHENTICATED, "no token"), confluent.V3_TYPE)
    assert (denied.status, denied.content_type) == (401, "application/json")
    assert denied.headers[0][0] == "WWW-Authenticate"


# ---- v3


def v3(text: str, keys: JsonKeys = "quoted") -> RawEvent:
    return confluent.read_record(text.encode(), keys)[0]


def test_a_record_of_v3() -> None:
    event, sent = confluent.read_record(
        b'{"partition_id": 1, "headers": [{"name": "H", "value": "aA=="}],'
        b' "key": {"type": "BINARY", "data": "Zm9vYmFy"},'
        b' "value": {"type": "JSON", "data": {"foo" : "bar"}, "schema": null},'
        b' "timestamp": "2021-02-05T19:14:42Z"}',
        "quoted",
    )
    assert event == RawEvent(
        b'{"foo" : "bar"}', b'{"foo" : "bar"}', b"foobar", None, 1_612_552_482_000,
        b"application/json", (("H", b"h"),), 1,
    )  # fmt: skip
    assert sent == (("BINARY", 6), ("JSON", 15))


def test_strings_and_nothing_in_v3() -> None:
    event, sent = confluent.read_record(
        '{"key": {"type": "STRING", "data": "ké"}, "value": {"type": "STRING", "data": "\\u00e9"}}'
        .encode(), "quoted",
    )  # fmt: skip
    assert (event.key, event.value, event.document) == ("ké".encode(), "é".encode(), None)
    assert sent == (("STRING", 3), ("STRING", 2))
    nothing, sent = confluent.read_record(b'{"value": {"type": "JSON", "data": null}}', "quoted")
    assert (nothing.key, nothing.value, nothing.partition) == (None, None, SPREAD)
    assert sent == (None, None)
    assert v3("{}").value is None


@pytest.mark.parametrize("kind", ["STRING", "BINARY", "JSON"])
def test_an_empty_key_of_v3_is_an_empty_key(kind: str) -> None:
    text = f'{{"key": {{"type": "{kind}", "data": ""}}, "value": {{"type": "JSON", "data": 1}}}}'
    event, sent = confluent.read_record(text.encode(), "plain")
    assert event.key == b""
    assert sent.key == (kind, 0)


def test_json_keys_of_v3() -> None:
    text = '{"key": {"type": "JSON", "data": "k"}, "value": {"type": "JSON", "data": 1}}'
    assert v3(text).key == b'"k"'
    assert v3(text, "plain").key == b"k"


@pytest.mark.parametrize(
    "text",
    [
        "[]", '{"x": 1}', '{"value": 7}', '{"value": {"type": "XML", "data": 1}}',
        '{"value": {"type": "json", "data": 1}}', '{"value": {"type": "JSON", "data": 1, "x": 2}}',
        '{"value": {"type": "JSON", "data": 1, "schema_id": 7}}',
        '{"value": {"type": "BINARY", "data": 1}}', '{"value": {"type": "BINARY", "data": "*"}}',
        '{"value": {"type": "STRING", "data": 1}}', '{"timestamp": "yesterday"}',
        '{"value": {"type": "STRING", "data": "\\ud800"}}', '{"timestamp": 1}',
        '{"partition_id": "0"}',
        '{"headers": [{"value": "aA=="}]}', '{"headers": [{"name": "a", "value": "*"}]}',
    ],
)  # fmt: skip
def test_what_is_malformed_in_v3(text: str) -> None:
    with pytest.raises(Refused) as caught:
        v3(text)
    assert caught.value.failure.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"partition_id": -1}', Reason.UNKNOWN_PARTITION),
        ('{"value": {"data": {}}}', Reason.SCHEMA_VIOLATION),
        ('{"value": {"type": "AVRO", "data": {}}}', Reason.SCHEMA_VIOLATION),
        ('{"key": {"schema_id": 1, "data": 1}}', Reason.SCHEMA_VIOLATION),
    ],
)
def test_what_else_refuses_a_record_of_v3(text: str, reason: Reason) -> None:
    with pytest.raises(Refused) as caught:
        v3(text)
    assert caught.value.failure.reason is reason


def test_reports_of_v3() -> None:
    published = Outcome(OutcomeName.PUBLISHED, 3, 9, timestamp_ms=1_678_374_443_592)
    sent = confluent.Sent(("BINARY", 7), ("JSON", 15))
    report = json.loads(confluent.report("c-1", "t", published, sent))
    assert report == {
        "error_code": 200, "cluster_id": "c-1", "topic_name": "t", "partition_id": 3, "offset": 9,
        "timestamp": "2023-03-09T15:07:23.592Z", "key": {"type": "BINARY", "size": 7},
        "value": {"type": "JSON", "size": 15},
    }  # fmt: skip
    report = json.loads(confluent.report("c-1", "t", Outcome(OutcomeName.UNCHANGED, 3, 9), None))
    assert report["timestamp"] is None
    assert "key" not in report
    failed = Outcome(OutcomeName.REJECTED, failure=UNAVAILABLE)
    assert json.loads(confluent.report("c-1", "t", failed, sent)) == {
        "error_code": 50302, "message": "no broker",
    }  # fmt: skip
