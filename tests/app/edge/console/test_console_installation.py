"""The pages of the installation: its log, and the configuration in force."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.core.installation.entry import Happening, Kind
from headgate.edge.management.routes import management_app
from headgate.supervisor.installation_log import InstallationLog
from support.console import world
from support.console.world import HOSTILE
from support.gateway.admin_world import admin_of

Client = TestClient[Any, Any]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    log = InstallationLog(None)
    log.note(Happening(Kind.STARTED, "gateway", "with 2 workers"))
    log.note(Happening(Kind.RELOAD_REFUSED, "configuration", f"http.port: {HOSTILE}"))
    for number in range(60):
        log.note(Happening(Kind.WORKER_DIED, f"worker {number}", "signal 9"))
    app = management_app(admin_of(world.empty(), log=log))
    async with TestClient(TestServer(app)) as found:
        yield found


async def text_of(client: Client, path: str) -> str:
    answer = await client.get(f"/console{path}")
    assert answer.status == 200, await answer.text()
    return await answer.text()


async def test_the_log_is_shown_newest_first_in_pages(client: Client) -> None:
    text = await text_of(client, "/log")
    assert "62 entries; page 1 of 2" in text
    assert text.index(">worker 59<") < text.index(">worker 10<")
    assert ">gateway<" not in text
    assert ">gateway<" in await text_of(client, "/log?page=2")


async def test_the_log_is_chosen_by_level_and_word(client: Client) -> None:
    text = await text_of(client, "/log?level=error&q=reload_refused")
    assert "1 entries that match" in text
    assert HOSTILE not in text
    assert "http.port: &lt;script&gt;" in text
    assert "0 entries" in await text_of(client, "/log?level=error&q=with+2+workers")
    assert "62 entries" in await text_of(client, "/log?level=nonsense")


async def test_options_have_their_origins_and_findings_their_fix(client: Client) -> None:
    text = await text_of(client, "/configuration")
    assert "<code>headgate.toml</code>" in text
    assert "<code>http.port</code>" in text
    assert "headgate.toml:3" in text
    assert "http.body_max_bytes" not in text, "nothing sets it"
    assert "anybody may post" in text
    assert "auth.mode = &#34;token&#34;" in text
    everything = await text_of(client, "/configuration?all=1&q=http.body_max")
    assert "<code>http.body_max_bytes</code>" in everything


async def test_what_was_reloaded_is_beside_the_configuration(client: Client) -> None:
    text = await text_of(client, "/configuration")
    assert "reload refused" in text
    assert "with 2 workers" in text
    assert "worker 59" not in text
