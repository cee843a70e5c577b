"""Guessing tokens: an address is slowed down unseen, its good clients go on, the log has a line."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, ProducerSettings, Settings
from headgate.http.auth import OWN_PAGES, WINDOW_S, AttemptLimit, Authenticator
from headgate.wiring.reloading import Authenticators
from support.attacks.targets import PORTS, management_pages
from support.gateway.admin_world import TOPICS, FakeInstance, KeptInMemory, admin_of
from support.gateway.data_plane_world import data_port

LIMIT = 5
TOKENS = {
    name: ProducerSettings(
        token_sha256=(hashlib.sha256(f"{name}-token".encode()).hexdigest(),),
        topics=("*",),
        roles=("produce", "view", "operate"),
    )
    for name in ("shop", "late")
}
AUTH = AuthSettings(mode=("token",), failed_attempts_per_minute=LIMIT)


class Time:
    """Stands still until it is told; what is to be called later is called then."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, call))

    def passes(self, seconds: float) -> None:
        self.now += seconds
        due = [call for at, call in self._due if at <= self.now]
        self._due = [one for one in self._due if one[0] > self.now]
        for call in due:
            call()


class Guarded:
    """A port that asks for tokens, and what its requests are answered."""

    def __init__(self, kind: str, port: int, time: Time) -> None:
        self.time = time
        self._kind = kind
        self._port = port

    async def ask(
        self, token: str | None, source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, str]:
        """Status and Retry-After of a request with this token, from an address of this machine."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connector = aiohttp.TCPConnector(local_addr=(source, 0))
        base = f"http://127.0.0.1:{self._port}"
        async with aiohttp.ClientSession(base, connector=connector, headers=headers) as session:
            if self._kind == "data":
                asked = session.post("/v1/topics/orders/events", json={"id": 1})
            else:
                asked = session.get("/v1/topics")
            async with asked as answer:
                return answer.status, answer.headers.get("Retry-After", "")

    async def good(self, token: str = "shop-token", **given: str) -> bool:
        return (await self.ask(token, **given))[0] in (200, 201)


@asynccontextmanager
async def guarded(kind: str, folder: Path) -> AsyncIterator[Guarded]:
    time = Time()
    callers = Authenticator(AUTH, TOKENS, attempts=AttemptLimit(LIMIT, time, time.later))
    if kind == "data":
        async with data_port(callers=callers) as running:
            yield Guarded(kind, running.port, time)
        return
    settings = Settings(auth=AUTH, producers=TOKENS, topics=TOPICS)
    instance = FakeInstance(settings)
    admin = admin_of(instance, KeptInMemory())
    admin.access.authenticator = callers
    app = management_app(admin)
    async with management_pages(app, kind, folder, settings.http) as port:
        yield Guarded(kind, port, time)


@pytest.fixture(params=PORTS)
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded(request.param, tmp_path) as running:
        yield running


async def guess(port: Guarded, count: int, **given: str) -> list[int]:
    return [(await port.ask(f"guess-{number}", **given))[0] for number in range(count)]


async def test_token_brute_force(port: Guarded) -> None:
    """A right guess among the refused ones is not even noticed."""
    assert await guess(port, LIMIT + 3) == [401] * LIMIT + [429] * 3
    status, retry_after = await port.ask("late-token")
    assert (status, retry_after) == (429, str(round(WINDOW_S / LIMIT)))


async def test_token_brute_force_is_no_lockout_of_good_tokens(port: Guarded) -> None:
    """Behind the same NAT: what was right goes on, and what is right gets in a little later."""
    assert await port.good("shop-token")
    await guess(port, LIMIT + 50)
    assert await port.good("shop-token")
    assert not await port.good("late-token")
    port.time.passes(WINDOW_S / LIMIT)
    assert await port.good("late-token")
    await guess(port, 3)
    assert await port.good("late-token")


async def test_token_brute_force_is_no_lockout_after_a_reload(tmp_path: Path) -> None:
    settings = Settings(auth=AUTH, producers=TOKENS)
    callers = Authenticators(AUTH, lambda _: OWN_PAGES, lambda _: None)
    async with data_port(callers=callers.of(settings)) as running:
        port = Guarded("data", running.port, Time())
        front = running.plane._confluent.service.events
        assert await port.good("shop-token")
        assert await port.good("late-token")
        for producers in ({**TOKENS, "new": ProducerSettings()}, {"shop": TOKENS["shop"]}):
            await guess(port, LIMIT + 3)
            front.authenticator = callers.of(Settings(auth=AUTH, producers=producers))
            assert (await port.ask("guess"))[0] == 429, "guesses are remembered, too"
            assert await port.good("shop-token")
        taken_away = [(await port.ask("late-token"))[0] for _ in range(3)]
        assert taken_away == [401, 429, 429], "it was right before, and is a guess as any other"


async def test_token_brute_force_from_another_address(port: Guarded) -> None:
    await guess(port, LIMIT + 1)
    assert not await port.good("late-token")
    assert await port.good("late-token", source="127.0.0.2")


async def test_token_brute_force_behind_a_header_that_says_another_address(port: Guarded) -> None:
    for number in range(LIMIT + 1):
        address = f"192.0.2.{number}"
        spoofed = {"X-Forwarded-For": address, "Forwarded": f"for={address}", "X-Real-IP": address}
        last = await port.ask(f"guess-{number}", **spoofed, **{"Headgate-Remote": address})
    assert last[0] == 429


async def test_token_brute_force_without_credentials_counts_nothing(port: Guarded) -> None:
    """A probe, or a browser, guesses nothing."""
    for headers in ({}, {"Authorization": "Digest x"}, {"Authorization": "Basic !"}):
        for _ in range(LIMIT + 1):
            assert (await port.ask(None, **headers))[0] == 401
    assert await port.good()


async def test_token_brute_force_is_logged_once_a_window(
    port: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "headgate.attempts")

    def lines() -> list[dict[str, Any]]:
        found = [vars(one) for one in caplog.records if one.name == "headgate.attempts"]
        caplog.clear()
        return found

    await guess(port, LIMIT)
    assert lines() == [], "a mistake or two are nobody's alarm"
    await guess(port, 4)
    (first,) = lines()
    assert first["remote"] == "127.0.0.1"
    await guess(port, 3, source="127.0.0.2")
    port.time.passes(WINDOW_S)
    (second,) = lines()
    assert (second["refused"], second["addresses"], second["remote"]) == (4, 1, "127.0.0.1")
    assert second["wrong"] == LIMIT + 3
    port.time.passes(WINDOW_S)
    assert lines() == []
    port.time.passes(WINDOW_S)
    await guess(port, LIMIT + 1)
    assert len(lines()) == 1, "anew"
