"""One suite for every `IdentityStore`: the one in memory and the real Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from headgate.idempotency.rules import (
    CLAIM,
    DONE,
    PARTLY,
    RELEASE,
    RENEW,
    ClaimCall,
    ClaimState,
    ClaimStep,
    ClaimVerdict,
    step_of,
)
from headgate.idempotency.store import IdentityStore, RedisIdentityStore
from headgate.model.publish import Claim
from headgate.redis.script import StoreError
from support.doubles.identity_store import MemoryIdentityStore, SharedIdentities
from support.process.connecting import reach
from support.process.stack import RunningRedis, eventually

LONG_MS = 60_000.0
_tokens = count(1)
Connect = Callable[[], IdentityStore]


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """A factory of stores that share one Redis."""
    if request.param == "memory":
        memory = SharedIdentities(lambda: time.time() * 1000)
        yield lambda: MemoryIdentityStore(memory)
        return
    server: RunningRedis = request.getfixturevalue("redis_server")
    stores: list[RedisIdentityStore] = []

    def make() -> IdentityStore:
        stores.append(RedisIdentityStore(server.url, 2000))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
async def store(connect: Connect) -> IdentityStore:
    store = connect()
    await reach(store)
    return store


@pytest.fixture
def name() -> bytes:
    return os.urandom(16)


def attempt(name: bytes, content: bytes = b"f" * 16) -> Claim:
    return Claim(name, content, next(_tokens).to_bytes(12, "big"), LONG_MS)


async def ask(store: IdentityStore, *operations: ClaimStep, claim_ms: float = LONG_MS) -> list:  # type: ignore[type-arg]
    return [one.state.name for one in await store.run(ClaimCall(claim_ms, operations))]


async def claim(store: IdentityStore, one: Claim, claim_ms: float = LONG_MS) -> ClaimVerdict:
    (verdict,) = await store.run(ClaimCall(claim_ms, [step_of(one, CLAIM)]))
    return verdict


async def test_the_first_claims_and_the_second_waits(store: IdentityStore, name: bytes) -> None:
    first, second = attempt(name), attempt(name)
    assert await ask(store, step_of(first, CLAIM), step_of(second, CLAIM)) == [
        "CLAIMED",
        "RUNNING",
    ]
    assert await claim(store, second) == ClaimVerdict(ClaimState.RUNNING)
    assert await claim(store, first) == ClaimVerdict(
        ClaimState.CLAIMED
    )  # the same call, sent twice


async def test_what_is_done_is_answered_from_memory(store: IdentityStore, name: bytes) -> None:
    first = attempt(name)
    await claim(store, first)
    await ask(store, step_of(first, DONE, b"\0place"))
    assert await claim(store, attempt(name)) == ClaimVerdict(ClaimState.DONE, b"\0place")


async def test_other_content_is_a_mismatch_whether_it_runs_or_is_done(
    store: IdentityStore, name: bytes
) -> None:
    first, other = attempt(name), attempt(name, b"g" * 16)
    await claim(store, first)
    assert await claim(store, other) == ClaimVerdict(ClaimState.MISMATCH)
    await ask(store, step_of(first, DONE, b"place"))
    assert await claim(store, other) == ClaimVerdict(ClaimState.MISMATCH)


async def test_a_failed_attempt_leaves_nothing(store: IdentityStore, name: bytes) -> None:
    first = attempt(name)
    await claim(store, first)
    await ask(store, step_of(first, RELEASE))
    assert await claim(store, attempt(name, b"g" * 16)) == ClaimVerdict(ClaimState.CLAIMED)


async def test_what_ended_well_is_handed_to_the_retry(store: IdentityStore, name: bytes) -> None:
    first, second, third = attempt(name), attempt(name), attempt(name)
    await claim(store, first)
    await ask(store, step_of(first, PARTLY, b"half"))
    assert await claim(store, second) == ClaimVerdict(ClaimState.CLAIMED, b"half")
    await ask(store, step_of(second, RELEASE))
    assert await claim(store, third) == ClaimVerdict(ClaimState.CLAIMED, b"half")
    assert await claim(store, attempt(name, b"g" * 16)) == ClaimVerdict(ClaimState.MISMATCH)


async def test_an_attempt_that_died_is_not_done(store: IdentityStore, name: bytes) -> None:
    dead, retry = attempt(name), attempt(name)
    # In one call, at one time: the claim may be over before another call arrives.
    both = (step_of(dead, CLAIM), step_of(retry, CLAIM))
    assert await ask(store, *both, claim_ms=100.0) == ["CLAIMED", "RUNNING"]

    async def has_it() -> bool:
        return await claim(store, retry) == ClaimVerdict(ClaimState.CLAIMED)

    await eventually(has_it)
    await ask(store, step_of(dead, DONE, b"late"))  # the claim is the retry's now
    assert await claim(store, attempt(name)) == ClaimVerdict(ClaimState.RUNNING)
    await ask(store, step_of(retry, DONE, b"place"))
    assert await claim(store, attempt(name)) == ClaimVerdict(ClaimState.DONE, b"place")


async def test_who_is_late_but_was_not_missed_still_counts(
    store: IdentityStore, name: bytes
) -> None:
    slow = attempt(name)
    await claim(store, slow, claim_ms=1.0)
    await asyncio.sleep(0.02)  # the entry itself may be gone as well
    await ask(store, step_of(slow, DONE, b"place"))
    assert await claim(store, attempt(name)) == ClaimVerdict(ClaimState.DONE, b"place")


async def test_renewing_keeps_others_out(store: IdentityStore, name: bytes) -> None:
    first = attempt(name)
    await claim(store, first, claim_ms=1.0)
    await ask(store, step_of(first, RENEW))
    await asyncio.sleep(0.02)
    assert await claim(store, attempt(name)) == ClaimVerdict(ClaimState.RUNNING)


async def test_renewing_claims_again_what_was_lost_but_takes_nothing(
    store: IdentityStore, name: bytes
) -> None:
    first, second = attempt(name), attempt(name)
    await ask(store, step_of(first, RENEW))  # as after a restart: nothing is known
    assert await claim(store, second) == ClaimVerdict(ClaimState.RUNNING)
    await ask(store, step_of(second, RENEW))
    assert await claim(store, first) == ClaimVerdict(ClaimState.CLAIMED)
    await ask(store, step_of(first, DONE, b"place"))
    await ask(store, step_of(first, RENEW))
    assert await claim(store, second) == ClaimVerdict(ClaimState.DONE, b"place")


async def test_two_connections_see_the_same(connect: Connect, name: bytes) -> None:
    stores = [connect(), connect()]
    for one in stores:
        await reach(one)
    attempts = [attempt(name) for _ in range(8)]
    states = await asyncio.gather(
        *(claim(stores[number % 2], one) for number, one in list(enumerate(attempts))[:2])
    )
    assert sorted(one.state.name for one in states) == ["CLAIMED", "RUNNING"]


async def test_without_a_connection_nothing_runs(connect: Connect, name: bytes) -> None:
    store = connect()
    with pytest.raises(StoreError):
        await claim(store, attempt(name))
    await reach(store)
    await store.close()
    with pytest.raises(StoreError):
        await claim(store, attempt(name))
