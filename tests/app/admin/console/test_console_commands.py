"""What pages show for a shell: on every page, and fit to be pasted whatever others have chosen."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.admin.console.page import Commands
from headgate.config.settings import AuthSettings, Settings
from support.console import world
from support.console.replays import some_replays
from support.console.world import HOSTILE, ConsoleInstance
from support.gateway.admin_world import TOKENS, KeptInMemory, admin_of

Client = TestClient[Any, Any]
NAME = quote(HOSTILE, safe="")
API = {
    "/producers": "/v1/producers",
    f"/producers/{NAME}": f"/v1/producers/{HOSTILE}",
    "/topics": "/v1/topics",
    "/topics/orders": "/v1/topics/orders",
    "/topics/orders/partitions/0": "/v1/groups",
    "/groups": "/v1/groups",
    f"/groups/{NAME}": f"/v1/groups/{HOSTILE}",
    "/replays": "/v1/replays",
    "/replays/ID": "/v1/replays/ID",
    "/audits": "/v1/audits/latest",
    "/audits/orders": "/v1/audits/latest",
    "/configuration": "/v1/config",
    "/log": "/v1/log",
}


@asynccontextmanager
async def opened(instance: ConsoleInstance, services: Any = None) -> AsyncIterator[Client]:
    app = management_app(admin_of(instance, KeptInMemory(), services))
    async with TestClient(TestServer(app)) as client:
        yield client


async def commands(client: Client, path: str, **headers: str) -> list[list[str]]:
    """What the page shows, as a shell takes it apart."""
    answer = await client.get(f"/console{path}", headers=headers)
    text = await answer.text()
    assert answer.status == 200, text
    shown = re.findall(r"<pre[^>]*>((?:curl|headgate)[^<]*)</pre>", text)
    lines = [line for one in shown for line in html.unescape(one).splitlines()]
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("path", API)
async def test_every_page_names_the_request_that_says_the_same(path: str) -> None:
    replays = await some_replays(name=HOSTILE)
    replay = next(iter(replays.registry)).id
    async with opened(await world.hostile(), replays.services()) as client:
        found = await commands(client, path.replace("ID", replay))
        (curl,) = [words for words in found if words[:2] == ["curl", "-s"]]
        address = urlsplit(curl[-1])
        wanted = API[path].replace("ID", replay)
        assert (len(curl), unquote(address.path)) == (3, wanted)
        assert address.netloc == client.make_url("").authority
        answer = await client.get(f"{address.path}?{address.query}")
        assert answer.status == 200, "it can be pasted"


async def test_the_overview_is_on_a_terminal_too() -> None:
    async with opened(world.empty()) as client:
        base = str(client.make_url("")).rstrip("/")
        assert ["headgate", "top", "--url", base] in await commands(client, "")


async def test_actions_have_their_commands() -> None:
    replays = await some_replays()
    replay = next(iter(replays.registry)).id
    async with opened(await world.hostile(), replays.services()) as client:
        pause, resume = [
            words for words in await commands(client, f"/groups/{NAME}") if "-X" in words
        ]
        assert [pause[2], resume[2]] == ["PUT", "DELETE"]
        assert unquote(urlsplit(pause[3]).path) == f"/v1/pauses/{HOSTILE}"
        assert pause[-1] == resume[-1] == '{"scope":"all","reason":"deploy"}'
        steps = [words[1:4] for words in await commands(client, f"/replays/{replay}")][:3]
        assert steps == [["replay", step, replay] for step in ("pause", "resume", "cancel")]


async def test_a_paused_group_has_the_command_that_resumes_it() -> None:
    async with opened(await world.small()) as client:
        intent = {"scope": {"topic": "orders"}, "reason": "Ann's deploy"}
        assert (await client.put("/v1/pauses/billing", json=intent)).status == 200
        found = await commands(client, "/groups/billing")
    (resume,) = [words for words in found if "DELETE" in words]
    assert resume[-1] == '{"scope":{"topic":"orders"},"reason":"Ann\'s deploy"}'


async def test_who_shows_a_token_is_shown_where_it_goes() -> None:
    instance = ConsoleInstance(Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS))
    async with opened(instance) as client:
        (found,) = await commands(client, "/log", Authorization="Bearer viewer-token")
    assert found[:-1] == ["curl", "-s", "-H", "Authorization: Bearer $HEADGATE_TOKEN"]


@pytest.mark.parametrize("base", ["http://a'; id; '", "http://$(id)", "http://`id`:1"])
def test_an_address_is_one_word(base: str) -> None:
    shown = Commands(base, has_token=False)
    body = {"name": "it's $HOME"}
    assert shlex.split(shown.curl("/x'y", "POST", body))[3] == f"{base}/x'y"
    assert shlex.split(shown.curl("/x", "POST", body))[-1] == '{"name":"it\'s $HOME"}'
    assert shlex.split(shown.headgate("replay", "it's"))[2:] == ["it's", "--url", base]
