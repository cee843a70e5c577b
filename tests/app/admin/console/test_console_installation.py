"""The pages of the installation: its log, and the configuration in force."""

from __future__ import annotations

import html
import os
import re
import shlex
import threading
from collections import UserDict
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config import Loaded
from headgate.config.problems import Origins
from headgate.model.installation import Detail, Kind, LogEntry, NewEntry
from headgate.supervisor.installation_log import InstallationLog
from support.console import world
from support.console.world import HOSTILE
from support.gateway.admin_world import FakeConfiguration, admin_of

Client = TestClient[Any, Any]


@pytest.fixture
def configuration() -> str:
    return "/etc/head gate/$(id)'s.toml"


@pytest.fixture
async def client(configuration: str) -> AsyncIterator[Client]:
    log = InstallationLog(None)
    log.note(NewEntry(Kind.STARTED, "gateway", "with 2 workers"))
    log.note(NewEntry(Kind.RELOAD_REFUSED, "configuration", f"http.port: {HOSTILE}"))
    for number in range(60):
        log.note(NewEntry(Kind.WORKER_DIED, f"worker {number}", "signal 9"))
    instance = world.empty()
    active = FakeConfiguration(instance.settings)
    active.shown = active.shown._replace(file=configuration)
    app = management_app(admin_of(instance, log=log, configuration=active))
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


async def test_a_search_finds_what_is_shown_and_nothing_else(client: Client) -> None:
    """Entries have numbers, from 1 to 62, that nobody sees; 61 is of no worker."""
    assert "0 entries" in await text_of(client, "/log?q=61")
    assert "60 entries" in await text_of(client, "/log?q=worker+died")


async def test_links_keep_what_is_searched_and_the_order(client: Client) -> None:
    text = await text_of(client, "/log?q=worker&sort=at&order=asc&page=2")
    (link,) = re.findall(r'<a href="([^"]*level=error[^"]*)"', text)
    kept = parse_qs(urlsplit(html.unescape(link)).query)
    assert kept == {"q": ["worker"], "sort": ["at"], "order": ["asc"], "level": ["error"]}
    assert '<input type="hidden" name="order" value="asc">' in text
    text = await text_of(client, "/configuration?q=http&order=desc&sort=origin&all=1")
    (link,) = re.findall(r'<a href="([^"]*)">Only set options', text)
    kept = parse_qs(urlsplit(html.unescape(link)).query)
    assert kept == {"q": ["http"], "sort": ["origin"], "order": ["desc"]}


async def test_commands_are_fit_to_be_pasted(client: Client, configuration: str) -> None:
    text = html.unescape(await text_of(client, "/configuration"))
    assert f"kill -HUP {os.getpid()}<" in text
    (command,) = re.findall(r"headgate check --connect --config [^<]*", text)
    assert shlex.split(command)[-1] == configuration


class ReadFrom(Origins):
    """Notes which threads read it: one look for each option."""

    def __init__(self) -> None:
        super().__init__({"http.port": "headgate.toml:3"})
        self.threads: set[threading.Thread] = set()

    def __getitem__(self, option: str) -> str:
        self.threads.add(threading.current_thread())
        return super().__getitem__(option)


async def test_options_are_not_read_on_the_event_loop() -> None:
    """A thousand topics have 40 of them each."""
    instance, origins = world.empty(), ReadFrom()
    active = FakeConfiguration(instance.settings)
    active.shown = active.shown._replace(loaded=Loaded(instance.settings, origins))
    admin = admin_of(instance, configuration=active)
    async with TestClient(TestServer(management_app(admin))) as client:
        for path in ("/console/configuration?all=1", "/v1/config"):
            assert (await client.get(path)).status == 200
            assert origins.threads
            assert threading.main_thread() not in origins.threads
            origins.threads.clear()


class Text(str):
    """Notes which threads search in it."""

    __slots__ = ("threads",)

    def __format__(self, spec: str) -> str:
        self.threads.add(threading.current_thread())
        return super().__format__(spec)


class Details(UserDict[str, Detail]):
    """Notes which threads format it."""

    def __getitem__(self, name: str) -> Detail:
        self.threads.add(threading.current_thread())
        return super().__getitem__(name)


class Searched(NamedTuple):
    """A log with one entry."""

    text: Text
    details: Details

    def recent(self, limit: int = 1) -> Sequence[LogEntry]:
        at_ms = 1_790_000_000_000
        return [LogEntry(1, at_ms, Kind.STARTED, "gateway", self.text, self.details)][:limit]


async def test_the_log_is_not_searched_on_the_event_loop() -> None:
    """It has up to 2,000 texts of up to a thousand characters."""
    text, details, admin = Text("with 2 workers"), Details(workers=2), admin_of(world.empty())
    text.threads = details.threads = set()
    searched = Searched(text, details)
    admin.installation.sources = admin.installation.sources._replace(entries=searched.recent)
    async with TestClient(TestServer(management_app(admin))) as client:
        assert "1 entries that match" in await text_of(client, "/log?q=2+workers")
        assert text.threads
        (entry,) = (await (await client.get("/v1/log")).json())["entries"]
    assert entry["details"] == {"workers": 2}
    assert threading.main_thread() not in text.threads


async def test_options_have_their_origins_and_findings_their_fix(client: Client) -> None:
    text = await text_of(client, "/configuration")
    assert "s.toml</code>, read at" in text
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
