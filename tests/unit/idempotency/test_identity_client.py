"""Claims and ends on their way to a Redis in memory, which may be away."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from headgate.idempotency.claims import Ask, PendingClaims, SizedClaim, Verdicts
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.rules import (
    CLAIM,
    DONE,
    RELEASE,
    ClaimCall,
    ClaimState,
    ClaimVerdict,
    step_of,
)
from headgate.idempotency.store import IdentityOptions
from headgate.model.publish import Claim
from support.doubles.identity_store import MemoryIdentityStore, SharedIdentities
from support.failing_clock import FailingClock
from support.gateway.meters import a_meter
from support.process.stack import eventually
from support.virtual_time import run_in_virtual_time


class HeldUp(MemoryIdentityStore):
    """A store whose calls wait while `gate` is closed."""

    def __init__(self, shared: SharedIdentities) -> None:
        super().__init__(shared)
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls: list[ClaimCall] = []

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        self.calls.append(call)
        await self.gate.wait()
        return await super().run(call)


class Room:
    def __init__(self, clock: Callable[[], float] = time.monotonic, **options: float) -> None:
        self._clock = clock
        self.shared = SharedIdentities(lambda: clock() * 1000)
        self.meter = a_meter()
        self.store = HeldUp(self.shared)
        self.client = self.other(self.store, **options)

    def other(self, store: MemoryIdentityStore | None = None, **options: float) -> IdentityClient:
        store = store or MemoryIdentityStore(self.shared)
        plan = IdentityOptions(**{"timeout_ms": 30_000.0, **options})
        return IdentityClient(store, plan, self._clock, os.urandom, self.meter)

    def claim(self, name: bytes = b"n" * 16, content: bytes = b"f" * 16) -> Claim:
        return Claim(name, content, self.client.new_token(), 60_000.0)

    def ask(self, *claims: Claim, reported: list | None = None) -> asyncio.Future:  # type: ignore[type-arg]
        """The states of the claims, None for one without a verdict; `reported` notes the order."""
        future = asyncio.get_running_loop().create_future()

        def go_on(verdicts: Verdicts, reason: str) -> None:
            states = [verdicts[one.token].state if one.token in verdicts else None
                      for one in claims]  # fmt: skip
            if reported is not None:
                reported.append(claims)
            future.set_result((states, reason))

        self.client.ask(iter([SizedClaim(claim, 0) for claim in claims]), go_on)
        return future


async def until_reported(room: Room, claim: Claim) -> None:
    """Wait until Redis knows how its attempt ended, or cannot be told."""
    known = asyncio.Event()
    room.client.when_reported(claim.token, known.set)
    await known.wait()


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room(claim_ms=200.0, max_steps=4)
    await room.client.start()
    yield room
    room.store.gate.set()
    await room.client.close()


async def test_what_arrives_during_a_call_shares_the_next_and_keeps_its_order(room: Room) -> None:
    room.store.gate.clear()
    reported: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16)) for _ in range(many)] for many in (1, 3, 0, 7, 1)]
    futures = [room.ask(*claims, reported=reported) for claims in asked[:1]]
    await eventually(lambda: len(room.store.calls) == 1)
    futures += [room.ask(*claims, reported=reported) for claims in asked[1:]]
    room.store.gate.set()
    for claims, future in zip(asked, futures, strict=True):
        assert await future == ([ClaimState.CLAIMED] * len(claims), "")
    assert reported == [tuple(claims) for claims in asked]
    claims_made = [sum(one.packed[:1] == CLAIM for one in call.operations)
                   for call in room.store.calls]  # fmt: skip
    assert sum(claims_made) == 12
    assert max(claims_made) == 4
    assert len(claims_made) <= 5  # one more where a renewal took a place


async def test_a_repeat_is_told_of_the_first(room: Room) -> None:
    first, again = room.claim(), room.claim()
    assert (await room.ask(first))[0] == [ClaimState.CLAIMED]
    assert (await room.ask(again))[0] == [ClaimState.RUNNING]
    room.client.end(first.token, step_of(first, DONE, b"place"))
    await until_reported(room, first)
    assert (await room.ask(room.claim()))[0] == [ClaimState.DONE]


async def test_an_end_is_told_before_what_is_asked_after_it(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.client.end(first.token, step_of(first, DONE, b"place"))
    assert (await room.ask(room.claim()))[0] == [ClaimState.DONE]


async def test_while_redis_is_away_all_go_on_in_order_and_ends_are_kept(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.store.gate.clear()
    reported: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16))] for _ in range(6)]
    futures = [room.ask(*claims, reported=reported) for claims in asked]
    await eventually(lambda: len(room.store.calls) == 2)
    room.client.end(first.token, step_of(first, DONE, b"place"))
    room.shared.up = False
    room.store.gate.set()
    assert [await future for future in futures] == [([None], "redis_error")] * 6
    assert reported == [tuple(claims) for claims in asked]
    assert await room.ask(room.claim()) == ([None], "breaker_open")
    await until_reported(room, first)  # does not wait for a Redis that is away
    assert not room.client.health()[0]
    room.shared.up = True
    await eventually(lambda: room.client.health()[0])
    assert (await room.ask(room.claim()))[0] == [ClaimState.DONE]


async def test_a_restarted_redis_is_told_what_is_under_way(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.shared.values.clear()
    room.shared.up = False
    assert (await room.ask(room.claim()))[0] == [None]
    room.shared.up = True
    await eventually(lambda: room.shared.values)  # the first one's claim, made again
    assert (await room.ask(room.claim()))[0] == [ClaimState.RUNNING]


def test_a_living_attempt_keeps_its_claim_and_a_dead_one_does_not() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        room, survivor = Room(clock, claim_ms=200.0), Room(clock, claim_ms=200.0)
        await room.client.start()
        slow = room.claim()
        await room.ask(slow)
        for _ in range(30):  # three times claim_ms
            assert (await room.ask(room.claim()))[0] == [ClaimState.RUNNING]
            await asyncio.sleep(0.02)
        await room.client.close()  # nobody renews it any more
        survivor.shared.values = room.shared.values
        await survivor.client.start()
        assert (await survivor.ask(survivor.claim()))[0] == [ClaimState.RUNNING]
        await asyncio.sleep(0.2)
        assert (await survivor.ask(survivor.claim()))[0] == [ClaimState.CLAIMED]
        await survivor.client.close()

    run_in_virtual_time(work())


def test_claims_are_kept_alive_although_a_tick_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        clock = FailingClock(asyncio.get_running_loop().time)
        room = Room(clock, claim_ms=15_000.0, timeout_ms=100.0)
        await room.client.start()
        assert (await room.ask(room.claim()))[0] == [ClaimState.CLAIMED]
        await asyncio.sleep(1)  # nobody is waited for any more
        clock.fails = True
        await asyncio.sleep(60)
        assert not clock.fails
        assert "failed and continues" in caplog.text
        assert (await room.ask(room.claim()))[0] == [ClaimState.RUNNING]
        await room.client.close()

    run_in_virtual_time(work())


async def test_released_is_as_if_never_claimed(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.client.end(first.token, step_of(first, RELEASE))
    assert (await room.ask(room.claim(content=b"g" * 16)))[0] == [ClaimState.CLAIMED]


async def test_closing_tells_the_last_ends() -> None:
    room = Room()
    await room.client.start()
    claim = room.claim()
    await room.ask(claim)
    room.client.end(claim.token, step_of(claim, DONE, b"place"))
    await room.client.close()
    (held,) = room.shared.values.values()
    assert held.value.endswith(b"place")


def test_ends_that_are_kept_are_bounded_by_number_and_bytes() -> None:
    forgotten: list[None] = []
    waiting = PendingClaims(
        IdentityOptions(max_pending=10, max_pending_bytes=1000), lambda: forgotten.append(None)
    )
    for number in range(30):
        claim = Claim(b"n", b"f" * 16, bytes([number]) * 12, 1.0)
        waiting.end(claim.token, step_of(claim, DONE, b"x" * 20))
    assert (len(waiting.ends), len(forgotten)) == (10, 20)
    waiting.end(claim.token, step_of(claim, DONE, b"x" * 900))
    assert len(waiting.ends) == 2  # 37 bytes beside what is remembered, each


def test_claims_are_made_as_calls_have_room() -> None:
    """What is digested at a time is bounded, however large the batch."""
    made = []

    def claims() -> Iterator[SizedClaim]:
        for number in range(10):
            claim = Claim(bytes([number]), b"f" * 16, bytes([number]) * 12, 1.0)
            made.append(claim)
            yield SizedClaim(claim, 40)

    waiting = PendingClaims(IdentityOptions(max_bytes=100), lambda: None)

    reported: list[Verdicts] = []
    waiting.asks.append(Ask(claims(), lambda verdicts, reason: reported.append(verdicts)))
    for expected in (3, 6, 9, 10):
        outgoing = waiting.next_call(0.0)
        assert outgoing is not None
        assert len(made) == expected
        assert all(one.packed[:1] == CLAIM for one in outgoing.call(1.0).operations)
        waiting.answered(outgoing, [ClaimVerdict(ClaimState.CLAIMED)] * len(outgoing.claimed))
        waiting.go_on()
    assert waiting.next_call(0.0) is None
    assert len(reported[0]) == 10


async def test_nobody_waits_for_a_slow_redis_and_the_order_stays() -> None:
    room = Room(timeout_ms=40.0, max_steps=1)
    await room.client.start()
    room.store.gate.clear()
    reported: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16))] for _ in range(3)]
    futures = [room.ask(*claims, reported=reported) for claims in asked]
    assert [await future for future in futures] == [([None], "redis_slow")] * 3
    assert reported == [tuple(claims) for claims in asked]
    assert not room.client.health()[0]
    assert "slow" in room.client.health()[1]
    room.store.gate.set()  # the call that was under way is answered at last
    (late,) = asked[0]
    room.client.end(late.token, step_of(late, DONE, b"place"))
    await until_reported(room, late)
    again = Claim(late.name, late.fingerprint, room.client.new_token(), 60_000.0)
    assert (await room.ask(again))[0] == [ClaimState.DONE]
    await room.client.close()


class Unclosable(MemoryIdentityStore):
    """Cannot be closed, or takes its time for it."""

    def __init__(self, shared: SharedIdentities, breaks: bool) -> None:
        super().__init__(shared)
        self.breaks, self.closed = breaks, False

    async def close(self) -> None:
        await super().close()
        if self.breaks:
            raise OSError("cannot be closed")
        await asyncio.sleep(1.0)
        self.closed = True


def test_a_server_that_cannot_be_closed_leaves_none_open() -> None:
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        room = Room(clock)
        stores = [Unclosable(room.shared, breaks) for breaks in (True, False, False)]
        sharded = ShardedIdentity({str(at): room.other(one) for at, one in enumerate(stores)})
        await sharded.start()
        began_s = clock()
        with pytest.raises(OSError, match="cannot be closed"):
            await sharded.close()
        assert [one.closed for one in stores] == [False, True, True]
        assert clock() - began_s < 2.0, "one after the other"

    run_in_virtual_time(run())


async def test_a_client_without_requests_sees_that_redis_is_away(room: Room) -> None:
    await eventually(lambda: len(room.store.calls) >= 2)
    assert not any(call.operations for call in room.store.calls)
    assert room.client.health() == (True, "connected")
    room.shared.up = False
    await eventually(lambda: not room.client.health()[0])
    room.shared.up = True
    await eventually(lambda: room.client.health() == (True, "connected"))


async def test_a_client_with_requests_makes_no_calls_to_see_whether_redis_answers() -> None:
    room = Room(claim_ms=200.0)
    await room.client.start()
    for _ in range(20):
        await room.ask(room.claim(os.urandom(16)))
        await asyncio.sleep(0.01)
    assert all(call.operations for call in room.store.calls)
    await room.client.close()
