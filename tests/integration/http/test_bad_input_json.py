"""Bodies that are no good JSON, or odd JSON that must pass as it is, against the real gateway."""

import json
from collections import defaultdict
from collections.abc import Iterator

import pytest

from support.clients.http_client import JSON, NDJSON
from support.gateway.bad_input_world import World, reason, running_world
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

ONE = {**JSON, "Headgate-Batch": "false"}
VENDOR = {"Content-Type": "application/vnd.acme.deal+json"}
DEEP = 100_000


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with running_world(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \r\n\t", id="blank"),
        pytest.param(b"id=1&n=2", id="form"),
        pytest.param(b'{"id":1', id="cut off"),
        pytest.param(b'{"id":1}{"id":2}', id="two documents"),
        pytest.param(b'{"id":1} x', id="trailing bytes"),
        pytest.param(b"{'id':1}", id="single quotes"),
        pytest.param(b'{"id":1,}', id="trailing comma"),
        pytest.param(b'{"id":01}', id="leading zero"),
        pytest.param(b'{"id":1,"n":NaN}', id="NaN"),
        pytest.param(b'{"id":1,"n":-Infinity}', id="infinity"),
        pytest.param(b'{"id":1,"n":"a\nb"}', id="raw line feed in a string"),
        pytest.param(b'\xef\xbb\xbf{"id":1}', id="byte order mark"),
        pytest.param('{"id":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"id":1,"n":"\xff\xfe"}', id="invalid UTF-8 that no pointer touches"),
        pytest.param(b'{"id":1,"n":"\xed\xa0\x80"}', id="a surrogate as UTF-8"),
        pytest.param(b'{"id":1,"\xc3":2}', id="invalid UTF-8 in a name"),
        pytest.param(b"[" * DEEP + b"]" * DEEP, id="deep arrays"),
        pytest.param(b"[" * DEEP, id="deep and open"),
        pytest.param(b'{"id":1,"n":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", id="deep"),
    ],
)
def test_malformed(world: World, body: bytes) -> None:
    for headers in (JSON, ONE, VENDOR):
        answer = world.post("events", body, headers)
        assert reason(answer) == (400, "malformed"), headers
        assert answer.document["retryable"] is False
    assert reason(world.refused("events", body)) == (400, "malformed")


def test_depth_has_an_exact_limit(world: World) -> None:
    def nested(depth: int) -> bytes:
        return b'{"id":1,"n":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert world.published("events", nested(128)).value == nested(128)
    assert "128" in world.refused("events", nested(129)).document["detail"]
    brackets = json.dumps({"id": 1, "text": '"[{' * 1000}).encode()
    assert world.published("events", brackets).value == brackets


@pytest.mark.parametrize(
    ("body", "key"),
    [
        pytest.param(b'{"id":1,"id":"last"}', b"last", id="duplicate names"),
        pytest.param(b'{"id":' + b"9" * 400 + b"}", b"9" * 400, id="huge integer as key"),
        pytest.param(b'{"id":-0,"n":' + b"1" * 5000 + b"}", b"-0", id="huge integer"),
        pytest.param(b'{"id":1,"n":1.10000000000000000000000001e400}', b"1", id="huge fraction"),
        pytest.param(b'{"id":1,"n":"\\ud83d"}', b"1", id="lone surrogate"),
        pytest.param(b'{"id":1,"\\udc00":["\\ud83d",{"a":1}]}', b"1", id="lone surrogate name"),
        pytest.param(b'{"id":"\\u00e9\\ud83d\\ude00"}', "é😀".encode(), id="escapes"),
        pytest.param(b'{"id":"\\u0000"}', b"\x00", id="zero byte"),
        pytest.param(b' \r\n{ "id" : 1 }\t\n', b"1", id="blanks"),
        pytest.param('{"id":"ключ","n":"\u2028"}'.encode(), "ключ".encode(), id="not ASCII"),
        pytest.param(b'{"id":true,"n":1E5}', b"true", id="boolean"),
    ],
)
def test_odd_json_passes_byte_identical(world: World, body: bytes, key: bytes) -> None:
    record = world.published("events", body)
    assert (record.value, record.key) == (body, key)
    with world.written("events") as records:
        answer = world.post("events", b"[" + body + b"," + body + b"]")
    assert answer.status == 200
    assert [(one.value, one.key) for one in records] == [(body.strip(), key)] * 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id":1.5}', "invalid_key"),
        (b'{"id":1e3}', "invalid_key"),
        (b'{"id":{}}', "invalid_key"),
        (b'{"id":[]}', "invalid_key"),
        (b'{"id":"\\ud83d"}', "invalid_key"),
        (b'{"id":null}', "missing_key"),
        (b'{"id":""}', "missing_key"),
        (b'{"n":1}', "missing_key"),
        (b'"id"', "missing_key"),
        (b"1", "missing_key"),
        (b"null", "missing_key"),
    ],
)
def test_documents_without_a_usable_key_are_refused(
    world: World, body: bytes, expected: str
) -> None:
    answer = world.refused("events", body)
    assert reason(answer) == (422, expected)
    assert "/id" in answer.document["detail"] or "''" in answer.document["detail"]


def test_opaque_bytes_may_be_anything_even_none(world: World) -> None:
    for body in (b"", b"\x00\xff\xfe", b"{not json"):
        record = world.published("spread", body, {"Content-Type": "application/octet-stream"})
        assert (record.value, record.key) == (body, None)


def test_empty_batches_are_well(world: World) -> None:
    with world.written("events") as records:
        for body, headers in ((b"[]", JSON), (b" [ ] ", JSON), (b"\n\r\n \n", NDJSON)):
            answer = world.post("events", body, headers)
            assert (answer.status, answer.document) == (200, {"summary": {}, "outcomes": []})
    assert records == []


def test_10_000_lines_with_three_bad_ones(world: World) -> None:
    bad = {17: b'{"id":1,"n":', 4999: b'{"id":2,"text":"\xff"}', 9999: b'{"n":9999}'}
    lines = [bad.get(n, b'{"id":"k%d","n":%d}' % (n % 97, n)) for n in range(10_000)]
    with world.written("events") as records:
        answer = world.post("events", b"\n".join(lines) + b"\n", NDJSON)
    assert answer.status == 207
    body = answer.document
    assert body["summary"] == {"published": 9_997, "rejected": 3}
    outcomes = body["outcomes"]
    assert len(outcomes) == 10_000
    for index, expected in ((17, (400, "malformed")), (4999, (400, "malformed")),
                            (9999, (422, "missing_key"))):  # fmt: skip
        failed = outcomes[index]
        assert (failed["status"], failed["reason"]) == expected
        assert failed["outcome"] == "rejected"
        assert failed["detail"]
        assert failed["retryable"] is False
    by_place = {(one.partition, one.offset): one for one in records}
    per_key: dict[bytes, list[int]] = defaultdict(list)
    for index, outcome in enumerate(outcomes):
        if index in bad:
            continue
        record = by_place.pop((outcome["partition"], outcome["offset"]))
        assert record.value == lines[index]
        assert outcome["key"] == (record.key or b"").decode()
        per_key[record.key or b""].append(outcome["offset"])
    assert by_place == {}, "nothing else was written"
    assert len(per_key) == 97
    assert all(offsets == sorted(offsets) for offsets in per_key.values())


def test_minimal_answer_names_the_index_of_the_failed(world: World) -> None:
    body = b'{"id":1}\n\n{"id":\r\n{"id":2}\r\n"x"'
    with world.written("events") as records:
        answer = world.post("events", body, {**NDJSON, "Prefer": "return=minimal"})
    assert answer.status == 207
    assert [(one["index"], one["reason"]) for one in answer.document["outcomes"]] == [
        (1, "malformed"),
        (3, "missing_key"),
    ]
    assert sorted(one.value or b"" for one in records) == [b'{"id":1}', b'{"id":2}']


def test_batches_without_a_good_event_take_the_highest_status(world: World) -> None:
    with world.written("events") as records:
        answer = world.post("events", b'{"id":\n{"n":1}\n', NDJSON)
        assert answer.status == 422
        assert [one["status"] for one in answer.document["outcomes"]] == [400, 422]
        answer = world.post("events", b'[{"n":1},{"id":{}}]')
        assert (answer.status, answer.document["summary"]) == (422, {"rejected": 2})
    assert records == []


def test_one_bad_element_makes_no_array(world: World) -> None:
    """An array that is no JSON cannot be cut: unlike lines, all of it is refused."""
    assert reason(world.refused("events", b'[{"id":1},{"id":NaN}]')) == (400, "malformed")
    assert reason(world.refused("events", b'[{"id":1},]')) == (400, "malformed")


def test_too_many_events(world: World) -> None:
    many = (
        (b'{"id":1}\n' * 10_001, NDJSON),
        (b"1\n" * 4_000_000, NDJSON),
        (b"[" + b'{"id":1},' * 10_000 + b'{"id":1}]', JSON),
        (b"[" + b"1," * 4_000_000 + b"1]", JSON),
    )
    for body, headers in many:
        with world.bounded_memory(64 * 2**20):
            answer = world.refused("events", body, headers)
        assert reason(answer) == (422, "too_many_events")
        assert answer.document["limit"] == 10_000


def test_single_event_headers_do_not_fit_a_batch(world: World) -> None:
    for name, value in (
        ("Headgate-Key", "k"),
        ("Headgate-Event-Id", "e"),
        ("Headgate-Timestamp", "1"),
    ):
        answer = world.refused("events", b'[{"id":1}]', {**JSON, name: value})
        assert reason(answer) == (400, "malformed")
        assert name in answer.document["detail"]


def test_tombstones_carry_nothing(world: World) -> None:
    headers = {**JSON, "Headgate-Key": "k", "Headgate-Tombstone": "true"}
    record = world.published("events", b"", headers)
    assert (record.key, record.value) == (b"k", None)
    assert reason(world.refused("events", b'{"id":1}', headers)) == (400, "malformed")
    null = world.published("events", b"null", {**JSON, "Headgate-Key": "k"})
    assert null.value == b"null"


@pytest.mark.parametrize(
    "body",
    [
        b'{"specversion":"1.0","id":"1","source":"/s"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"%%%"}',
        b'{"specversion":"0.3","id":"1","source":"/s","type":"t"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":"MQ=="}',
        b"[]",
        b"{",
    ],
)
def test_bad_cloudevents(world: World, body: bytes) -> None:
    answer = world.refused("events", body, {"Content-Type": "application/cloudevents+json"})
    assert reason(answer) == (400, "malformed")
