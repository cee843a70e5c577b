"""`schema_file` with a real gateway: what is refused and how, what records say, and reloads."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.clients.http_client import JSON, Answer, exchange
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = [pytest.mark.kafka]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[topics."{topic}"]
key = ["/id"]
schema_file = "{schema}"
"""
SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


@pytest.fixture
def gateway(
    kafka: RunningBroker, start_gateway: Callable[..., Gateway], topic_name: str, schema: Path
) -> Gateway:
    kafka.create_topic(topic_name, 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name, schema=schema)
    return start_gateway(text)


def post(gateway: Gateway, topic: str, body: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/v1/topics/{topic}/events"
    return exchange(gateway.port, "POST", path, {**JSON, **named}, body, 60.0)


def version(schema: Path) -> bytes:
    return hashlib.sha256(schema.read_bytes()).hexdigest()[:16].encode()


async def test_what_does_not_fit_is_refused_with_its_places(
    gateway: Gateway, kafka: RunningBroker, topic_name: str, schema: Path
) -> None:
    assert post(gateway, topic_name, b'{"id":"a","n":1}').status == 201
    wrong = post(gateway, topic_name, b'{"id":"a","n":"1"}')
    assert (wrong.status, wrong.document["reason"]) == (422, "schema_violation")
    (violation,) = wrong.document["violations"]
    assert (violation["path"], violation["schema_path"]) == ("/n", "/properties/n/type")
    batch = post(gateway, topic_name, b'[{"id":"b"},{"id":"c","n":1.5},{"id":"d","n":2}]')
    assert (batch.status, batch.document["summary"]) == (207, {"published": 2, "rejected": 1})
    assert batch.document["outcomes"][1]["violations"][0]["path"] == "/n"
    large = {"id": "e", "n": "x", "text": ["y" * 100] * 2_000}
    assert post(gateway, topic_name, json.dumps(large).encode()).status == 422
    assert post(gateway, topic_name, json.dumps({**large, "n": 3}).encode()).status == 201
    opaque = post(gateway, topic_name, b"\x00", Content_Type="application/avro", Headgate_Key="f")
    assert (opaque.status, opaque.document["reason"]) == (422, "schema_violation")
    tombstone = post(gateway, topic_name, b"", Headgate_Tombstone="true", Headgate_Key="a")
    assert tombstone.status == 201
    log = read_log(kafka.bootstrap, topic_name)
    assert [record.key for record in log] == [b"a", b"b", b"d", b"e", b"a"]
    assert [record.header("hg-schema") for record in log] == [version(schema)] * 4 + [None]


@pytest.mark.parametrize(("n", "status"), [(1, 201), ("1", 422)])
async def test_of_a_cloudevent_the_data_counts(
    gateway: Gateway, topic_name: str, n: object, status: int
) -> None:
    data = {"id": "a", "n": n}
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": data}
    content_type = "application/cloudevents+json"
    whole = post(gateway, topic_name, json.dumps(event).encode(), Content_Type=content_type)
    assert whole.status == status
    attributes = {"ce_specversion": "1.0", "ce_id": "2", "ce_source": "/s", "ce_type": "t"}
    assert post(gateway, topic_name, json.dumps(data).encode(), **attributes).status == status


async def test_a_reload_takes_a_changed_schema_and_refuses_a_broken_one(
    gateway: Gateway, topic_name: str, schema: Path
) -> None:
    event = b'{"id":"a","n":"1"}'
    assert post(gateway, topic_name, event).status == 422
    await asyncio.to_thread(schema.write_text, "{")
    gateway.reload()
    await eventually(lambda: "reload refused" in gateway.log())
    assert "schema_file" in gateway.log()
    worker = next(pid for pid in gateway.pids if "worker" in psutil.Process(pid).cmdline())
    psutil.Process(worker).kill()  # its successor has the schema in force, not the broken file
    await eventually(lambda: worker not in gateway.pids and gateway.is_ready(), 30.0)
    assert post(gateway, topic_name, event).status == 422
    await asyncio.to_thread(schema.write_text, json.dumps({"type": "object"}))
    gateway.reload()
    await eventually(lambda: post(gateway, topic_name, event).status == 201)
    answer: Any = exchange(gateway.management_port, "GET", f"/v1/topics/{topic_name}").document
    assert answer["policy"]["schema_version"] == version(schema).decode()
