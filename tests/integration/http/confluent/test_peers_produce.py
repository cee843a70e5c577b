"""The peers' own cases of producing (peers_produce.toml), posted to a real gateway."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from support.clients.http_client import Answer, exchange
from support.clients.peers_produce import Case, Result, cases
from support.gateway.confluent_world import ConfluentWorld, running_confluent
from support.kafka.kafka_log import LogRecord
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

POSTED = [one for one in cases() if not {"reason", "skipped"} & one.given.keys()]
SHORT = {name: f"application/vnd.kafka.{name}.v2+json" for name in ("json", "binary", "text")}
PAD = b"A" * 100_000


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def path_of(world: ConfluentWorld, given: str) -> str:
    topic = world.topic("keyed")
    if given in ("v3", "stream"):
        return world.records_path("keyed")
    if given.startswith("v2"):
        return f"/topics/{topic}{given.removeprefix('v2')}"
    return given.replace("{topic}", topic).replace("{cluster}", world.cluster_id)


def sent(world: ConfluentWorld, given: dict[str, Any], now_ms: int) -> Answer:
    """Post, or look up."""
    port = world.gateway.port
    if "get" in given:
        return exchange(port, "GET", path_of(world, given["get"]))
    is_v3 = given["post"] in ("v3", "stream")
    kind = given.get("type", "application/json" if is_v3 else "json")
    headers = {"Content-Type": SHORT.get(kind, kind)}
    if "origin" in given:
        headers["Origin"] = given["origin"]
    now = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat() if is_v3 else str(now_ms)
    body = given["body"].encode().replace(b"@now", now.encode()).replace(b"@pad", PAD)
    bodies = [body] * given.get("times", 1)
    path = path_of(world, given["post"])
    if given["post"] == "stream":
        return streamed(world, bodies)
    return exchange(port, "POST", path, headers, b"".join(bodies))


def streamed(world: ConfluentWorld, bodies: list[bytes]) -> Answer:
    """Send bodies as chunks, as far as they are taken, and read the reports."""
    reports = []
    with world.stream("keyed") as stream:
        if not any(stream.would_block(body, 2.0) for body in bodies):
            stream.finish()
        while (report := stream.report()) is not None:
            reports.append(json.dumps(report).encode())
    return Answer(stream.status, {}, b"\r\n".join(reports))


def result_of(answer: Answer, given: dict[str, Any]) -> Result:
    if answer.status >= 300:
        document = answer.document
        assert document.keys() == {"error_code", "message"}
        assert document["message"]
        return Result(answer.status, document["error_code"])
    if "get" in given:
        return Result(answer.status)
    if given["post"] in ("v3", "stream"):
        codes = tuple(one["error_code"] for one in reports_of(answer))
        return Result(answer.status, None, tuple(0 if one == 200 else one for one in codes))
    codes = tuple(one["error_code"] or 0 for one in answer.document["offsets"])
    return Result(answer.status, None, codes)


def reports_of(answer: Answer) -> list[Any]:
    return [json.loads(line) for line in answer.body.strip().split(b"\r\n")]


def shown(record: LogRecord, wanted: dict[str, Any]) -> dict[str, Any]:
    """What a case says of a record."""
    found: dict[str, Any] = {}
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None:
            found[name] = data.decode()
    if "headers" in wanted:
        names = {name for name, _ in wanted["headers"]}
        found["headers"] = [
            [name, (value or b"").decode()] for name, value in record.headers if name in names
        ]
    if "at" in wanted:
        found["at"] = record.timestamp_ms
    return found


@pytest.mark.parametrize("one", POSTED, ids=lambda one: f"{one.peer} {one.case}")
def test_a_case_of_the_peers(world: ConfluentWorld, one: Case) -> None:
    topic, now_ms = world.topic("keyed"), int(time.time() * 1000)
    world.log.take(topic)
    answer = sent(world, one.given, now_ms)
    assert result_of(answer, one.given) == one.here, answer
    found = world.log.take(topic)
    assert one.here is not None
    assert len(found) == sum(code == 0 for code in one.here.answers or ())
    if "log" in one.given:
        offsets = placed(answer, one.given)
        by_place = {(record.partition, record.offset): record for record in found}
        records = [by_place[place] for place in offsets]
        wanted = [{**each, "at": now_ms} if "at" in each else each for each in one.given["log"]]
        assert [shown(*pair) for pair in zip(records, wanted, strict=True)] == wanted


def placed(answer: Answer, given: dict[str, Any]) -> list[tuple[int, int]]:
    """Where the records went that were published, in the order of the answer."""
    if given["post"] in ("v3", "stream"):
        reports = (one for one in reports_of(answer) if one["error_code"] == 200)
        return [(one["partition_id"], one["offset"]) for one in reports]
    offsets = answer.document["offsets"]
    return [(one["partition"], one["offset"]) for one in offsets if one["error_code"] is None]
