"""A Redis whose memory is full and that evicts nothing: what it knows stays known."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

import pytest

from headgate.model.suppression import Scope
from headgate.suppression import rules
from headgate.suppression.rules import SuppressionCall, SuppressionReply, SuppressionSpans, floor_of
from headgate.suppression.store import RedisStore
from support.process.connecting import reach
from support.process.stack import RunningRedis

pytestmark = pytest.mark.redis

LIMITS = SuppressionSpans(60_000.0, 0.0, 1e9, 1e9)
A, B = b"a" * 16, b"b" * 16


class World:
    """One namespace; each event is a token of its own."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.scope = Scope("deals", os.urandom(16), 1, b"")

    async def ask(self, name: str, *answer: str) -> bytes:
        connection = self.store._redis.connection
        assert connection is not None
        await connection.send_command(name, *answer)
        found = await connection.read_response()
        return found if isinstance(found, bytes) else b""

    async def fill(self, is_full: bool) -> None:
        await self.ask("CONFIG", "SET", "maxmemory", "1" if is_full else "0")

    async def used(self) -> int:
        lines = (await self.ask("INFO", "memory")).decode().splitlines()
        return int(dict(line.split(":") for line in lines if ":" in line)["used_memory"])

    async def run(self, operations: dict[bytes, bytes]) -> SuppressionReply:
        entries = [self.scope.entry(key) for key in operations]
        reserved = sum(one[:1] in (b"r", b"p") for one in operations.values())
        packed = [b"\0" + one for one in operations.values()]
        scopes = [self.scope]
        return await self.store.run(
            SuppressionCall(LIMITS, os.urandom(16), scopes, b"\0", [1], entries, packed, reserved)
        )

    async def reserve(self, key: bytes, token: bytes, digest: bytes) -> int:
        reply = await self.run({key: rules.reserve(token, digest, b"\0\0")})
        return reply.verdicts[0]

    async def settle(
        self, key: bytes, token: bytes, digest: bytes, offset: int
    ) -> SuppressionReply:
        return await self.run({key: rules.settle(token, digest, offset, 1, keep=False)})

    async def publish(self, key: bytes, digest: bytes, offset: int) -> SuppressionReply:
        token = os.urandom(12)
        assert await self.reserve(key, token, digest) < 0
        return await self.settle(key, token, digest, offset)


@pytest.fixture
async def world(start_redis: Callable[..., RunningRedis]) -> AsyncIterator[World]:
    store = RedisStore(start_redis().url, 5000)
    await reach(store)
    yield World(store)
    await store.close()


async def test_a_known_key_is_suppressed_and_follows_its_changes(world: World) -> None:
    await world.publish(b"known", A, 5)
    await world.fill(True)
    assert await world.reserve(b"known", os.urandom(12), A) == 5
    reply = await world.publish(b"known", B, 6)
    assert reply.forgotten == 0
    assert await world.reserve(b"known", os.urandom(12), B) == 6
    assert await world.reserve(b"known", os.urandom(12), A) < 0


async def test_of_a_new_key_only_what_is_under_way_is_kept(world: World) -> None:
    await world.publish(b"known", A, 5)
    await world.fill(True)
    token = os.urandom(12)
    assert await world.reserve(b"new", token, A) < 0
    entry = world.scope.entry(b"new").decode()
    assert token in await world.ask("GET", entry)
    assert (await world.settle(b"new", token, A, 7)).forgotten == 1
    assert await world.ask("GET", entry) == b""
    assert await world.reserve(b"new", os.urandom(12), A) < 0
    await world.fill(False)
    assert (await world.publish(b"other", A, 8)).forgotten == 0
    assert await world.reserve(b"other", os.urandom(12), A) == 8


async def test_what_was_under_way_while_it_was_full_is_not_believed(world: World) -> None:
    early, late = os.urandom(12), os.urandom(12)
    await world.fill(True)
    assert await world.reserve(b"k", early, A) < 0
    assert await world.reserve(b"k", late, B) < 0
    await world.settle(b"k", late, B, 9)  # forgotten, with the offset
    await world.fill(False)
    await world.settle(b"k", early, A, 8)
    verdict = await world.reserve(b"k", os.urandom(12), A)
    assert verdict < 0, "A is not the newest"
    assert floor_of(verdict) == 8


async def test_memory_does_not_grow_with_the_keys(world: World) -> None:
    await world.publish(b"known", A, 5)
    await world.fill(True)
    for number in range(200):
        await world.publish(b"warm-%d" % number, A, number)
    before = await world.used()
    for number in range(2000):
        await world.publish(b"new-%d" % number, A, number)
    assert await world.used() < before + 2000 * 20
    assert await world.reserve(b"known", os.urandom(12), A) == 5
