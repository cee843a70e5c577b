"""Web pages of elsewhere, without authentication: no change on any page, and no event."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer, TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.supervisor.control import Forward
from headgate.supervisor.parent import management_sites
from support.gateway.admin_world import TOPICS, FakeInstance, KeptInMemory, admin_of
from support.gateway.data_plane_world import data_port

FOREIGN: list[Mapping[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"},
]
REBOUND: Mapping[str, str] = {"Host": "evil.example:8080"}


@pytest.fixture
def instance() -> FakeInstance:
    return FakeInstance(Settings(http=HttpSettings(cors_origins=("*",)), topics=TOPICS))


async def test_no_page_of_the_control_plane_is_for_them(instance: FakeInstance) -> None:
    """The pages are those of the router, so that no new one is forgotten."""
    store = KeptInMemory()
    app = management_app(admin_of(instance, store))
    async with TestClient(TestServer(app)) as client:
        for route in app.router.routes():
            if route.method in ("GET", "HEAD") or route.resource is None:
                continue
            path = route.resource.canonical.format(topic="deals", group="g", id="r")
            for headers in (*FOREIGN, REBOUND):
                answer = await client.request(route.method, path, headers=headers)
                assert answer.status == 403, (path, headers)
                text = await answer.text()
                assert "forbidden" in text.lower(), (path, text)  # JSON, or a page of the console
        assert (await client.get("/v1/topics", headers=REBOUND)).status == 403
        own = f"http://127.0.0.1:{client.port}"
        for headers in ({"Origin": own}, {}):
            answer = await client.delete("/v1/suppression/deals", headers=headers)
            assert answer.status == 200
    assert instance.forgotten == [("deals", None)] * 2
    assert store.groups == {}


async def test_nor_through_a_worker(instance: FakeInstance, tmp_path: Path) -> None:
    forward, one_port = Forward(tmp_path), HttpSettings(port=1, management_port=1)
    app = management_app(admin_of(instance))
    async with (
        management_sites(app, one_port, tmp_path / "parent.sock"),
        RawTestServer(forward) as front,
        aiohttp.ClientSession() as session,
    ):
        url = front.make_url("/v1/suppression/deals")
        for headers in (*FOREIGN, REBOUND):
            async with session.delete(url, headers=headers) as answer:
                assert answer.status == 403, headers
        async with session.delete(url, headers={"Origin": f"http://127.0.0.1:{front.port}"}) as own:
            assert own.status == 200
    await forward.close()
    assert instance.forgotten == [("deals", None)]


async def test_events_of_theirs_are_refused_on_both_ways() -> None:
    """What has an Origin takes the long way, what has only Sec-Fetch-Site the short one."""
    async with data_port() as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port.port}/v1/topics/orders/events"
        for headers in FOREIGN:
            given = {"Content-Type": "text/plain", **headers}
            async with session.post(url, data=b'{"id": 1}', headers=given) as answer:
                page = await answer.json(content_type=None)
                assert (answer.status, page["reason"]) == (403, "forbidden"), headers
        for headers in (REBOUND, {"Origin": f"http://127.0.0.1:{port.port}"}):
            async with session.post(url, json={"id": 1}, headers=headers) as answer:
                assert answer.status == 201
        assert len(port.room.written) == 2
