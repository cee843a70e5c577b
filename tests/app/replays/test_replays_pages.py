"""The pages of the second tier without Kafka: who may do what, and what is told of mistakes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, HttpSettings, Settings
from headgate.http.auth import CORS_HEADERS
from headgate.model.outcome import Failure, Reason, Refused
from headgate.replays.registry import Control
from headgate.replays.second_tier import NoSecondTier, Rows, SecondTier
from headgate.supervisor.control import Forward
from headgate.supervisor.parent import management_sites
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, admin_of

ID = "0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001"
IS_JSON = {"Content-Type": "application/json"}
ASKED = {"name": "again", "topic": "orders", "from": {"timestamp": 0}, "deliver": {"mode": "seek"}}


class InMemory(NoSecondTier):
    """Implements the desks; one replay, whose states are given one after the other."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.states = ["pending", "pending", "copying", "ready", "cancelled"]

    async def create(
        self, asked: Any, caller: str, idempotency_key: str | None
    ) -> tuple[dict[str, Any], bool]:
        self.calls.append(("create", caller, idempotency_key))
        is_dry = asked.get("dry_run") is True
        return {"id": ID, "name": asked["name"], "topic": asked["topic"]}, not is_dry

    async def list(self, topic: str | None, state: str | None) -> Rows:
        self.calls.append(("list", topic, state))
        return [], []

    async def show(self, replay_id: str) -> dict[str, Any]:
        if replay_id != ID:
            raise Refused(Failure(Reason.NOT_FOUND, f"no replay {replay_id!r}"))
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"id": ID, "state": state}

    async def control(self, replay_id: str, wanted: Control) -> dict[str, Any]:
        self.calls.append(("control", wanted))
        return {"id": replay_id, "state": "pending"}

    async def take(self, asked: Any, caller: str) -> tuple[dict[str, Any], bool]:
        return {"name": asked["name"]}, True

    async def translate(self, _asked: Any) -> dict[str, Any]:
        return {"offsets": {}}


@pytest.fixture
def service() -> InMemory:
    return InMemory()


@pytest.fixture
async def client(service: InMemory) -> AsyncIterator[TestClient[Any, Any]]:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    admin = admin_of(FakeInstance(settings), services=SecondTier(service, service, service))
    async with TestClient(TestServer(management_app(admin))) as client:
        yield client


def as_(name: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-token", **more}


@pytest.mark.parametrize(
    ("method", "path", "body", "of_viewer", "of_operator"),
    [
        ("POST", "/v1/replays", ASKED, 403, 201),
        ("POST", "/v1/replays", {**ASKED, "dry_run": True}, 200, 200),
        ("GET", "/v1/replays", None, 200, 200),
        ("GET", f"/v1/replays/{ID}", None, 200, 200),
        ("DELETE", f"/v1/replays/{ID}", None, 403, 200),
        ("POST", f"/v1/replays/{ID}/pause", None, 403, 200),
        ("POST", f"/v1/replays/{ID}/resume", None, 403, 200),
        ("POST", "/v1/offsets/translate", {"topic": "orders"}, 200, 200),
        ("GET", "/v1/coverage/orders", None, 422, 422),
        ("GET", "/v1/snapshots", None, 200, 200),
        ("POST", "/v1/snapshots", {"name": "now", "topic": "orders"}, 403, 201),
    ],
)
async def test_viewers_look_and_operators_change(
    client: TestClient[Any, Any],
    method: str,
    path: str,
    body: Any,
    of_viewer: int,
    of_operator: int,
) -> None:
    statuses = [
        (await client.request(method, path, json=body, headers=as_(name))).status
        for name in ("shop", "viewer", "operator")
    ]
    assert statuses == [403, of_viewer, of_operator]
    nobody = await client.request(method, path, json=body)
    assert (nobody.status, (await nobody.json())["reason"]) == (401, "unauthenticated")


async def test_a_change_is_in_the_change_log(
    client: TestClient[Any, Any], service: InMemory
) -> None:
    headers = as_("operator", **{"Idempotency-Key": "k"})
    made = await client.post("/v1/replays", json=ASKED, headers=headers)
    assert made.headers["Location"] == f"/v1/replays/{ID}"
    await client.delete(f"/v1/replays/{ID}", headers=as_("operator"))
    assert service.calls == [("create", "operator", "k"), ("control", Control.CANCEL)]
    changes = (await (await client.get("/v1/changes", headers=as_("viewer"))).json())["changes"]
    assert [(one["what"], one["who"], one["replay"]) for one in changes] == [
        ("cancel replay", "operator", ID), ("replay", "operator", ID),
    ]  # fmt: skip


async def test_events_end_with_the_replay(client: TestClient[Any, Any]) -> None:
    answer = await client.get(f"/v1/replays/{ID}/events", headers=as_("viewer"))
    text = await answer.text()
    reported = [line.partition('"state":')[2] for line in text.splitlines() if "data:" in line]
    assert reported == ['"pending"}', '"copying"}', '"ready"}', '"cancelled"}']


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b" " * 1_100_000, {}, 413),
        (b"{}", {"Idempotency-Key": "k" * 300}, 400),
    ],
)
async def test_what_makes_no_sense_is_refused(
    client: TestClient[Any, Any], body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await client.post(
        "/v1/replays", data=BytesIO(body), headers=as_("operator", **IS_JSON, **headers)
    )
    assert answer.status == status
    assert answer.content_type == "application/problem+json"


@pytest.mark.parametrize(
    "value", [r'"\ud800"', "18446744073709551616", "NaN", "[" * 250 + "]" * 250]
)
async def test_what_could_not_be_shown_again_is_not_kept(
    client: TestClient[Any, Any], service: InMemory, value: str
) -> None:
    """It would make every later list of replays an internal error."""
    body = json.dumps({**ASKED, "filter": {"equals": {"/a": 0}}}).replace("0}", value + "}")
    answer = await client.post("/v1/replays", data=body, headers=as_("operator", **IS_JSON))
    assert (answer.status, (await answer.json())["reason"]) == (400, "malformed")
    assert service.calls == []


async def test_events_come_as_they_happen_where_both_ports_are_one(
    service: InMemory, tmp_path: Path
) -> None:
    """A worker hands the request on to the parent: each event, not the whole stream at its end."""
    service.states = ["pending"]
    admin = admin_of(
        FakeInstance(Settings(topics=TOPICS)), services=SecondTier(service, service, service)
    )
    one_port = HttpSettings(port=1, management_port=1)
    forward = Forward(tmp_path)

    async def of_a_page(request: web.BaseRequest) -> web.StreamResponse:
        request[CORS_HEADERS] = {"Access-Control-Allow-Origin": "*"}  # as DataPlane does
        return await forward(request)

    async with (
        management_sites(management_app(admin), one_port, tmp_path / "parent.sock"),
        RawTestServer(of_a_page) as front,
        aiohttp.ClientSession() as session,
        asyncio.timeout(60),
        session.get(front.make_url(f"/v1/replays/{ID}/events")) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert await answer.content.readline() == b"event: replay\n"
        service.states = ["cancelled"]
        assert b'"state":"cancelled"' in await answer.content.read()
    await forward.close()


async def test_asking_for_headers_alone_opens_no_stream(
    client: TestClient[Any, Any], service: InMemory
) -> None:
    """Nothing is written then, so that it would not even be seen that the reader has left."""
    service.states = ["pending"]
    path, headers = f"/v1/replays/{ID}/events", as_("viewer")
    async with asyncio.timeout(60):
        for _ in range(100):
            answer = await client.head(path, headers=headers)
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            answer.close()
        service.states = ["cancelled"]
        assert (await client.get(path, headers=headers)).status == 200
