"""Confluent REST v3 against a real gateway: single, several, and streamed record by record."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headgate.model.keys import partition_for
from support.clients.http_client import exchange, figure
from support.gateway.confluent_world import PARTITIONS, V3, ConfluentWorld, running_confluent
from support.process.stack import RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def string(key: str, value: object) -> dict[str, object]:
    return {"key": {"type": "STRING", "data": key}, "value": {"type": "JSON", "data": value}}


def test_the_clusters_are_kafkas(world: ConfluentWorld) -> None:
    page = world.get("/v3/clusters").document
    assert page["kind"] == "KafkaClusterList"
    (cluster,) = page["data"]
    assert (cluster["kind"], cluster["cluster_id"]) == ("KafkaCluster", world.cluster_id)
    assert world.get(f"/v3/clusters/{world.cluster_id}").document == cluster
    unknown = world.get("/v3/clusters/nothing")
    assert (unknown.status, unknown.document["error_code"]) == (404, 404)


def test_one_record(world: ConfluentWorld) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    record = {
        "headers": [{"name": "author", "value": base64.b64encode(b"Ada").decode()}],
        "key": {"type": "BINARY", "data": base64.b64encode(b"foobar").decode()},
        "value": {"type": "JSON", "data": {"foo": "bar"}},
    }
    answer = world.v3("keyed", record)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    (found,) = world.log.take(topic)
    assert found.partition == partition_for(b"foobar", PARTITIONS)
    assert (found.key, found.value) == (b"foobar", b'{"foo": "bar"}')
    assert found.header("author") == b"Ada"
    report = answer.document
    assert report.pop("timestamp").endswith("Z")
    assert report == {
        "error_code": 200, "cluster_id": world.cluster_id, "topic_name": topic,
        "partition_id": found.partition, "offset": found.offset,
        "key": {"type": "BINARY", "size": 6}, "value": {"type": "JSON", "size": 14},
    }  # fmt: skip


def test_header_values_may_be_null_and_names_any_text(world: ConfluentWorld) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    given = [{"name": "null", "value": None}, {"name": "missing"}, {"name": "ключ", "value": "Yg"}]
    own = [{"name": name, "value": "eA"} for name in ("ce_dataref", "hg-producer", "traceparent")]
    answer = world.v3("keyed", {**string("k", 1), "headers": [*given, *own]})
    assert answer.status == 200, answer
    (found,) = world.log.take(topic)
    headers = [header for header in found.headers if not header[0].startswith("hg-")]
    assert headers == [
        ("content-type", b"application/json"), ("null", None), ("missing", None), ("ключ", b"b"),
    ]  # fmt: skip
    assert [name for name, _ in found.headers].count("hg-producer") == 1


def test_a_record_to_a_partition_and_one_without_a_key(world: ConfluentWorld) -> None:
    placed = world.v3("keyed", {**string("k", 1), "partition_id": 2}).document
    assert placed["partition_id"] == 2
    keyless = world.v3("keyed", {"value": {"type": "STRING", "data": "é"}})
    assert keyless.status == 200
    assert "key" not in keyless.document
    unknown = world.v3("keyed", {"partition_id": 9})
    assert (unknown.status, unknown.document["error_code"]) == (404, 40402)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, 42206),
        (b" \r\n", 422, 42206),
        (b"[1]", 400, 400),
        (b'{"value": {"type": "AVRO", "data": 1}}', 422, 422),
        (b'{"value": {"type": "JSON", "data": 1, "schema_id": 1}}', 400, 400),
        (b'{"partition_id": -1}', 404, 40402),
        (b'{"value": {"type": "BINARY", "data": "*"}}', 400, 400),
        (b'{"value": {"type": "JSON", "data": }}', 400, 400),
        (b'{"value": ', 400, 400),
    ],
)
def test_single_records_that_fail(
    world: ConfluentWorld, body: bytes, status: int, code: int
) -> None:
    world.log.take(world.topic("keyed"))
    answer = exchange(world.gateway.port, "POST", world.records_path("keyed"), V3, body)
    assert (answer.status, answer.document["error_code"]) == (status, code), answer
    assert answer.document.keys() == {"error_code", "message"}
    assert world.log.take(world.topic("keyed")) == []


def test_requests_that_fail_as_a_whole(world: ConfluentWorld) -> None:
    path = world.records_path("keyed")
    for target, headers, status, code in (
        (world.records_path("missing"), V3, 404, 40401),
        (path.replace(world.cluster_id, "other"), V3, 404, 404),
        (path, {"Content-Type": "text/plain"}, 415, 415),
        (path, {"Content-Type": "application/json; charset=DEADBEEF"}, 400, 400),
    ):
        answer = exchange(world.gateway.port, "POST", target, headers, b"{}")
        assert (answer.status, answer.document["error_code"]) == (status, code), answer


def test_timestamps_of_records(world: ConfluentWorld) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    at = datetime.now(UTC).replace(microsecond=123_000) - timedelta(hours=1)
    report = world.v3("keyed", {**string("t", 1), "timestamp": at.isoformat()}).document
    assert report["error_code"] == 200
    assert datetime.fromisoformat(report["timestamp"]) == at
    (found,) = world.log.take(topic)
    assert found.timestamp_ms == at.timestamp() * 1000
    old = world.v3("keyed", {**string("t", 1), "timestamp": "1970-01-01T00:00:01Z"})
    assert (old.status, old.document["error_code"]) == (422, 42206)
    refused = world.v3("plain", {**string("t", 1), "timestamp": at.isoformat()})
    assert (refused.status, refused.document["error_code"]) == (422, 42206)
    assert "compat_timestamps" in refused.document["message"]


def test_a_report_has_the_time_that_kafka_gave_the_record(world: ConfluentWorld) -> None:
    """Kafka overwrites the time of this topic's records: neither refused nor repeated."""
    topic, old = world.topic("stamped"), "1970-01-01T00:00:01Z"
    world.log.take(topic)
    equal = [{**string("t", {"a": 1}), "timestamp": old}] * 2
    large = {**string("large", "x" * 60_000), "timestamp": old}  # it is compressed beforehand
    for records in (equal, [large]):
        answer = world.v3("stamped", *records)
        reports = [json.loads(line) for line in answer.body.split(b"\r\n")]
        assert [one["error_code"] for one in reports] == [200] * len(records), reports
        found = {one.offset: one.timestamp_ms for one in world.log.take(topic)}
        for report in reports:
            at_ms = datetime.fromisoformat(report["timestamp"]).timestamp() * 1000
            assert round(at_ms) == found[report["offset"]], report
        assert len(found) == 1
    (unchanged,) = [json.loads(line) for line in world.v3("stamped", equal[0]).body.split(b"\r\n")]
    assert (unchanged["error_code"], unchanged["timestamp"]) == (200, None)


def test_several_records_in_one_body(world: ConfluentWorld) -> None:
    broken_body = b'{}{"a": ]} {}'
    answer = exchange(world.gateway.port, "POST", world.records_path("keyed"), V3, broken_body)
    codes = [json.loads(line)["error_code"] for line in answer.body.split(b"\r\n")]
    assert codes == [200, 400]
    body = b'{"key":{"type":"STRING","data":"s"}}{"x":1}\n{"key":{"type":"STRING","data":"s"}} oops'
    answer = exchange(world.gateway.port, "POST", world.records_path("keyed"), V3, body)
    assert answer.status == 200
    first, wrong, last, broken = map(json.loads, answer.body.split(b"\r\n"))
    assert [one["error_code"] for one in (first, wrong, last, broken)] == [200, 400, 200, 400]
    assert last["offset"] > first["offset"]


def test_a_stream_is_answered_record_by_record(world: ConfluentWorld) -> None:
    """Each report comes while the request is still open, in order, and the log has the record."""
    topic = world.topic("keyed")
    world.log.take(topic)
    with world.stream("keyed") as stream:
        offsets = []
        for number in range(20):
            stream.send_record(string("one", number))
            report = stream.report()
            assert report["error_code"] == 200
            offsets.append(report["offset"])
        stream.send(b'{"value": {"type": "NO"}}')
        assert stream.report()["error_code"] == 400  # and the stream goes on
        stream.send_record(string("one", 20))
        offsets.append(stream.report()["offset"])
        stream.finish()
        assert stream.report() is None
    assert stream.status == 200
    found = world.log.take(topic)
    assert [one.offset for one in found] == offsets
    assert [one.value for one in found] == [b"%d" % number for number in range(21)]


def test_records_cut_anywhere_and_many_in_one_piece(world: ConfluentWorld) -> None:
    texts = [json.dumps(string("cut", number)).encode() for number in range(300)]
    whole = b"\r\n".join(texts)
    with world.stream("keyed") as stream:
        for at in range(0, len(whole), 997):
            stream.send(whole[at : at + 997])
        stream.finish()
        reports = [stream.report() for _ in texts]
        assert stream.report() is None
    offsets = [one["offset"] for one in reports]
    assert offsets == sorted(offsets)
    assert len(set(offsets)) == 300


@pytest.mark.parametrize("broken", [b'{"a": ]} {}', b"[]", b"{} x", b'{"never'])
def test_a_broken_document_ends_the_stream(world: ConfluentWorld, broken: bytes) -> None:
    with world.stream("keyed") as stream:
        stream.send_record(string("b", 1))
        assert stream.report()["error_code"] == 200
        stream.send(broken)
        if broken == b'{"never':
            stream.finish()
        reports = []
        while (report := stream.report()) is not None:
            reports.append(report)
        assert reports[-1]["error_code"] == 400
        assert "message" in reports[-1]
        assert 1 <= len(reports) <= 2


def test_a_record_that_never_ends_is_given_up(world: ConfluentWorld) -> None:
    with world.stream("keyed") as stream:
        stream.send(b'{"value": ')
        report = stream.report()
        assert report["error_code"] == 408
        assert stream.report() is None


def test_a_record_over_the_body_limit_ends_the_stream(world: ConfluentWorld) -> None:
    with world.stream("keyed") as stream:
        stream.would_block(b'{"value": {"type": "STRING", "data": "' + b"x" * 1_200_000, 2.0)
        assert stream.report()["error_code"] == 413
        assert stream.report() is None


async def test_a_client_that_does_not_read_is_not_read_from(world: ConfluentWorld) -> None:
    """Far more records than may be ahead are refused by TCP, not taken into memory; nothing of the
    budget is left behind when the client goes."""
    text = json.dumps(string("slow", "x" * 20)).encode()
    with world.stream("keyed") as stream:
        piece, blocked, sent = text * 1000, False, 0
        while not blocked:
            blocked = stream.would_block(piece, 1.0)
            sent += 1
            assert sent < 2000, "the gateway takes everything"
    port = world.gateway.management_port
    await eventually(lambda: figure(port, "headgate_in_flight_events") == 0)
    await eventually(lambda: figure(port, "headgate_in_flight_bytes") == 0)


def test_a_stream_whose_client_leaves_keeps_what_it_sent(world: ConfluentWorld) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    with world.stream("keyed") as stream:
        for number in range(5):
            stream.send_record(string("left", number))
        stream.report()
    assert [one.value for one in world.log.take(topic)][:1] == [b"0"]


def test_cors_headers_are_on_streams_and_answers(world: ConfluentWorld) -> None:
    origin = {**V3, "Origin": "https://app.example"}
    answer = exchange(
        world.gateway.port, "POST", world.records_path("keyed"), origin,
        json.dumps(string("c", 1)).encode(),
    )  # fmt: skip
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
