"""What changes while a topic is written to: partitions, key rules, writers that do not reserve.

Against the store in memory and the real Redis, as `test_suppression_store.py`.
"""

from __future__ import annotations

from itertools import count

from contract.suppression.test_suppression_store import (
    OPEN,
    T1,
    T2,
    T3,
    A,
    B,
    connect,
    nonces,
    publish,
    reserve,
    run,
    scope,
    store,
    verdict,
)
from headgate.model.suppression import Scope
from headgate.suppression import rules
from headgate.suppression.rules import ANNOUNCE, DROP, MARK
from headgate.suppression.store import SuppressionStore
from support.doubles.suppression_rules import MAX_TOKENS
from support.process.stack import eventually

__all__ = ["connect", "scope", "store"]  # fixtures
QUARANTINE = OPEN._replace(quarantine=60_000.0)
SHORT = OPEN._replace(quarantine=40.0)


async def open_again(store: SuppressionStore, scope: Scope) -> None:
    """Wait until the namespace suppresses, by its own word."""

    async def is_open() -> bool:
        reply = await run(store, scope, {}, spans=SHORT, reservations=0)
        return reply.states[0].opens_ms <= reply.now_ms

    await eventually(is_open, interval_s=0.005)


async def test_a_caller_that_is_behind_reserves_nothing_and_learns_the_count(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    late = Scope("deals", scope.topic_id, 6, scope.rule)
    scope.partitions = 12
    assert await verdict(store, scope, reserve(T2, A)) == -1  # by another count nothing is known
    reply = await run(store, late, {b"k": reserve(T3, A)})
    assert reply.states[0].partitions == 12
    scope.partitions = 12
    await run(store, scope, {b"k": rules.settle(T2, A, 0, 12)}, reservations=0)
    assert await verdict(store, scope, reserve(T1, A)) == 0  # T3 has left no token


async def test_what_lands_in_the_former_partition_clears(
    store: SuppressionStore, scope: Scope
) -> None:
    await run(store, scope, {b"k": reserve(T1, B)})
    scope.partitions = 12
    await run(store, scope, {b"k": reserve(T2, A)})
    await run(store, scope, {b"k": rules.settle(T2, A, 0, 12)}, reservations=0)
    assert await verdict(store, scope, reserve(T3, A)) < 0  # B is under way still
    await run(store, scope, {b"k": rules.refused(T3)}, reservations=0)
    await run(store, scope, {b"k": rules.settle(T1, B, 9, 6)}, reservations=0)
    assert await verdict(store, scope, reserve(T3, A)) < 0
    assert await verdict(store, scope, reserve(T3, B)) < 0


async def test_the_count_outlives_the_incarnation(store: SuppressionStore, scope: Scope) -> None:
    scope.partitions = 12
    await run(store, scope, {}, reservations=0)
    scope.partitions = 6
    reply = await run(store, scope, {}, flags=DROP, reservations=0)
    assert reply.states[0].partitions == 12


async def test_an_announcement_ends_what_is_known_and_begins_a_quarantine(
    store: SuppressionStore, scope: Scope
) -> None:
    await publish(store, scope, A, 1)
    await run(store, scope, {b"k": reserve(T1, B)})
    told = await run(store, scope, {}, spans=SHORT, flags=ANNOUNCE, reservations=0)
    assert told.states[0].opens_ms == told.now_ms + SHORT.quarantine + SHORT.lease
    assert await verdict(store, scope, reserve(T2, A), spans=SHORT) < 0
    await run(store, scope, {b"k": rules.settle(T2, A, 2, 6)}, reservations=0)
    again = await run(store, scope, {}, spans=SHORT, flags=ANNOUNCE, reservations=0)
    assert nonces(again) == nonces(told)  # nothing was known that could be void
    await open_again(store, scope)
    settled = rules.settle(T1, B, 3, 6)
    assert await verdict(store, scope, settled + reserve(T3, A), spans=SHORT) < 0
    await run(store, scope, {b"k": rules.settle(T3, A, 4, 6)}, reservations=0)
    assert await verdict(store, scope, reserve(T1, A), spans=SHORT) == 4


async def test_nothing_is_suppressed_while_two_key_rules_are_in_use(
    store: SuppressionStore, scope: Scope
) -> None:
    other = Scope("deals", scope.topic_id, 6, b"\x02" * 8)
    await publish(store, scope, A, 1)
    first = await run(store, other, {}, spans=QUARANTINE, reservations=0)
    assert first.states[0].opens_ms == first.now_ms + QUARANTINE.quarantine
    second = await run(store, scope, {b"k": reserve(T2, A)}, spans=QUARANTINE)
    assert nonces(second) == nonces(first)
    assert second.verdicts[0] < 0

    async def is_pushed_on() -> bool:
        third = await run(store, other, {}, spans=QUARANTINE, reservations=0)
        await run(store, scope, {}, spans=QUARANTINE, reservations=0)
        return third.states[0].opens_ms > first.states[0].opens_ms

    await eventually(is_pushed_on, interval_s=0.001)


async def test_an_expired_token_goes_however_busy_its_key_is(
    store: SuppressionStore, scope: Scope
) -> None:
    gone = OPEN._replace(life=30.0)
    await run(store, scope, {b"k": reserve(T1, B)}, spans=gone)  # nobody ever settles it
    offset = 0

    async def is_unchanged() -> bool:
        nonlocal offset
        if await verdict(store, scope, reserve(T2, A), spans=gone) >= 0:
            return True
        offset += 1
        await run(store, scope, {b"k": rules.settle(T2, A, offset, 6)}, reservations=0)
        return False

    await eventually(is_unchanged, interval_s=0.002)


async def test_the_tokens_of_a_key_are_bounded_and_a_crowd_blocks_until_it_expires(
    store: SuppressionStore, scope: Scope
) -> None:
    tokens = [b"%012d" % number for number in range(MAX_TOKENS + 10)]
    operations = b"".join(reserve(token, B, n) for n, token in enumerate(tokens))
    reply = await run(store, scope, {b"k": operations}, reservations=len(tokens))
    assert reply.crowded == 10
    settled = b"".join(rules.settle(token, B, n, 6) for n, token in enumerate(tokens))
    await run(store, scope, {b"k": settled}, reservations=0)
    assert await verdict(store, scope, reserve(T1, B)) < 0  # the crowd's own token is there
    gone = OPEN._replace(life=1.0)
    crowd = b"".join(reserve(token, B, n) for n, token in enumerate(tokens))
    reply = await run(store, scope, {b"x": crowd}, spans=gone, reservations=len(tokens))
    assert reply.crowded == 10

    async def is_purged() -> bool:
        alone = await run(store, scope, {b"x": reserve(T1, A)}, spans=gone)
        return alone.crowded == 0

    await eventually(is_purged, interval_s=0.001)


async def test_a_mark_holds_for_the_topic_whatever_its_id(
    store: SuppressionStore, scope: Scope
) -> None:
    former = Scope(scope.topic, b"\x09" * 16, 3, scope.rule)
    await publish(store, scope, A, 1)
    assert await verdict(store, scope, reserve(T2, A)) == 1
    await run(store, former, {}, spans=SHORT, flags=ANNOUNCE + MARK, reservations=0)
    assert await verdict(store, scope, reserve(T2, A)) < 0
    await run(store, scope, {b"k": rules.settle(T2, A, 2, 6)}, reservations=0)

    offsets = count(3)

    async def is_over() -> bool:  # it ends with the lease
        offset = next(offsets)
        await publish(store, scope, A, offset)
        found = await verdict(store, scope, reserve(T2, A) + rules.refused(T2))
        return found == offset

    await eventually(is_over, interval_s=0.05)
