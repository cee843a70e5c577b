"""The connection that suppression and request identity share."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headgate.backends.redis.errors import StoreError
from headgate.backends.redis.session import ScriptSession, SessionTimes, SessionWork, all_ended
from support.virtual_time import run_in_virtual_time

AWAY = StoreError("redis_error", "not connected to the store")


class Store:
    """up: whether it answers; takes_s: how long it takes to."""

    def __init__(self) -> None:
        self.up = True
        self.takes_s = 0.0
        self.attempts = self.closed = 0

    async def connect(self) -> None:
        self.attempts += 1
        await asyncio.sleep(self.takes_s)
        if not self.up:
            raise AWAY

    async def close(self) -> None:
        self.closed += 1


class Owner:
    """Notes what the session calls, and raises what it is told to, once."""

    def __init__(self, store: Store) -> None:
        self.calls: list[str] = []
        self.news = asyncio.Event()
        self.raises: dict[str, Exception] = {}
        work = SessionWork(
            self.catch_up, self.serve, self.lost, self.news.set, lambda: self.note("tick")
        )
        clock = asyncio.get_running_loop().time
        log = logging.getLogger("headgate.x")
        self.session = ScriptSession("x", log, store, work, SessionTimes(1.0, 30.0), clock)

    def note(self, name: str) -> None:
        self.calls.append(name)
        if error := self.raises.pop(name, None):
            raise error

    async def catch_up(self) -> None:
        self.note("catch up")

    async def serve(self) -> None:
        while not self.session.is_closing:
            self.note("serve")
            self.news.clear()
            await self.news.wait()
        self.note("last")

    def lost(self, error: StoreError) -> None:
        self.note(f"lost: {error.reason}")


def test_a_session_serves_from_its_start_to_its_close() -> None:
    async def work() -> None:
        store = Store()
        owner = Owner(store)
        await owner.session.start()
        assert owner.session.is_connected
        await asyncio.sleep(31)
        await owner.session.close()
        assert owner.calls == ["catch up", "serve", "tick", "last"]
        assert (store.attempts, store.closed) == (1, 1)

    run_in_virtual_time(work())


def test_a_start_does_not_wait_long_for_a_store_that_hangs() -> None:
    async def work() -> None:
        store = Store()
        store.takes_s = 3600.0
        owner = Owner(store)
        began = asyncio.get_running_loop().time()
        await owner.session.start()
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
        assert not owner.session.is_connected
        await owner.session.close()
        assert owner.calls == []

    run_in_virtual_time(work())


def test_the_log_says_when_the_store_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def work() -> None:
        store = Store()
        owner = Owner(store)
        owner.raises["serve"] = AWAY
        store.takes_s = 3.0
        await owner.session.start()
        await asyncio.sleep(20)
        await owner.session.close()

    run_in_virtual_time(work())
    texts = [one.getMessage().partition(":")[2] for one in caplog.records]
    assert texts == [
        " connected to Redis", " Redis is not available: not connected to the store",
        " Redis answers again",
    ]  # fmt: skip
    assert 3 <= caplog.records[-1].__dict__["away_s"] < 4


def test_while_the_store_is_away_attempts_are_ever_rarer() -> None:
    async def work() -> None:
        store = Store()
        store.up = False
        owner = Owner(store)
        await owner.session.start()
        await asyncio.sleep(60)
        assert 15 < store.attempts < 30
        assert owner.session.trouble is AWAY
        store.up = True
        await asyncio.sleep(6)
        assert owner.session.is_connected
        await owner.session.close()

    run_in_virtual_time(work())


@pytest.mark.parametrize("name", ["catch up", "serve"])
@pytest.mark.parametrize("error", [AWAY, RuntimeError("a fault")])
def test_whatever_fails_is_connected_again(name: str, error: Exception) -> None:
    async def work() -> None:
        store = Store()
        owner = Owner(store)
        reason = "redis_error" if error is AWAY else "internal"
        owner.raises = {name: error, f"lost: {reason}": RuntimeError("a fault in telling it")}
        await owner.session.start()
        await asyncio.sleep(5)
        assert owner.session.is_connected
        assert owner.calls.count(f"lost: {reason}") == 1
        assert owner.calls[-2:] == ["catch up", "serve"]
        await owner.session.close()

    run_in_virtual_time(work())


def test_a_failed_tick_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        owner = Owner(Store())
        owner.raises = {"tick": RuntimeError("a fault")}
        await owner.session.start()
        await asyncio.sleep(100)
        await owner.session.close()
        assert owner.calls.count("tick") == 3
        assert "ticks of x failed and continues" in caplog.text

    run_in_virtual_time(work())


@pytest.mark.parametrize("error", [OSError("no"), RuntimeError("a mistake")])
def test_what_concerns_several_servers_is_done_at_all_at_once(error: Exception) -> None:
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        began_s, ended = clock(), list[float]()

        async def call(takes_s: float) -> None:
            await asyncio.sleep(takes_s)
            ended.append(takes_s)
            if takes_s == 1.0:
                raise error

        with pytest.raises(type(error), match=str(error)):
            await all_ended(call(takes_s) for takes_s in (1.0, 2.0, 1.5))
        assert ended == [1.0, 1.5, 2.0]
        assert clock() - began_s == pytest.approx(2.0)

    run_in_virtual_time(run())
