"""The suppressor on a real Redis that dies, stops, forgets and comes back."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import uvloop
from redis import Redis

from headgate.devstack.ports import LOOPBACK
from headgate.model.content import Digester
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Record, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.redis.script import StoreError
from headgate.suppression.options import SuppressOptions
from headgate.suppression.store import RedisStore
from headgate.suppression.suppressor import Suppressor
from support.gateway.meters import a_meter, counted
from support.process.connecting import reach
from support.process.stack import RunningRedis, eventually

pytestmark = pytest.mark.redis
QUARANTINE_MS = 600.0
TIMEOUT_MS = 600  # on a busy machine Redis may be a while late


class Gateway:
    """A suppressor with a log of its own instead of lanes: what it publishes lands at once."""

    def __init__(self, url: str, scope: Scope, log: list[bytes]) -> None:
        self.scope, self.log = scope, log
        self.meter = a_meter()
        self.failures: list[Failure] = []
        self.answers: dict[Publish, asyncio.Future[str]] = {}
        self.holding: list[Publish] | None = None  # a list: publishes wait in it
        options = SuppressOptions(
            token_ttl_ms=20_000, quarantine_ms=QUARANTINE_MS, timeout_ms=TIMEOUT_MS, look_s=0.2
        )
        self.store = RedisStore(url, options.timeout_ms)
        self.suppressor = Suppressor(
            self.store, self, options, time.monotonic, os.urandom, self.meter
        )

    # ---- Verdicts

    def publish(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)
        if self.holding is None:
            self.land(publish)
        else:
            self.holding.append(publish)

    def land(self, publish: Publish) -> None:
        self.log.append(publish.record.value or b"")
        publish.advance(Stage.ENDED)
        is_unreserved = publish.reserved.unreserved
        self.answers[publish].set_result("unreserved" if is_unreserved else "published")
        self.suppressor.acknowledged([publish], len(self.log) - 1)

    def unchanged(self, publish: Publish, offset: int) -> None:
        assert self.log[offset] == publish.record.value
        self.answers[publish].set_result("unchanged")

    def refused(self, publish: Publish, failure: Failure) -> None:
        self.failures.append(failure)
        self.answers[publish].set_result("refused")

    @property
    def bypassed_counts(self) -> dict[str, float]:
        counts = counted(self.meter, "suppression_bypassed")
        return {reason: count for (reason,), count in counts.items()}

    # ---- what a client does

    def start(self, content: str, *, key: bytes = b"k", refuse: bool = False) -> Publish:
        value = content.encode()
        publish = Publish(Record("deals", 0, key, value, [], 0), 100, None, 0, "id")
        self.answers[publish] = asyncio.get_running_loop().create_future()
        publish.reservation = Reservation(self.scope, refuse=refuse)
        publish.digest = Digester(self.scope.rule).digest(value)
        self.suppressor.reserve(publish)
        return publish

    async def post(self, content: str, *, refuse: bool = False) -> str:
        async with asyncio.timeout(60):
            return await self.answers[self.start(content, refuse=refuse)]

    @property
    def is_connected(self) -> bool:
        return self.suppressor.health()[0]

    async def connected(self) -> None:
        await eventually(lambda: self.is_connected, interval_s=0.005)

    async def suppresses(self, content: str) -> None:
        """Wait until the content is unchanged: after a quarantine, or a settlement."""

        async def is_unchanged() -> bool:
            return await self.post(content) == "unchanged"

        await eventually(is_unchanged)


@pytest.fixture
def redis(start_redis: Callable[..., RunningRedis]) -> RunningRedis:
    return start_redis()


@pytest.fixture
async def connect(
    redis: RunningRedis,
) -> AsyncIterator[Callable[[], asyncio.Future[Gateway]]]:
    """A factory of gateways on one Redis and one log."""
    scope, log = Scope("deals", os.urandom(16), 6, b"\x01" * 8), list[bytes]()
    async with AsyncExitStack() as ending:

        async def start() -> Gateway:
            gateway = Gateway(redis.url, scope, log)
            await gateway.suppressor.start()
            ending.push_async_callback(gateway.suppressor.close)
            await gateway.connected()
            return gateway

        yield start  # type: ignore[misc]


@pytest.fixture
async def gateway(connect: Callable[[], asyncio.Future[Gateway]]) -> Gateway:
    one = await connect()
    await one.suppresses("A")
    return one


def ask(redis: RunningRedis, command: str) -> None:
    with socket.create_connection((LOOPBACK, redis.port), timeout=5.0) as connection:
        connection.sendall(command.encode() + b"\r\n")
        assert connection.recv(64)[:1] in b"+:"


async def test_redis_dies_and_restarts_empty(gateway: Gateway, redis: RunningRedis) -> None:
    redis.kill()
    answers = [await gateway.post(content) for content in "AAB"]
    assert answers == ["unreserved"] * 3
    assert not gateway.is_connected
    redis.restart()
    await gateway.connected()
    # In quarantine; unreserved if it rode with the call that learned of the new incarnation.
    assert await gateway.post("B") in ("published", "unreserved")
    await gateway.suppresses("B")
    assert sum(gateway.bypassed_counts.values()) >= 3


async def test_a_snapshot_does_not_raise_the_dead(gateway: Gateway, redis: RunningRedis) -> None:
    ask(redis, "SAVE")  # says A
    assert await gateway.post("B") == "published"
    redis.kill()
    redis.restart()
    await gateway.connected()
    deadline = time.monotonic() + 2 * QUARANTINE_MS / 1000
    assert await gateway.post("A") != "unchanged"
    await eventually(lambda: time.monotonic() > deadline)
    assert await gateway.post("B") != "unchanged"  # other content than the last, A


async def test_flushall_is_noticed_by_the_nonce(
    gateway: Gateway, redis: RunningRedis, connect: Callable[[], asyncio.Future[Gateway]]
) -> None:
    other = await connect()
    gateway.holding = []
    held = gateway.start("C")
    await eventually(lambda: gateway.holding)
    ask(redis, "FLUSHALL")
    assert await other.post("B") == "published"
    deadline = time.monotonic() + 3 * QUARANTINE_MS / 1000
    await eventually(lambda: time.monotonic() > deadline)
    assert await other.post("B") == "published"  # C is still under way: registered by the tick
    gateway.land(held)
    assert await other.post("B") == "published"
    assert gateway.is_connected  # all that without a reconnect


async def test_a_stopped_redis_holds_nobody_up_for_longer_than_its_timeout(
    gateway: Gateway, redis: RunningRedis
) -> None:
    redis.pause()
    try:
        first = gateway.start("B")
        second = gateway.start("C")
        assert [await gateway.answers[one] for one in (first, second)] == ["unreserved"] * 2
        assert gateway.log[-2:] == [b"B", b"C"]
        counts = gateway.bypassed_counts  # a busy machine notices first that the call is slow
        assert counts.get("redis_timeout", 0) + counts.get("redis_slow", 0) == 2
        assert await gateway.post("D") == "unreserved"  # at once: the breaker is open
        assert sum(gateway.bypassed_counts.values()) == 3
    finally:
        redis.resume()
    await gateway.connected()
    count = len(gateway.log)
    await gateway.suppresses("D")  # same Redis, same nonce: no quarantine is needed
    assert len(gateway.log) <= count + 2  # and the lost claims left no tokens
    assert await gateway.post("B") == "published"


async def test_refusing_topics_answer_while_redis_is_away(
    gateway: Gateway, redis: RunningRedis
) -> None:
    before = gateway.log.count(b"A")
    redis.pause()
    try:
        assert await gateway.post("B", refuse=True) == "refused"
    finally:
        redis.resume()
    assert gateway.failures[0].reason is Reason.REDIS_UNAVAILABLE
    assert b"B" not in gateway.log
    await gateway.connected()
    await gateway.suppresses("A")
    assert gateway.log.count(b"A") <= before + 1  # the lost claim left no token


async def test_a_redis_that_may_evict_is_not_healthy(gateway: Gateway, redis: RunningRedis) -> None:
    """As `headgate check` says it; when the policy is noeviction again, all is well."""
    assert gateway.suppressor.health() == (True, "connected")
    with Redis.from_url(redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        await eventually(lambda: not gateway.suppressor.health()[0])
        assert "maxmemory-policy allkeys-lru" in gateway.suppressor.health()[1]
        client.config_set("maxmemory-policy", "noeviction")
        await eventually(lambda: gateway.suppressor.health() == (True, "connected"))


async def test_keys_that_were_evicted_are_told_with_the_policy(
    gateway: Gateway, redis: RunningRedis
) -> None:
    with Redis.from_url(redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 200_000)
        for number in range(2_000):
            client.set(f"filler-{number}", b"x" * 1_000)
    await eventually(lambda: ", " in gateway.suppressor.health()[1])
    detail = gateway.suppressor.health()[1]
    assert "maxmemory-policy allkeys-random" in detail
    assert " were: set it to noeviction" in detail


async def test_a_refusing_topic_outlives_a_new_incarnation(
    gateway: Gateway, connect: Callable[[], asyncio.Future[Gateway]]
) -> None:
    """Another gateway begins one while Redis is healthy: the event asks again within its time."""
    other = await connect()
    for number in range(5):
        other.suppressor.drop(other.scope)
        await eventually(other.suppressor.is_settled)
        assert await gateway.post(f"new-{number}", refuse=True) == "published"
    assert not gateway.failures


async def test_a_blind_publish_under_way_blocks_others_after_the_reconnect(
    gateway: Gateway, redis: RunningRedis, connect: Callable[[], asyncio.Future[Gateway]]
) -> None:
    other = await connect()
    assert await other.post("A") == "unchanged"
    redis.pause()
    gateway.holding = []
    held = gateway.start("B")
    await eventually(lambda: gateway.holding)
    redis.resume()
    await gateway.connected()
    await other.connected()
    await eventually(lambda: not gateway.suppressor.reservations._in_flight.unregistered)
    assert await other.post("A") != "unchanged"
    gateway.land(held)
    assert gateway.log[-1] == b"B"


async def test_script_flush_costs_one_more_round_trip(
    gateway: Gateway, redis: RunningRedis
) -> None:
    ask(redis, "SCRIPT FLUSH")
    assert await gateway.post("A") == "unchanged"
    assert gateway.is_connected


async def test_a_redis_that_takes_no_writes_is_gone_past(
    gateway: Gateway, redis: RunningRedis
) -> None:
    ask(redis, "CONFIG SET min-replicas-to-write 1")
    assert await gateway.post("B") == "unreserved"
    assert gateway.bypassed_counts["redis_error"] >= 1
    ask(redis, "CONFIG SET min-replicas-to-write 0")
    await gateway.suppresses("B")


async def test_forget_and_forget_all(gateway: Gateway) -> None:
    await gateway.suppressor.forget(gateway.scope, b"k")
    assert await gateway.post("A") == "published"
    await gateway.suppresses("A")
    await gateway.suppressor.forget(gateway.scope, None)
    assert await gateway.post("A") == "published"


async def test_forget_says_that_redis_is_away(gateway: Gateway, redis: RunningRedis) -> None:
    redis.kill()
    await eventually(lambda: not gateway.is_connected)
    with pytest.raises(StoreError):
        await gateway.suppressor.forget(gateway.scope, b"k")


async def test_close_sends_the_last_settlements(
    connect: Callable[[], asyncio.Future[Gateway]], gateway: Gateway
) -> None:
    assert await gateway.post("B") == "published"
    await gateway.suppressor.close()
    other = await connect()
    assert await other.post("B") == "unchanged"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_busy_event_loop_is_not_taken_for_a_slow_redis(
    redis: RunningRedis, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def hold_the_loop_up() -> None:
        gateway = Gateway(redis.url, Scope("deals", os.urandom(16), 6, b"\x01"), [])
        await gateway.suppressor.start()
        await gateway.connected()
        for _ in range(4):
            assert await gateway.post("A") != "unreserved"
            publish = gateway.start("B")
            while publish.stage is not Stage.RESERVING:  # noqa: ASYNC110 nothing tells of it
                await asyncio.sleep(0)
            time.sleep(1.3 * TIMEOUT_MS / 1000)  # noqa: ASYNC251 longer than the timeout
            assert await gateway.answers[publish] == "published"
            assert gateway.bypassed_counts == {}
        await gateway.suppressor.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(hold_the_loop_up())


async def test_wrong_password_and_no_server_are_said(redis: RunningRedis) -> None:
    for url in (f"redis://:wrong@{LOOPBACK}:{redis.port}", f"redis://{LOOPBACK}:1"):
        store = RedisStore(url, 300)
        with pytest.raises(StoreError):
            await store.connect()
        await store.close()


async def test_unix_socket_and_database(start_redis: Callable[..., RunningRedis]) -> None:
    redis = start_redis(unix=True)
    for url in (redis.url, f"redis://{LOOPBACK}:{redis.port}/3"):
        store = RedisStore(url, 300)
        await reach(store)
        await store.close()
