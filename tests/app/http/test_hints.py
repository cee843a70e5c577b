"""The commonest first mistakes, and what their answers advise."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import Settings
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import DataPort, data_port

ONE, FORM = b'{"id":1}', "application/x-www-form-urlencoded"
JSON, NDJSON = "application/json", "application/x-ndjson"
ENVELOPE = b'{"events": [{"value": {"id": 1}}]}'
ENVELOPE_TYPE = "application/vnd.headgate.batch+json"
CLOUDEVENT = b'{"specversion":"1.0","type":"t","source":"/s","id":"e"}'


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port() as running:
        yield running


@pytest.mark.parametrize("way", [{}, {"Content-Encoding": "identity"}], ids=["short", "long"])
@pytest.mark.parametrize(
    ("content_type", "body", "status", "advised"),
    [
        (None, ONE, 422, "application/json"),
        (FORM, ONE, 422, "application/json"),
        ("text/plain;charset=UTF-8", ONE, 422, "application/json"),
        (FORM, b"id=1", 422, "application/json"),
        (None, b'[{"id":1}]', 422, "application/json"),
        (None, b'{"id":1}\n{"id":2}\n', 422, "application/x-ndjson"),
        (FORM, ENVELOPE, 422, "application/vnd.headgate.batch+json"),
        (JSON, b'{"id":1}\n{"id":2}\n', 400, "application/x-ndjson"),
        (JSON, ENVELOPE, 422, "application/vnd.headgate.batch+json"),
        (JSON, CLOUDEVENT.replace(b'"id"', b'"no"'), 422, "application/cloudevents+json"),
        (NDJSON, b'[{"id":1},{"id":2}]', 422, "application/json"),
        (NDJSON, b'[\n{"id":1},\n{"id":2},\n]', 400, "application/json"),
        (JSON, b"{}", 422, None),
        (JSON, b"{", 400, None),
    ],
)  # fmt: skip
async def test_another_content_type_is_advised(
    port: DataPort,
    content_type: str | None,
    body: bytes,
    status: int,
    advised: str | None,
    way: dict[str, str],
) -> None:
    headers = way if content_type is None else {"Content-Type": content_type, **way}
    answer = await port.post("orders", body, headers)
    assert port.room.written == []
    page: Any = answer.document
    first = page["outcomes"][0] if "outcomes" in page else page
    assert first["status"] == status, page
    if advised is None:
        assert "Content-Type" not in first["detail"]
        return
    assert first["detail"].endswith(f"send Content-Type: {advised}"), first["detail"]
    if content_type in (FORM, None):
        assert (content_type or "Without a Content-Type") in first["detail"]


@pytest.mark.parametrize("way", [{}, {"Content-Encoding": "identity"}], ids=["short", "long"])
@pytest.mark.parametrize(
    ("headers", "body", "advised"),
    [
        (
            {"Headgate-Tombstone": "true"},
            b"",
            "send Headgate-Key. A tombstone has no value with a key",
        ),
        ({"Content-Type": JSON}, b'{"records": [{"value": 1}]}', "post it to /topics/TOPIC"),
        ({}, b'{"records": [{"value": 1}]}', "post it to /topics/TOPIC"),
        ({"Content-Type": NDJSON}, b'{"id":1}{"id":2}', "with --data-binary, not -d"),
        ({"Content-Type": JSON}, b'{"id":1} {"id":2}', "with --data-binary, not -d"),
        (
            {"Content-Type": ENVELOPE_TYPE},
            b'[{"value": {"id": 1}}]',
            'the envelope: an object {"events": [...]} was expected',
        ),
        (
            {"Content-Type": ENVELOPE_TYPE},
            b'{"events": [{"value": {"id": 1}, "colour": 1}]}',
            "unknown field `colour`. The members are key, key_base64, value, value_base64, "
            "tombstone, id, headers, timestamp_ms",
        ),
    ],
)
async def test_the_fix_of_another_mistake_is_advised(
    port: DataPort, headers: dict[str, str], body: bytes, advised: str, way: dict[str, str]
) -> None:
    answer = await port.post("orders", body, {**headers, **way})
    page: Any = answer.document
    first = page["outcomes"][0] if "outcomes" in page else page
    assert first["detail"].endswith(advised), first["detail"]


async def test_opaque_bytes_with_a_key_need_no_advice(port: DataPort) -> None:
    answer = await port.post("orders", ONE, {"Headgate-Key": "k", "Content-Type": "text/plain"})
    assert answer.status == 201


EVENTS = "/v1/topics/orders/events"


@pytest.mark.parametrize(
    ("method", "path", "advised"),
    [
        ("POST", "/v1/topics/orders", EVENTS),
        ("POST", "/v1/topics/orders/", EVENTS),
        ("POST", "/v1/topic/orders/events", EVENTS),
        ("POST", "/v1/topics/orders/event", EVENTS),
        ("POST", "/v1/topics/orders/events/", EVENTS),
        ("POST", "/v1/orders/events", EVENTS),
        ("POST", "/orders", EVENTS),
        ("GET", "/v1/topics/orders", "http.management_port"),
        ("GET", "/v1/producers", "http.management_port"),
        ("GET", "/metrics", "http.management_port"),
        ("GET", "/console", "http.management_port"),
        ("DELETE", "/v1/suppression/orders", "http.management_port"),
        ("PUT", "/v1/pauses/g", "http.management_port"),
        ("POST", "/v1/replays", "http.management_port"),
        ("GET", "/nowhere", None),
        ("POST", "/nowhere/deep", None),
    ],
)
async def test_another_path_is_advised(
    port: DataPort, method: str, path: str, advised: str | None
) -> None:
    answer = await port.ask(method, path)
    assert (answer.status, answer.document["reason"]) == (404, "not_found")
    detail = answer.document["detail"]
    assert detail == f"no page at {path}" if advised is None else advised in detail


async def test_a_path_between_that_of_confluent_and_ours_is_advised(port: DataPort) -> None:
    answer = await port.ask("POST", "/topics/orders/events")
    assert (answer.status, answer.document["error_code"]) == (404, 404)
    assert answer.document["message"].endswith(f"events are posted to {EVENTS}")
    assert (
        "is not offered" in (await port.ask("POST", "/topics/orders/events/x")).document["message"]
    )


@pytest.mark.parametrize(
    ("content_type", "body", "advised"),
    [
        (JSON, b'"{\\"id\\":1}"', "is it encoded twice?"),
        (JSON, b' ["{\\"id\\":1}"]', "is it encoded twice?"),
        (NDJSON, b'"{}"\n', "is it encoded twice?"),
        ("application/vnd.shop+json", b'"{}"', "is it encoded twice?"),
        (JSON, b"{}", "The header Headgate-Key can also give the key"),
        (JSON, b"[{}]", "absent, null or empty"),
        (NDJSON, b"{}\n{}\n", "absent, null or empty"),
        (JSON, b'{"id": ', "the JSON text ends too early, after 7 bytes"),
        (JSON, b'[{"id": 1}, {', "the JSON text ends too early, after 13 bytes"),
        (NDJSON, b'{"id": \n', "the JSON text ends too early, after 7 bytes"),
    ],
)  # fmt: skip
async def test_a_body_is_explained(
    port: DataPort, content_type: str, body: bytes, advised: str
) -> None:
    answer = await port.post("orders", body, {"Content-Type": content_type})
    page: Any = answer.document
    first = page["outcomes"][0] if "outcomes" in page else page
    assert first["detail"].endswith(advised), first["detail"]


async def test_pages_of_problems_show_code(port: DataPort) -> None:
    page = (await port.ask("GET", "/problems/unauthenticated")).body.decode()
    assert "Send <code>Authorization: Bearer &lt;token&gt;</code> with" in page
    assert "`" not in page


@pytest.fixture
async def management() -> AsyncIterator[TestClient[Any, Any]]:
    app = management_app(admin_of(FakeInstance(Settings(topics=TOPICS))))
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", EVENTS, 404), ("GET", EVENTS, 404), ("POST", "/v1/topics/orders", 405),
     ("POST", "/topics/orders", 404), ("POST", "/orders", 404)],
)  # fmt: skip
async def test_the_data_port_is_advised(
    management: TestClient[Any, Any], method: str, path: str, status: int
) -> None:
    answer = await management.request(method, path)
    assert answer.status == status
    assert "data port (http.port = 8080)" in (await answer.json())["detail"]
