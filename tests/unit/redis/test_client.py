"""The connection that suppression and request identity share."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headgate.redis.client import ClientTimes, ClientWork, ScriptClient, all_ended
from headgate.redis.script import StoreError
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
    """Records the client's calls, and raises a given error once."""

    def __init__(self, store: Store) -> None:
        self.calls: list[str] = []
        self.has_news = False
        self.raises: dict[str, Exception] = {}
        work = ClientWork(
            self.catch_up, self.exchange, self.lost, lambda: self.note("tick"),
            lambda: self.has_news, lambda: True, lambda: False, lambda: 0,
        )  # fmt: skip
        clock = asyncio.get_running_loop().time
        log = logging.getLogger("headgate.x")
        times = ClientTimes(start=1.0, tick=30.0, linger=0.0)
        self.client = ScriptClient("x", log, store, work, times, 1, clock)

    def note(self, name: str) -> None:
        self.calls.append(name)
        if error := self.raises.pop(name, None):
            raise error

    async def catch_up(self) -> None:
        self.note("catch up")
        self.has_news = True

    async def exchange(self) -> bool:
        self.has_news = False
        self.note("last" if self.client.is_closing else "serve")
        return False

    def lost(self, error: StoreError) -> None:
        self.note(f"lost: {error.reason}")


def test_a_client_serves_from_its_start_to_its_close() -> None:
    async def work() -> None:
        store = Store()
        owner = Owner(store)
        await owner.client.connect()
        assert owner.client.is_connected
        await asyncio.sleep(31)
        await owner.client.aclose()
        assert owner.calls == ["catch up", "serve", "tick", "last"]
        assert (store.attempts, store.closed) == (1, 1)

    run_in_virtual_time(work())


def test_a_start_does_not_wait_long_for_a_store_that_hangs() -> None:
    async def work() -> None:
        store = Store()
        store.takes_s = 3600.0
        owner = Owner(store)
        began = asyncio.get_running_loop().time()
        await owner.client.connect()
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
        assert not owner.client.is_connected
        await owner.client.aclose()
        assert owner.calls == []

    run_in_virtual_time(work())


def test_the_log_says_when_the_store_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def work() -> None:
        store = Store()
        owner = Owner(store)
        owner.raises["serve"] = AWAY
        store.takes_s = 3.0
        await owner.client.connect()
        await asyncio.sleep(20)
        await owner.client.aclose()

    run_in_virtual_time(work())
    texts = [one.getMessage().partition(":")[2] for one in caplog.records]
    assert texts == [
        " connected to Redis", " Redis is not available: not connected to the store",
        " Redis answers again",
    ]  # fmt: skip
    assert 3 <= caplog.records[-1].__dict__["away_s"] < 4


def test_an_outage_whose_cause_changes_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A connection that is lost ends in one way; the next attempts fail in another."""
    caplog.set_level("INFO")

    async def work() -> None:
        store = Store()
        owner = Owner(store)
        owner.raises["serve"] = StoreError("redis_error", "the other side closed the connection")
        store.takes_s = 3.0
        await owner.client.connect()
        await asyncio.sleep(20)
        await owner.client.aclose()

    run_in_virtual_time(work())
    texts = [one.getMessage().partition(":")[2] for one in caplog.records]
    assert texts == [
        " connected to Redis", " Redis is not available: the other side closed the connection",
        " Redis answers again",
    ]  # fmt: skip


def test_while_the_store_is_away_attempts_are_ever_rarer() -> None:
    async def work() -> None:
        store = Store()
        store.up = False
        owner = Owner(store)
        await owner.client.connect()
        await asyncio.sleep(60)
        assert 15 < store.attempts < 30
        assert owner.client.trouble is AWAY
        store.up = True
        await asyncio.sleep(6)
        assert owner.client.is_connected
        await owner.client.aclose()

    run_in_virtual_time(work())


@pytest.mark.parametrize("name", ["catch up", "serve"])
@pytest.mark.parametrize("error", [AWAY, RuntimeError("a fault")])
def test_whatever_fails_is_connected_again(name: str, error: Exception) -> None:
    async def work() -> None:
        store = Store()
        owner = Owner(store)
        reason = "redis_error" if error is AWAY else "internal"
        owner.raises = {name: error, f"lost: {reason}": RuntimeError("a fault in telling it")}
        await owner.client.connect()
        await asyncio.sleep(5)
        assert owner.client.is_connected
        assert owner.calls.count(f"lost: {reason}") == 1
        assert owner.calls[-2:] == ["catch up", "serve"]
        await owner.client.aclose()

    run_in_virtual_time(work())


def test_a_failed_tick_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        owner = Owner(Store())
        owner.raises = {"tick": RuntimeError("a fault")}
        await owner.client.connect()
        await asyncio.sleep(100)
        await owner.client.aclose()
        assert owner.calls.count("tick") == 3
        assert "ticks of x failed and continues" in caplog.text

    run_in_virtual_time(work())


def test_delays_double_up_to_the_longest_until_a_connection_has_lasted() -> None:
    """Else a server that breaks at every use would be waited for again and again."""

    async def work() -> None:
        clock = asyncio.get_running_loop().time
        owner = Owner(Store())
        broke_s = list[float]()
        delays_s = list[float]()

        async def breaks() -> bool:
            broke_s.append(clock())
            owner.has_news = False
            raise AWAY

        async def caught_up() -> None:
            delays_s.extend(clock() - at_s for at_s in broke_s[-1:])
            owner.has_news = len(delays_s) < 10  # then the connection lasts

        owner.client._work = owner.client._work._replace(catch_up=caught_up, exchange=breaks)
        await owner.client.connect()
        await asyncio.sleep(60)
        expected = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert delays_s == pytest.approx(expected, abs=0.001)
        owner.client.wake()
        await asyncio.sleep(1)
        assert delays_s[10:] == pytest.approx([0.0], abs=0.001)
        owner.client._work = owner.client._work._replace(exchange=owner.exchange)
        await owner.client.aclose()

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
