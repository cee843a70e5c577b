"""Confluent REST v2 against a real gateway: answers, and what lies in the log."""

import base64
import time
from collections.abc import Iterator

import pytest

from headgate.model.keys import partition_for
from support.clients.http_client import exchange
from support.gateway.confluent_world import (
    BINARY_V2,
    JSON_V2,
    PARTITIONS,
    ConfluentWorld,
    running_confluent,
)
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

AVRO = {"Content-Type": "application/vnd.kafka.avro.v2+json"}
V2_TYPE = "application/vnd.kafka.v2+json"


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def test_json_records_with_and_without_keys(world: ConfluentWorld) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    body = (
        b'{"records": [{"key": "k", "value": {"a" : 1.50}}, {"value": {"id": 7}},'
        b' {"value": {"no": "id"}}, {"key": "k", "value": null}], "key_schema_id": null}'
    )
    answer = exchange(world.gateway.port, "POST", f"/topics/{topic}", JSON_V2, body)
    assert (answer.status, answer.headers["content-type"]) == (200, V2_TYPE)
    document = answer.document
    assert (document["key_schema_id"], document["value_schema_id"]) == (None, None)
    log = {(one.partition, one.offset): one for one in world.log.take(topic)}
    quoted, ruled, spread, tombstone = (
        log[offset["partition"], offset["offset"]] for offset in document["offsets"]
    )
    assert {(one["error_code"], one["error"]) for one in document["offsets"]} == {(None, None)}
    assert (quoted.key, quoted.value) == (b'"k"', b'{"a" : 1.50}')
    assert (ruled.key, ruled.value) == (b"7", b'{"id": 7}')
    assert (spread.key, spread.value) == (None, b'{"no": "id"}')
    assert (tombstone.key, tombstone.value) == (b'"k"', None)
    assert quoted.partition == partition_for(b'"k"', PARTITIONS)
    assert quoted.header("content-type") == b"application/json"
    assert quoted.header("hg-producer") == b"anonymous"
    assert quoted.header("hg-event-id")


def test_binary_records_and_plain_keys(world: ConfluentWorld) -> None:
    key, value = base64.b64encode(b"\xff\0").decode(), base64.b64encode(b"\x89PNG").decode()
    world.log.take(world.topic("plain"))
    assert world.v2("plain", [{"key": key, "value": value}], BINARY_V2).status == 200
    assert world.v2("plain", [{"key": "k", "value": 1}], JSON_V2).status == 200
    binary, plain = sorted(world.log.take(world.topic("plain")), key=lambda one: one.value or b"",
                           reverse=True)  # fmt: skip
    assert (binary.key, binary.value) == (b"\xff\0", b"\x89PNG")
    assert (plain.key, plain.value) == (b"k", b"1")


def test_records_to_a_partition(world: ConfluentWorld) -> None:
    records = [{"key": "k", "value": 1}, {"value": 2, "partition": 2}, {"value": 3}]
    answer = world.v2("keyed", records, JSON_V2, partition=1)
    assert [one["partition"] for one in answer.document["offsets"]] == [1, 2, 1]
    # A partition that is not there: the record fails in its place, or the whole path.
    answer = world.v2("keyed", [{"value": 1, "partition": 9}, {"value": 2}], JSON_V2)
    assert answer.status == 200
    assert [one["error_code"] for one in answer.document["offsets"]] == [40402, None]
    answer = world.v2("keyed", [{"value": 1}], JSON_V2, partition=9)
    assert answer.document["offsets"][0]["error_code"] == 40402


@pytest.mark.parametrize(
    ("path", "content_type", "body", "status", "code"),
    [
        ("/topics/nowhere", JSON_V2, b'{"records": [{"value": 1}]}', 404, 40401),
        ("/topics/{missing}", JSON_V2, b'{"records": [{"value": 1}]}', 404, 40401),
        ("/topics/{keyed}", JSON_V2, b'{"records": []}', 422, 422),
        ("/topics/{keyed}", JSON_V2, b'{"records": [{"valu": 1}]}', 422, 422),
        ("/topics/{keyed}", JSON_V2, b"", 422, 422),
        ("/topics/{keyed}/partitions/0", BINARY_V2, b"null", 422, 422),
        ("/topics/{keyed}", BINARY_V2, b"{}", 422, 422),
        ("/topics/{keyed}", JSON_V2, b'{"records": [{"value": 1}', 400, 400),
        ("/topics/{keyed}", BINARY_V2, b'{"records": [{"value": "*"}]}', 400, 400),
        ("/topics/{keyed}/partitions/x", JSON_V2, b'{"records": [{"value": 1}]}', 404, 40402),
        ("/topics/{keyed}", {"Content-Type": "application/json"}, b"{}", 415, 415),
        ("/topics/{keyed}", AVRO, b"{}", 415, 415),
        ("/topics/{keyed}", {**JSON_V2, "Content-Encoding": "br"}, b"{}", 415, 415),
        ("/topics/{keyed}", {**JSON_V2, "Headgate-Key": "k"}, b'{"records": [{}]}', 400, 400),
        ("/topics/{keyed}", JSON_V2, b" " * 1_000_001, 413, 413),
    ],
)  # fmt: skip
def test_requests_that_fail_as_a_whole(
    world: ConfluentWorld,
    path: str,
    content_type: dict[str, str],
    body: bytes,
    status: int,
    code: int,
) -> None:
    target = path.format(missing=world.topic("missing"), keyed=world.topic("keyed"))
    world.log.take(world.topic("keyed"))
    answer = exchange(world.gateway.port, "POST", target, content_type, body)
    assert (answer.status, answer.document["error_code"]) == (status, code), answer
    assert answer.headers["content-type"] == V2_TYPE
    assert answer.document.keys() == {"error_code", "message"}
    assert world.log.take(world.topic("keyed")) == []


def test_a_record_that_is_too_large_fails_in_its_place(world: ConfluentWorld) -> None:
    answer = world.v2("keyed", [{"value": "x" * 200_001}, {"value": 1}], JSON_V2)
    assert answer.status == 200
    large, small = answer.document["offsets"]
    assert (large["error_code"], small["error_code"]) == (413, None)
    assert "max_bytes" in large["error"]


def test_lookups_of_topics_and_partitions_answer_as_confluent_does(world: ConfluentWorld) -> None:
    names = world.get("/topics").document
    assert {world.topic("keyed"), world.topic("state")} <= set(names)
    assert world.topic("missing") not in names
    answer = world.get(f"/topics/{world.topic('keyed')}")
    assert (answer.status, answer.headers["content-type"]) == (200, V2_TYPE)
    assert answer.document["name"] == world.topic("keyed")
    assert answer.document["configs"]["cleanup.policy"] == "delete"
    replicas = [{"broker": 1, "leader": True, "in_sync": True}]
    partitions = [{"partition": n, "leader": 1, "replicas": replicas} for n in range(PARTITIONS)]
    assert answer.document["partitions"] == partitions
    path = f"/topics/{world.topic('keyed')}/partitions"
    assert world.get(path).document == partitions
    assert world.get(f"{path}/1").document == partitions[1]
    for wrong, code in (
        ("/topics/nowhere", 40403),
        ("/topics/nowhere/partitions", 40403),
        ("/topics/nowhere/partitions/0", 40403),
        (f"{path}/{PARTITIONS}", 40402),
        (f"{path}/x", 40402),
    ):
        unknown = world.get(wrong)
        assert (unknown.status, unknown.document["error_code"]) == (404, code)
        assert unknown.headers["content-type"] == V2_TYPE


@pytest.mark.parametrize(
    "path",
    ["/consumers/group", "/topics/t/partitions/0/offsets", "/brokers", "/v3/clusters/x/topics"],
)
def test_what_is_not_offered_says_so(world: ConfluentWorld, path: str) -> None:
    for method in ("GET", "POST"):
        answer = exchange(world.gateway.port, method, path)
        assert (answer.status, answer.document["error_code"]) == (404, 404)
        assert "is not offered" in answer.document["message"]


def test_an_unchanged_record_is_answered_with_the_place_of_its_content(
    world: ConfluentWorld,
) -> None:
    record = {"value": {"id": "u", "price": 1}}
    (first,) = world.v2("state", [record], JSON_V2).document["offsets"]
    (second,) = world.v2("state", [record], JSON_V2).document["offsets"]
    assert first == second


def test_a_write_to_a_partition_is_never_suppressed_and_clears_the_state(
    world: ConfluentWorld,
) -> None:
    def place(record: dict[str, object], partition: int | None = None) -> tuple[int, int]:
        (offset,) = world.v2("state", [record], JSON_V2, partition).document["offsets"]
        assert offset["error_code"] is None
        return offset["partition"], offset["offset"]

    old = {"key": "p", "value": {"id": "p", "price": 1}}
    first = place(old)
    assert place(old) == first  # unchanged
    other = (first[0] + 1) % PARTITIONS
    new = {"key": "p", "value": {"id": "p", "price": 2}}
    placed = [place(new, other), place(new, other)]
    assert placed[1] == (other, placed[0][1] + 1)  # equal, and written all the same
    again = place(old)  # the newest record of the key has other content
    assert again == (first[0], first[1] + 1)
    assert place(old) == again


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/topics/t", "GET, HEAD, POST"),
        ("DELETE", "/topics/t/partitions/0", "GET, HEAD, POST"),
        ("POST", "/topics", "GET, HEAD"),
        ("PUT", "/v3/clusters/c/topics/t/records", "POST"),
    ],
)
def test_the_wrong_method(world: ConfluentWorld, method: str, path: str, allowed: str) -> None:
    answer = exchange(world.gateway.port, method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.document.keys() == {"error_code", "message"}
    assert answer.document["error_code"] == 405
    assert (answer.headers["content-type"] == V2_TYPE) == path.startswith("/topics")


def test_timestamps_of_records(world: ConfluentWorld) -> None:
    """Taken, as in the Strimzi bridge; out of what the topic keeps, the record fails alone."""
    topic, at_ms = world.topic("keyed"), int(time.time() * 1000) - 3_600_000
    world.log.take(topic)
    records = [{"value": 1, "timestamp": at_ms}, {"value": 2, "timestamp": 1000}, {"value": 3}]
    taken, refused, plain = world.v2("keyed", records, JSON_V2).document["offsets"]
    assert [one["error_code"] for one in (taken, refused, plain)] == [None, 42206, None]
    assert "timestamp 1000 ms lies outside" in refused["error"]
    times = {one.value: one.timestamp_ms for one in world.log.take(topic)}
    assert times.keys() == {b"1", b"3"}
    assert times[b"1"] == at_ms
    assert times[b"3"] > at_ms


def test_a_topic_may_refuse_timestamps(world: ConfluentWorld) -> None:
    records = [{"value": 1, "timestamp": int(time.time() * 1000)}, {"value": 2}]
    refused, plain = world.v2("plain", records, JSON_V2).document["offsets"]
    assert (refused["error_code"], plain["error_code"]) == (42206, None)
    assert "compat_timestamps" in refused["error"]
