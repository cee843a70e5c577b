"""Boolean headers and query parameters: true, 1, false, 0, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.http.openapi.document import operations
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import DataPort, data_port

JSON = {"Content-Type": "application/json"}
TRUE = ("true", "1", "True", "TRUE")
FALSE = ("false", "0", "False")
NEITHER = (
    "yes",
    "no",
    "on",
    "off",
    "2",
    "01",
    "-1",
    "t",
    "f",
    "null",
    "wahr",
    "true,true",
    "true ;",
    "",
)
# The second makes a request unfit for the short way.
WAYS = pytest.mark.parametrize("way", [{}, {"Origin": "http://gateway"}], ids=["short", "long"])
HEADERS = ("Headgate-Tombstone", "Headgate-Force", "Headgate-Batch")


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port() as running:
        yield running


def test_all_flags_are_known_here() -> None:
    """A new one must be in these tables, too."""
    flags = {
        each["name"]
        for one in operations(HttpSettings())
        for each in one.parameters
        if "true" in each["schema"].get("enum", ())
    }
    assert flags == {*HEADERS, "pretty", "given"}


@WAYS
async def test_a_header_that_does_not_exist_is_malformed_and_nothing_is_written(
    port: DataPort, way: dict[str, str]
) -> None:
    for body in (b'{"id":1}', b'[{"id":1}]', b'{"id":1}\n{"id":2}'):
        headers = {"Content-Type": "application/json", "Headgate-Keey": "k", **way}
        if body.count(b"\n"):
            headers["Content-Type"] = "application/x-ndjson"
        answer = await port.post("clicks", body, headers)
        assert (answer.status, answer.document["reason"]) == (400, "malformed"), answer
        assert 'Headgate-Keey. Did you mean "Headgate-Key"?' in answer.document["detail"]
    assert port.room.written == []


@WAYS
@pytest.mark.parametrize("name", HEADERS)
async def test_anything_else_is_malformed_and_nothing_is_written(
    port: DataPort, name: str, way: dict[str, str]
) -> None:
    bodies = {
        "application/json": (b'{"id":1}', b'[{"id":1}]', b""),
        "application/x-ndjson": (b'{"id":1}',),
        "text/plain": (b"text", b""),
    }
    for value in NEITHER:
        for content_type, body in ((kind, one) for kind, some in bodies.items() for one in some):
            headers = {"Content-Type": content_type, name: value, "Headgate-Key": "k", **way}
            if body.startswith(b"["):
                headers.pop("Headgate-Key")
            for topic in ("orders", "deals", "clicks"):
                answer = await port.post(topic, body, headers)
                assert (answer.status, answer.document["reason"]) == (400, "malformed"), answer
                assert name in answer.document["detail"], answer
                assert repr(value) in answer.document["detail"], answer
    assert port.room.written == []


@WAYS
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_a_tombstone_is_one_or_is_none(
    port: DataPort, content_type: str, way: dict[str, str]
) -> None:
    sent = {"Content-Type": content_type, "Headgate-Key": "k", **way}
    for value in TRUE:
        assert (await port.post("orders", b"", {**sent, "Headgate-Tombstone": value})).status == 201
    assert [one.record.value for one in port.room.written] == [None] * len(TRUE)
    port.room.lanes.logs.clear()
    for value in FALSE:
        answer = await port.post("orders", b'{"id":1}', {**sent, "Headgate-Tombstone": value})
        assert answer.status == 201
    assert [one.record.value for one in port.room.written] == [b'{"id":1}'] * len(FALSE)


@WAYS
async def test_force_is_forced_or_is_not(port: DataPort, way: dict[str, str]) -> None:
    assert (await port.post("deals", b'{"id":1}', {**JSON, **way})).status == 201
    for value in FALSE:
        answer = await port.post("deals", b'{"id":1}', {**JSON, **way, "Headgate-Force": value})
        assert answer.document["outcome"] == "unchanged", value
    for value in TRUE:
        answer = await port.post("deals", b'{"id":1}', {**JSON, **way, "Headgate-Force": value})
        assert answer.document["outcome"] == "published", value


@WAYS
async def test_an_array_is_a_batch_or_one_event(port: DataPort, way: dict[str, str]) -> None:
    for value in TRUE:
        answer = await port.post("clicks", b"[1,2]", {**JSON, **way, "Headgate-Batch": value})
        assert answer.document["summary"] == {"published": 2}, value
    for value in FALSE:
        answer = await port.post("clicks", b"[1,2]", {**JSON, **way, "Headgate-Batch": value})
        assert answer.document["outcome"] == "published", value


# ---- query parameters


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    app = management_app(admin_of(FakeInstance(Settings(topics=TOPICS))))
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/v1/producers", "/v1/topics", "/v1/topics/orders", "/v1/changes", "/ready"]
)
async def test_pretty(client: TestClient[Any, Any], path: str) -> None:
    async def lines(query: str) -> int:
        answer = await client.get(path + query)
        assert answer.status == 200, query
        return (await answer.text()).rstrip("\n").count("\n")

    assert await lines("") == 0
    for value in FALSE:
        assert await lines(f"?pretty={value}") == 0
    for query in ("?pretty", "?pretty=", *(f"?pretty={value}" for value in TRUE)):
        assert await lines(query) > 0
    for value in NEITHER[:-1]:
        answer = await client.get(path, params={"pretty": value})
        assert answer.status == 400
        page = await answer.json()
        assert page["reason"] == "malformed"
        assert page["detail"].startswith("pretty is ")


async def test_nothing_is_changed_by_a_request_with_a_wrong_flag() -> None:
    instance = FakeInstance(Settings(topics=TOPICS))
    async with TestClient(TestServer(management_app(admin_of(instance)))) as client:
        answer = await client.delete("/v1/suppression/deals?pretty=maybe")
        assert answer.status == 400
        assert instance.forgotten == []
        assert (await client.delete("/v1/suppression/deals?pretty=1")).status == 200
    assert instance.forgotten == [("deals", None)]


async def test_given(client: TestClient[Any, Any]) -> None:
    async def shown(query: str) -> int:
        answer = await client.get(f"/v1/config{query}")
        assert answer.status == 200, query
        return len((await answer.json())["options"])

    every = await shown("")
    for value in FALSE:
        assert await shown(f"?given={value}") == every
    for query in ("?given", "?given=", *(f"?given={value}" for value in TRUE)):
        assert await shown(query) == 1 < every
    for value in NEITHER[:-1]:
        assert (await client.get("/v1/config", params={"given": value})).status == 400, value
