"""What the management port says of the installation: its log and its configuration."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from openapi_schema_validator import OAS31Validator

from headgate.admin.app import management_app
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.settings import HttpSettings, Settings
from headgate.http.openapi.document import document
from headgate.model.installation import Kind, NewEntry
from headgate.supervisor.installation_log import InstallationLog
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, admin_of

BASE_S = 1_790_000_000  # 2026-09-21T14:13:20Z
SECRETS = {
    "sasl": "sasl-secret", "redis": "redis-secret", "urls": "urls-secret", "url": "url-secret",
}  # fmt: skip


@pytest.fixture
def log() -> InstallationLog:
    made = InstallationLog(None, itertools.count(BASE_S * 1000, 1000).__next__)
    for number in range(5):
        made.note(NewEntry(Kind.OUTAGE_BEGAN, "redis", f"outage {number}"))
        made.note(NewEntry(Kind.OUTAGE_ENDED, "redis", f"end {number}", {"seconds": number}))
    return made


@pytest.fixture
async def client(log: InstallationLog) -> AsyncIterator[TestClient[Any, Any]]:
    cluster = ClusterSettings(
        bootstrap_servers=("127.0.0.1:9092",),
        sasl_password=SECRETS["sasl"],
        metrics_urls=(f"https://ann:{SECRETS['url']}@metrics.example/",),
    )
    settings = Settings(
        clusters={"main": cluster},
        redis=RedisSettings(
            url=f"redis://:{SECRETS['redis']}@127.0.0.1:6379/0",
            urls=(f"redis://:{SECRETS['urls']}@127.0.0.1:6380/0",),
        ),
        producers=TOKENS,
        topics=TOPICS,
    )
    app = management_app(admin_of(FakeInstance(settings), log=log))
    async with TestClient(TestServer(app)) as found:
        yield found


async def page(client: TestClient[Any, Any], path: str) -> Any:
    answer = await client.get(path)
    assert answer.status == 200, await answer.text()
    shown = await answer.json()
    described = orjson.loads(document(HttpSettings()))
    operation = described["paths"][path.partition("?")[0]]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    OAS31Validator({**schema, "components": described["components"]}).validate(shown)
    return shown


async def test_the_log_comes_newest_first_page_by_page(client: TestClient[Any, Any]) -> None:
    found, after = [], ""
    while True:
        shown = await page(client, f"/v1/log?limit=4{after}")
        found += [entry["id"] for entry in shown["entries"]]
        if shown["next"] is None:
            break
        after = f"&after={shown['next']}"
    assert found == list(range(10, 0, -1))


async def test_an_entry_says_when_what_and_how_bad(client: TestClient[Any, Any]) -> None:
    newest = (await page(client, "/v1/log?limit=1"))["entries"][0]
    assert newest == {
        "id": 10, "at": "2026-09-21T14:13:29.000Z", "kind": "outage_ended", "level": "info",
        "subject": "redis", "text": "end 4", "details": {"seconds": 4},
    }  # fmt: skip


async def test_the_log_is_filtered_by_kind_and_time(client: TestClient[Any, Any]) -> None:
    begun = await page(client, "/v1/log?kind=outage_began,started&since=2026-09-21T14:13:24Z")
    assert [entry["text"] for entry in begun["entries"]] == ["outage 4", "outage 3", "outage 2"]
    both = await page(client, "/v1/log?kind=outage_began&kind=outage_ended")
    assert len(both["entries"]) == 10


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kind=outage", "kind is one or some of started"),
        ("since=yesterday", "a time with a zone"),
        ("since=2026-09-21T14:13:24", "a time with a zone"),
        ("after=x", "after is"),
        ("limit=0", "1 to 1000"),
    ],
)
async def test_what_is_asked_wrongly_is_malformed(
    client: TestClient[Any, Any], query: str, said: str
) -> None:
    answer = await client.get(f"/v1/log?{query}")
    assert answer.status == 400
    assert said in (await answer.json())["detail"]


async def test_every_option_is_shown_with_its_origin(client: TestClient[Any, Any]) -> None:
    shown = await page(client, "/v1/config?section=http&limit=1000")
    options = {one["option"]: one for one in shown["options"]}
    assert options["http.port"] == {
        "option": "http.port", "value": 8080, "origin": "headgate.toml:3",
    }  # fmt: skip
    assert options["http.host"]["origin"] == "default"
    assert all(name.startswith("http.") for name in options)
    assert (shown["file"], shown["read_at"]) == ("headgate.toml", "2026-09-21T14:13:20.000Z")


async def test_what_is_given_can_be_had_alone(client: TestClient[Any, Any]) -> None:
    shown = await page(client, "/v1/config?given=true")
    assert [one["option"] for one in shown["options"]] == ["http.port"]


async def test_one_table_is_a_section(client: TestClient[Any, Any]) -> None:
    shown = await page(client, "/v1/config?section=topics.orders&limit=1000")
    assert {"topics.orders.key", "topics.orders.suppress"} <= {
        one["option"] for one in shown["options"]
    }
    answer = await client.get("/v1/config?section=nothing")
    assert answer.status == 400


async def test_pages_of_options_have_each_once(client: TestClient[Any, Any]) -> None:
    every = await page(client, "/v1/config?limit=1000")
    assert every["next"] is None
    found, after = [], ""
    while True:
        shown = await page(client, f"/v1/config?limit=37{after}")
        found += shown["options"]
        if shown["next"] is None:
            break
        after = f"&after={shown['next']}"
    assert found == every["options"]


async def test_no_secret_is_shown(client: TestClient[Any, Any]) -> None:
    answer = await client.get("/v1/config?limit=1000")
    text = await answer.text()
    assert [name for name, secret in SECRETS.items() if secret in text] == []
    assert [one for one in TOKENS.values() if one.token_sha256[0] in text] == []
    options = {one["option"]: one["value"] for one in (await answer.json())["options"]}
    assert options["clusters.main.sasl_password"] == "***"
    assert options["redis.url"] == "redis://:***@127.0.0.1:6379/0"
    assert options["redis.urls"] == ["redis://:***@127.0.0.1:6380/0"]
    assert options["clusters.main.metrics_urls"] == ["https://ann:***@metrics.example/"]
    assert options["producers.viewer.token_sha256"] == ["***"]


async def test_findings_are_those_of_check(client: TestClient[Any, Any]) -> None:
    shown = await page(client, "/v1/config/findings")
    assert [one["subject"] for one in shown["findings"]] == ["auth.mode"]
    assert shown["next"] is None
