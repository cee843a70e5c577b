"""The sample shop: the commands of its page as they stand, and totals that are those of the log."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from support.console.browser import CHROMIUM, browser, page
from support.kafka.kafka_log import read_log
from support.pages import differences, text_of
from support.process.stack import eventually
from support.root import ROOT

# Everything is started for it, Spark too: that takes minutes where others work on the same machine.
pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(900)]

PAGE = "examples/shop"
PATIENCE_S = 60  # `eventually` waits three times as long
PACE_S = 0.2  # of who orders: the machine has more to do
KILLS = 2  # each costs ten seconds, until the group has given the member up
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Shop:
    """The one command, running in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".shop"
        self._said = folder / "said"
        with self._said.open("wb") as said:
            command = [sys.executable, "-m", "examples.shop"]
            self.process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)

    def said(self) -> str:
        return self._said.read_text()

    def is_open(self) -> bool:
        assert self.process.poll() is None, self.said()
        return "The shop is open" in self.said()

    @property
    def where(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "where.json").read_text())
        return found

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.where['port']}"

    @property
    def consumer(self) -> int:
        return int((self.state / "consumer.pid").read_text())

    def run(self, command: str) -> str:
        """Run a command of the page."""
        command = command.replace("http://127.0.0.1:8000", self.url)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
            timeout=10 * PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def end(self) -> None:
        """Ctrl-C; nothing is left."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(3 * PATIENCE_S) == 0, self.said()
        assert "Traceback" not in self.said()
        assert psutil.wait_procs(started, timeout=5)[1] == []


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    started = Shop(tmp_path_factory.mktemp("shop"))
    try:
        asyncio.run(eventually(started.is_open, PATIENCE_S))
        asyncio.run(eventually(lambda: has_offers(started), PATIENCE_S))
        yield started
        started.end()
    finally:
        if started.process.poll() is None:
            started.process.terminate()
            started.process.wait(3 * PATIENCE_S)
        shutil.rmtree((started.state / "postgres").resolve(), ignore_errors=True)


def blocks() -> list[tuple[str, str]]:
    """The page's blocks: language and text."""
    return [(language, block) for _, language, block in _BLOCK.findall(text_of(PAGE))]


def counted(shop: Shop) -> Counter[tuple[str, str]]:
    """What the log says, by offer. An order that is there twice counts once."""
    log = read_log(shop.where["ingest"], "shop-orders")
    orders = {one.key: json.loads(one.value or b"") for one in log}
    found: Counter[tuple[str, str]] = Counter()
    for order in orders.values():
        cents = order["items"] * order["cents"]
        found.update({
            (order["offer"], "orders"): 1,
            (order["offer"], "items"): order["items"],
            (order["offer"], "cents"): cents,
        })  # fmt: skip
    return found


async def shown(shop: Shop) -> dict[str, Any]:
    async with aiohttp.ClientSession(shop.url) as client, client.get("/state") as answer:
        found: dict[str, Any] = await answer.json()
        return found


async def has_offers(shop: Shop) -> bool:
    """Whether the consumer has what the service saved when it began."""
    return len((await shown(shop))["offers"]) == 3


async def totals(shop: Shop) -> Counter[tuple[str, str]]:
    """What the page shows, by offer."""
    found: Counter[tuple[str, str]] = Counter()
    for row in (await shown(shop))["revenue"]:
        found.update({(row["offer"], name): row[name] for name in ("orders", "items", "cents")})
    return found


@asynccontextmanager
async def orders(shop: Shop) -> AsyncIterator[Counter[str]]:
    """Orders come as long as this lasts, every fifth by two clicks. Yields how they ended."""
    outcomes: Counter[str] = Counter()

    async def order(client: aiohttp.ClientSession, body: dict[str, Any]) -> None:
        async with client.post("/orders", json=body) as answer:
            outcomes[(await answer.json())["outcome"]] += 1

    async def keep_ordering(client: aiohttp.ClientSession) -> None:
        number = 0
        while True:
            number += 1
            offer = ("tea", "mug", "pot")[number % 3]
            body = {"order": uuid.uuid4().hex, "offer": offer, "items": 1 + number % 4}
            for _ in range(1 + (number % 5 == 0)):
                await order(client, body)
            await asyncio.sleep(PACE_S)

    async with aiohttp.ClientSession(shop.url) as client:
        tasks = [asyncio.create_task(keep_ordering(client)) for _ in range(2)]
        try:
            yield outcomes
            assert not any(task.done() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def kill_in_a_transaction(shop: Shop, kill: Callable[[], object]) -> None:
    """Kill the consumer while its transactions wait for a lock, and see that others take over."""
    engine = create_async_engine(shop.where["database"])
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'")
    before = shop.consumer
    try:
        async with engine.begin() as connection:
            await connection.execute(text("LOCK TABLE revenue IN SHARE MODE"))

            async def is_in_one() -> bool:
                return bool((await connection.execute(waiting)).scalar_one())

            await eventually(is_in_one, PATIENCE_S)
            kill()
            await eventually(lambda: shop.consumer != before, PATIENCE_S)
    finally:
        await engine.dispose()


def steps() -> list[tuple[str, Any]]:
    """The page's commands, each with the JSON that it answers, if it says so."""
    return [
        (command, json.loads(shown) if language == "json" else None)
        for (kind, command), (language, shown) in pairwise([*blocks(), ("", "")])
        if kind == "sh"
    ]


async def walk(shop: Shop, some: Sequence[tuple[str, Any]]) -> Counter[str]:
    """Run these commands while orders come; the totals are those of the log then."""
    async with orders(shop) as outcomes:
        for command, expected in some:
            for _ in range(KILLS if "consumer.pid" in command else 0):
                await kill_in_a_transaction(shop, partial(shop.run, command))
            if "consumer.pid" not in command:
                said = await asyncio.to_thread(shop.run, command)
                wrong = [] if expected is None else [*differences(expected, json.loads(said))]
                assert wrong == [], f"{command}\n{said}"
        await eventually(lambda: outcomes["published"] > 50, PATIENCE_S)
    await same_as_the_log(shop)
    return outcomes


@pytest.mark.full  # starts everything, Spark too
async def test_the_walk(shop: Shop) -> None:
    """In the page's order, once more with the same result behind a rebuild from the second tier."""
    *before, rebuild = steps()
    assert (len(before), rebuild[0]) == (9, "python -m examples.shop.rebuild --drop\n")
    outcomes = await walk(shop, before)
    assert outcomes.keys() == {"published", "duplicate"}
    assert (await shown(shop))["build"] == {"build": 1, "replay": None}
    assert (await walk(shop, [rebuild])).keys() == {"published", "duplicate"}
    state = await shown(shop)
    assert state["build"]["build"] == 2
    assert state["build"]["replay"] is not None


async def same_as_the_log(shop: Shop) -> None:
    expected = await asyncio.to_thread(counted, shop)

    async def is_same() -> bool:
        return await totals(shop) == expected

    with suppress(AssertionError):  # the next line says what differs
        await eventually(is_same, PATIENCE_S)
    assert await totals(shop) == expected


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_the_page(shop: Shop) -> None:
    async with browser() as chromium, page(chromium, shop.url, width=360) as seen:
        await seen.page.goto(shop.url)
        await seen.page.get_by_role("button", name="Save pot").click()
        for _ in range(3):
            await seen.page.get_by_role("button", name="More pot").click()
        await seen.page.get_by_role("button", name="Twice pot").click()
        answers = seen.page.locator("#answers b")

        async def has_all() -> bool:
            found = Counter(await answers.all_text_contents())
            return found == {"unchanged": 1, "held": 3, "published": 1, "duplicate": 1}

        await eventually(has_all, PATIENCE_S)
        assert await seen.page.get_by_label("Stock of pot").text_content() == "3"
        assert await seen.overflow() == 0
        assert await seen.violations() == []
        await seen.picture("shop-360")
        await seen.page.set_viewport_size({"width": 1280, "height": 900})
        await seen.page.emulate_media(color_scheme="dark")
        assert await seen.violations() == []
        await seen.picture("shop-1280")
        assert seen.errors == []


def test_programs_say_what_they_lack(tmp_path: Path) -> None:
    for program in ("web", "consumer", "rebuild"):
        command = [sys.executable, "-m", f"examples.shop.{program}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(".shop/where.json is not there: start"), done.stderr


def test_the_code_on_the_page_is_that_of_the_shop() -> None:
    code = {
        line.strip()
        for file in (ROOT / "examples" / "shop").glob("*.py")
        for line in file.read_text().splitlines()
    }
    quoted = [line.strip() for language, block in blocks() if language == "python"
              for line in block.splitlines()]  # fmt: skip
    assert len(quoted) >= 7
    assert [line for line in quoted if line not in code] == []
