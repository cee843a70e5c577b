"""An empty key on every way in: an empty key in the log, in one partition, or refused as none.

Confluent's REST and the Strimzi bridge take it. The gateway's own ways in know no empty key: the
contract counts it as none (422 `missing_key`), on whatever topic, so that it spreads nothing.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.model.keys import partition_for
from support.clients.http_client import Answer, exchange
from support.gateway.confluent_world import (
    BINARY_V2,
    JSON_V2,
    PARTITIONS,
    TEXT_V2,
    V3,
    ConfluentWorld,
    running_confluent,
)
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

ENVELOPE = {"Content-Type": "application/vnd.headgate.batch+json"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"id": 1}}
CE_HEADERS = {f"ce-{name}": str(value) for name, value in EVENT.items() if name != "data"}


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def v2(world: ConfluentWorld, headers: dict[str, str], values: list[Any]) -> None:
    for value in values:
        answer = world.v2("plain", [{"key": "", "value": value}], headers)
        (offset,) = answer.document["offsets"]
        assert offset["error_code"] is None, answer


def v3(world: ConfluentWorld, key_type: str, value_type: str, values: list[Any]) -> None:
    path, key = world.records_path("plain"), {"type": key_type, "data": ""}
    for value in values:
        record = {"key": key, "value": {"type": value_type, "data": value}}
        answer = exchange(world.gateway.port, "POST", path, V3, json.dumps(record).encode())
        assert answer.document["error_code"] == 200, answer
        assert answer.document["key"] == {"type": key_type, "size": 0}


DOCUMENTS = [{"id": number} for number in range(6)]  # each has another key for the topic's rule


@pytest.mark.parametrize(
    "way_in",
    [
        lambda world: v2(world, JSON_V2, DOCUMENTS),
        lambda world: v2(world, BINARY_V2, ["Zm9v"] * 6),
        lambda world: v2(world, TEXT_V2, ["foo"] * 6),
        lambda world: v3(world, "STRING", "JSON", DOCUMENTS),
        lambda world: v3(world, "STRING", "STRING", ["foo"] * 6),
        lambda world: v3(world, "BINARY", "JSON", DOCUMENTS),
        lambda world: v3(world, "BINARY", "BINARY", ["Zm9v"] * 6),
        lambda world: v3(world, "JSON", "JSON", DOCUMENTS),
        lambda world: v3(world, "JSON", "STRING", ["foo"] * 6),
    ],
    ids=[
        "v2 json", "v2 binary", "v2 text", "v3 string, json", "v3 string", "v3 binary, json",
        "v3 binary", "v3 json", "v3 json, string",
    ],
)  # fmt: skip
def test_an_empty_key_is_an_empty_key(world: ConfluentWorld, way_in: Any) -> None:
    world.log.take(world.topic("plain"))
    way_in(world)
    found = world.log.take(world.topic("plain"))
    assert [one.key for one in found] == [b""] * 6
    assert {one.partition for one in found} == {partition_for(b"", PARTITIONS)}


def test_a_quoted_json_key_that_is_empty_is_its_two_quotes(world: ConfluentWorld) -> None:
    world.log.take(world.topic("keyed"))
    world.v2("keyed", [{"key": "", "value": {"id": 1}}, {"key": "", "value": {"id": 2}}], JSON_V2)
    found = world.log.take(world.topic("keyed"))
    assert [one.key for one in found] == [b'""', b'""']


def posted(world: ConfluentWorld, headers: dict[str, str], body: bytes) -> Answer:
    path = f"/v1/topics/{world.topic('plain')}/events"
    return exchange(world.gateway.port, "POST", path, headers, body)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/json", "Headgate-Key": ""}, b'{"id": 1}'),
        ({"Content-Type": "text/plain", "Headgate-Key": ""}, b"x"),
        (ENVELOPE, b'{"events": [{"key": "", "value": {"id": 1}}]}'),
        (ENVELOPE, b'{"events": [{"key_base64": "", "value": {"id": 1}}]}'),
        (
            {"Content-Type": "application/cloudevents+json"},
            json.dumps({**EVENT, "partitionkey": "", "subject": "s"}).encode(),
        ),
        (
            {"Content-Type": "application/cloudevents-batch+json"},
            json.dumps([{**EVENT, "partitionkey": ""}]).encode(),
        ),
        (
            {"Content-Type": "application/json", **CE_HEADERS, "ce-partitionkey": ""},
            b'{"id": 1}',
        ),
        ({"Content-Type": "application/json"}, b'{"id": ""}'),
    ],
    ids=[
        "Headgate-Key", "Headgate-Key of opaque bytes", "envelope", "envelope base64",
        "CloudEvents structured", "CloudEvents batch", "CloudEvents binary", "pointer",
    ],
)  # fmt: skip
def test_the_gateways_own_ways_in_know_no_empty_key(
    world: ConfluentWorld, headers: dict[str, str], body: bytes
) -> None:
    world.log.take(world.topic("plain"))
    answer = posted(world, headers, body)
    document = answer.document
    (failed,) = document.get("outcomes", [document])
    assert (answer.status, failed["reason"]) == (422, "missing_key")
    assert world.log.take(world.topic("plain")) == []
