"""One suite for every `SuppressionStore`: the one in memory and the real Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from headgate.model.suppression import Scope
from headgate.redis.script import StoreError
from headgate.suppression import rules
from headgate.suppression.rules import DROP, SuppressionCall, SuppressionReply, SuppressionSpans
from headgate.suppression.store import RedisStore, SuppressionStore
from support.doubles.suppression_rules import verdict_to_publish
from support.doubles.suppression_store import MemoryRedis, MemoryStore
from support.process.connecting import reach
from support.process.stack import RunningRedis

A, B = b"A" * 16, b"B" * 16
T1, T2, T3 = b"token-number", b"token-numbes", b"token-numbet"
OPEN = SuppressionSpans(life=60_000.0, quarantine=0.0, max_suppress_age=60_000.0)
_nonces = count(1)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[], SuppressionStore]]:
    """A factory of stores that share one Redis."""
    if request.param == "memory":
        memory = MemoryRedis(lambda: time.time() * 1000)
        yield lambda: MemoryStore(memory)
        return
    server: RunningRedis = request.getfixturevalue("redis_server")
    stores: list[RedisStore] = []

    def make() -> SuppressionStore:
        stores.append(RedisStore(server.url, 2000))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
async def store(connect: Callable[[], SuppressionStore]) -> SuppressionStore:
    one = connect()
    await reach(one)
    return one


@pytest.fixture
def scope() -> Scope:
    return Scope("deals", os.urandom(16), 6, b"\x01" * 8)


def reserve(token: bytes, digest: bytes, number: int = 0) -> bytes:
    return rules.reserve(token, digest, number.to_bytes(2, "big"))


async def run(
    store: SuppressionStore,
    scope: Scope,
    operations: dict[bytes, bytes],
    *,
    spans: SuppressionSpans = OPEN,
    flags: int = 0,
    reservations: int = 1,
) -> SuppressionReply:
    call = SuppressionCall(
        spans,
        next(_nonces).to_bytes(16, "big"),
        [scope],
        bytes([flags]),
        [scope.partitions],
        [scope.entry(key) for key in operations],
        [b"\x00" + one for one in operations.values()],
        reservations,
    )
    return await store.run(call)


def nonces(reply: SuppressionReply) -> list[bytes]:
    return [state.nonce for state in reply.states]


async def verdict(
    store: SuppressionStore, scope: Scope, operation: bytes, **options: object
) -> int:
    reply = await run(store, scope, {b"k": operation}, **options)  # type: ignore[arg-type]
    return reply.verdicts[0]


async def publish(store: SuppressionStore, scope: Scope, digest: bytes, offset: int) -> None:
    await run(store, scope, {b"k": reserve(T1, digest)})
    await run(store, scope, {b"k": rules.settle(T1, digest, offset, 6)}, reservations=0)


async def test_second_equal_event_is_unchanged(store: SuppressionStore, scope: Scope) -> None:
    assert await verdict(store, scope, reserve(T1, A)) == -1
    await run(store, scope, {b"k": rules.settle(T1, A, 7, 6)}, reservations=0)
    assert await verdict(store, scope, reserve(T2, A)) == 7
    assert await verdict(store, scope, reserve(T3, B)) == verdict_to_publish(7)


async def test_token_under_way_blocks_and_highest_offset_wins(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    both = reserve(T1, B) + reserve(T2, A, 1)
    reply = await run(store, scope, {b"k": both}, reservations=2)
    assert [rules.floor_of(one) for one in reply.verdicts] == [1, 1]
    settled = rules.settle(T2, A, 3, 6) + rules.settle(T1, B, 2, 6)
    assert await verdict(store, scope, settled + reserve(T3, A)) == 3


async def test_verdicts_keep_the_numbers_of_the_reservations(
    store: SuppressionStore, scope: Scope
) -> None:
    operations = {
        b"x": reserve(T1, A, 2) + reserve(T2, B, 0),
        b"y": rules.register(T1),
        b"z": rules.settle(T1, A, 5, 6) + rules.force(T2, b"\x00\x01"),
    }
    reply = await run(store, scope, operations, reservations=3)
    assert [rules.floor_of(one) for one in reply.verdicts] == [-1, 5, -1]


async def test_settlement_without_its_token_trusts_nothing(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": rules.settle(T2, B, 2, 6)}, reservations=0)
    assert await verdict(store, scope, reserve(T3, B)) < 0


async def test_registered_token_is_not_trusted(store: SuppressionStore, scope: Scope) -> None:
    told = rules.register(T1) + rules.settle(T1, A, 1, 6)
    assert await verdict(store, scope, told + reserve(T2, A)) < 0


async def test_renewal_keeps_trust(store: SuppressionStore, scope: Scope) -> None:
    told = rules.register(T1) + rules.settle(T1, A, 1, 6)
    await run(store, scope, {b"k": reserve(T1, A)})
    assert await verdict(store, scope, told + reserve(T2, A)) == 1


async def test_settlement_twice_is_harmless(store: SuppressionStore, scope: Scope) -> None:
    await publish(store, scope, A, 1)
    again = rules.settle(T1, A, 1, 6)
    assert await verdict(store, scope, again + reserve(T2, A)) == 1


async def test_refused_leaves_the_content_valid(store: SuppressionStore, scope: Scope) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": reserve(T2, B)})
    assert await verdict(store, scope, rules.refused(T2) + reserve(T3, A)) == 1


async def test_kept_token_blocks_after_its_settlement(
    store: SuppressionStore, scope: Scope
) -> None:
    await run(store, scope, {b"k": reserve(T1, A)})
    told = rules.settle(T1, A, 1, 6, keep=True)
    assert await verdict(store, scope, told + reserve(T2, A)) < 0


async def test_force_publishes_and_is_trusted(store: SuppressionStore, scope: Scope) -> None:
    await publish(store, scope, A, 1)
    assert await verdict(store, scope, rules.force(T2, b"\x00\x00")) < 0
    told = rules.settle(T2, A, 2, 6)
    assert await verdict(store, scope, told + reserve(T3, A)) == 2


async def test_clear_forgets_content_and_trust_but_no_token(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": reserve(T2, B)})
    assert await verdict(store, scope, rules.CLEAR + reserve(T3, A)) < 0
    told = rules.refused(T3) + rules.settle(T2, B, 2, 6)
    assert await verdict(store, scope, told + reserve(T1, B)) == verdict_to_publish(2)


async def test_expired_token_drops_the_content(store: SuppressionStore, scope: Scope) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": reserve(T2, B)}, spans=OPEN._replace(life=0.0))
    assert await verdict(store, scope, reserve(T3, A)) == verdict_to_publish(1)


async def test_nothing_is_purged_while_one_token_lives(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": reserve(T1, A + b"")}, spans=OPEN)  # unchanged: no token
    await run(store, scope, {b"k": reserve(T2, B)})
    await run(store, scope, {b"k": reserve(T1, B)}, spans=OPEN._replace(life=0.0))
    told = rules.settle(T1, B, 2, 6) + rules.refused(T2)
    assert await verdict(store, scope, told + reserve(T3, B)) == 2


async def test_old_content_is_published_again(store: SuppressionStore, scope: Scope) -> None:
    await publish(store, scope, A, 1)
    old = OPEN._replace(max_suppress_age=0.0)
    assert await verdict(store, scope, reserve(T2, A), spans=old) < 0


async def test_quarantine_begins_with_the_incarnation(
    store: SuppressionStore, scope: Scope
) -> None:
    spans = OPEN._replace(quarantine=60_000.0)
    await publish(store, scope, A, 1)  # its own spans: no quarantine, so the token is trusted
    assert await verdict(store, scope, reserve(T2, A), spans=spans) < 0
    told = rules.settle(T2, A, 2, 6)
    assert await verdict(store, scope, told + reserve(T3, A)) < 0


async def test_dropped_incarnation_has_another_nonce_and_knows_nothing(
    store: SuppressionStore, scope: Scope
) -> None:
    before = await run(store, scope, {b"k": reserve(T1, A) + rules.settle(T1, A, 1, 6)})
    same = await run(store, scope, {}, reservations=0)
    after = await run(store, scope, {b"k": reserve(T2, A)}, flags=DROP)
    assert nonces(same) == nonces(before)
    assert nonces(after) != nonces(before)
    assert list(after.verdicts) == [-1]


async def test_namespaces_of_one_call_do_not_mix(store: SuppressionStore, scope: Scope) -> None:
    other = Scope("deals", os.urandom(16), 6, b"\x01" * 8)
    await publish(store, scope, A, 1)
    call = SuppressionCall(
        OPEN,
        next(_nonces).to_bytes(16, "big"),
        [other, scope],
        b"\x00\x00",
        [6, 6],
        [other.entry(b"k"), scope.entry(b"k")],
        [b"\x00" + reserve(T2, A, 0), b"\x01" + reserve(T3, A, 1)],
        2,
    )
    reply = await store.run(call)
    assert list(reply.verdicts) == [-1, 1]
    assert nonces(reply)[0] != nonces(reply)[1]


async def test_keys_of_any_bytes_and_length(store: SuppressionStore, scope: Scope) -> None:
    keys = [b"", b"\x00", b"\xff:k:", b"x" * 64, b"x" * 65, b"x" * 5000]
    operations = {key: reserve(T1, A, number) for number, key in enumerate(keys)}
    await run(store, scope, operations, reservations=len(keys))
    settled = {key: rules.settle(T1, A, n, 6) for n, key in enumerate(keys)}
    await run(store, scope, settled, reservations=0)
    reply = await run(store, scope, operations, reservations=len(keys))
    assert list(reply.verdicts) == list(range(len(keys)))
    assert all(len(scope.entry(key)) < 200 for key in keys)


async def test_full_call(store: SuppressionStore, scope: Scope) -> None:
    operations = {b"%d" % n: reserve(T1, A, n) for n in range(200)}
    reply = await run(store, scope, operations, reservations=200)
    assert list(reply.verdicts) == [-1] * 200


async def test_two_connections_share_the_state(
    connect: Callable[[], SuppressionStore], scope: Scope
) -> None:
    one, other = connect(), connect()
    await reach(one)
    await reach(other)
    await publish(one, scope, A, 4)
    assert await verdict(other, scope, reserve(T2, A)) == 4


async def test_run_before_connect_and_after_close_fails(
    connect: Callable[[], SuppressionStore], scope: Scope
) -> None:
    one = connect()
    with pytest.raises(StoreError):
        await run(one, scope, {}, reservations=0)
    await reach(one)
    await one.close()
    with pytest.raises(StoreError):
        await run(one, scope, {}, reservations=0)


async def test_a_store_says_which_process_it_is_connected_to(
    connect: Callable[[], SuppressionStore],
) -> None:
    one, other = connect(), connect()
    assert one.server == ""
    for store in (one, other):
        await reach(store)
    assert one.server == other.server != ""


@pytest.mark.redis
async def test_another_redis_process_has_another_name(
    start_redis: Callable[..., RunningRedis],
) -> None:
    server = start_redis()
    store = RedisStore(server.url, 2000)
    await reach(store)
    before = store.server
    assert before.startswith(f"127.0.0.1:{server.port} run ")
    await asyncio.to_thread(server.restart)
    await reach(store)
    assert store.server.startswith(f"127.0.0.1:{server.port} run ")
    assert store.server != before
    await store.close()
