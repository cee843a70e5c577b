"""A bug after the start of events is answered `unknown`: `internal` says nothing was written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate.http import events as events_module
from headgate.http.confluent import records as v3
from headgate.http.confluent import service as v2
from headgate.ingest.path import Pipeline
from support.gateway.data_plane_world import PromptRoom, data_port
from support.process.stack import eventually

JSON = {"content-type": "application/json"}
V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
BODY = b'{"id":"a"}'
FRONTS = {
    "v1": ("/v1/topics/orders/events", JSON, BODY),
    "v1, as aiohttp serves it": ("/v1/topics/orders/events", {**JSON, "expect": ""}, BODY),
    "an Idempotency-Key": ("/v1/topics/orders/events", {**JSON, "idempotency-key": '"k"'}, BODY),
    "Confluent v2": ("/topics/orders", V2, b'{"records":[{"value":{"id":"a"}}]}'),
    "Confluent v3": (
        "/v3/clusters/c-1/topics/orders/records",
        JSON,
        b'{"value":{"type":"JSON","data":{"id":"a"}}}',
    ),
}
is_compiled = (events_module.__file__ or "").endswith(".so")


def bug(*_arguments: Any) -> Any:
    raise KeyError("a bug")


pytestmark = pytest.mark.skipif(is_compiled, reason="compiled functions cannot be replaced")


@pytest.mark.parametrize("front", FRONTS)
async def test_a_bug_in_the_response_is_answered_unknown(
    monkeypatch: pytest.MonkeyPatch, front: str
) -> None:
    room = PromptRoom()
    monkeypatch.setattr(events_module, "reply_of", bug)
    monkeypatch.setattr(v2, "produced", bug)
    monkeypatch.setattr(v3, "report", bug)
    async with data_port(room) as port:
        answer = await port.ask("POST", *FRONTS[front])
    assert len(room.written) == 1
    assert "may be in the topic" in answer.body.decode(), answer
    assert answer.status == 504


@pytest.mark.parametrize("front", FRONTS)
async def test_a_bug_behind_the_start_is_answered_unknown_once(
    monkeypatch: pytest.MonkeyPatch, front: str
) -> None:
    room, identify = PromptRoom(), Pipeline._identify

    def identify_later(self: Pipeline, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(0.05, identify, self, *arguments)
        bug()

    monkeypatch.setattr(Pipeline, "_identify", identify_later)
    path, headers, body = FRONTS[front]
    async with data_port(room) as port:
        answer = await port.ask("POST", path, headers, body)
        assert "may be in the topic" in answer.body.decode(), answer
        assert answer.status == 504
        await eventually(lambda: bool(room.written))  # its end is the answer to no other request
        monkeypatch.setattr(Pipeline, "_identify", identify)
        answer = await port.ask("POST", path, {**headers, "idempotency-key": '"other"'}, body)
    assert answer.status in (200, 201), answer
    assert len(room.written) == 2
