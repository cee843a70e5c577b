"""Whether a topic takes an event now is decided in one place, and every front asks there."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import headgate
from headgate.config import HttpSettings
from headgate.ingest import gate as gate_module
from headgate.ingest.gate import Gate, Routes
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.route import Route
from support.gateway.data_plane_world import PromptRoom, data_port

PACKAGE = Path(headgate.__file__).parent
PAUSED = Failure(Reason.OVERLOADED, "this topic is paused", retry_after_s=7)
JSON = {"content-type": "application/json"}
V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
BODY = b'{"id":"a"}'
RECORD = json.dumps({"value": {"type": "JSON", "data": {"id": "a"}}}).encode()
FRONTS = {
    "v1": ("/v1/topics/orders/events", JSON, BODY),
    "v1, as aiohttp serves it": ("/v1/topics/orders/events", {**JSON, "expect": ""}, BODY),
    "v1, a batch": (
        "/v1/topics/orders/events",
        {"content-type": "application/x-ndjson"},
        BODY + b"\n" + BODY,
    ),
    "CloudEvents": (
        "/v1/topics/orders/events",
        {**JSON, "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"},
        BODY,
    ),
    "an Idempotency-Key": ("/v1/topics/orders/events", {**JSON, "idempotency-key": '"k"'}, BODY),
    "more than memory takes": ("/v1/topics/orders/events", JSON, BODY.ljust(3000)),
    "Confluent v2": (
        "/topics/orders",
        V2,
        b'{"records":[{"value":{"id":"a"}}]}',
    ),
    "Confluent v3": ("/v3/clusters/c-1/topics/orders/records", JSON, RECORD),
}


def pausing_gate(routes: Routes) -> Gate:
    """`orders` is paused: what somebody will add one day."""
    if (gate_module.__file__ or "").endswith(".so"):
        pytest.skip("nothing inherits from a compiled class; the sources have the same fronts")

    class PausingGate(Gate):
        def open(self, topic: str, *, needs_offset: bool = False) -> Route:
            if topic == "orders":
                raise Refused(PAUSED)
            return super().open(topic, needs_offset=needs_offset)

    return PausingGate(routes)


@pytest.mark.parametrize("front", FRONTS)
async def test_a_reason_that_the_gate_has_is_every_fronts_answer(front: str) -> None:
    path, headers, body = FRONTS[front]
    room = PromptRoom()
    routes: Routes = room.pipeline.gate.routes
    room.build(gate=pausing_gate(routes))
    async with data_port(room, HttpSettings(body_max_bytes=2000)) as port:
        answer = await port.ask("POST", path, headers, body)
        text = answer.body.decode()
        assert PAUSED.detail in text, text
        other = await port.ask("POST", path.replace("orders", "clicks"), headers, body)
        assert PAUSED.detail not in other.body.decode()
    assert all(one.record.topic == "clicks" for one in room.written)
    assert (room.admission.bytes, room.admission.events) == (0, 0)


@pytest.mark.parametrize("front", FRONTS)
async def test_every_front_uses_the_gates_branch_for_spooled_topics(front: str) -> None:
    """Native requests pass, and a front whose answers have offsets refuses."""
    path, headers, body = FRONTS[front]
    room, asked = PromptRoom(), list[str]()

    def is_spooled(topic: str) -> bool:
        asked.append(topic)
        return True

    room.build(gate=Gate(room.pipeline.gate.routes, is_spooled=is_spooled))
    async with data_port(room, HttpSettings(body_max_bytes=2000)) as port:
        answer = await port.ask("POST", path, headers, body)
    assert {*asked} == {"orders"}
    refused = b"still holds events of this topic" in answer.body
    assert refused == front.startswith("Confluent")
    assert bool(room.written) != (refused or front == "more than memory takes")


def test_nobody_else_finds_out_whether_a_topic_takes_events() -> None:
    """Routes are found by the gate; the coalescer has routes of its own, past the held topics."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "find":
                owner = ast.unparse(node.value)
                if owner.endswith("routes"):
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert {name for name in found if not name.startswith("coalescer/")} == {"ingest/gate.py"}
