"""Claims and ends on their way to a Redis in memory, which may be away."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from headgate.backends.memory.identity import MemoryIdentityStore, SharedIdentities
from headgate.core.idempotency.protocol import CLAIM, DONE, RELEASE, Call, Claim, State, Verdict
from headgate.idempotency.asks import Ask, Sized, Verdicts
from headgate.idempotency.desk import IdentityDesk
from headgate.idempotency.options import IdentityOptions
from headgate.idempotency.waiting import Waiting
from stack import eventually
from virtual_time import run_in_virtual_time


class Bypasses(dict[str, int]):
    def identity_bypassed(self, reason: str, count: int) -> None:
        self[reason] = self.get(reason, 0) + count


class HeldUp(MemoryIdentityStore):
    """A store whose calls wait while `gate` is closed."""

    def __init__(self, shared: SharedIdentities) -> None:
        super().__init__(shared)
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls: list[Call] = []

    async def run(self, call: Call) -> Sequence[Verdict]:
        self.calls.append(call)
        await self.gate.wait()
        return await super().run(call)


class Room:
    def __init__(self, clock: Callable[[], float] = time.monotonic, **options: float) -> None:
        self._clock = clock
        self.shared = SharedIdentities(lambda: clock() * 1000)
        self.bypasses = Bypasses()
        self.store = HeldUp(self.shared)
        self.desk = self.other(self.store, **options)

    def other(self, store: MemoryIdentityStore | None = None, **options: float) -> IdentityDesk:
        store = store or MemoryIdentityStore(self.shared)
        plan = IdentityOptions(**{"timeout_ms": 30_000.0, **options})
        return IdentityDesk(store, plan, self._clock, os.urandom, self.bypasses)

    def claim(self, name: bytes = b"n" * 16, content: bytes = b"f" * 16) -> Claim:
        return Claim(name, content, self.desk.new_token(), 60_000.0)

    def ask(self, *claims: Claim, told: list | None = None) -> asyncio.Future:  # type: ignore[type-arg]
        """The states of the claims, None for one without a verdict; `told` notes the order."""
        future = asyncio.get_running_loop().create_future()

        def go_on(verdicts: Verdicts, reason: str) -> None:
            states = [verdicts[one.token].state if one.token in verdicts else None
                      for one in claims]  # fmt: skip
            if told is not None:
                told.append(claims)
            future.set_result((states, reason))

        self.desk.ask(iter([Sized(claim, 0) for claim in claims]), go_on)
        return future


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room(claim_ms=200.0, most_steps=4)
    await room.desk.start()
    yield room
    room.store.gate.set()
    await room.desk.close()


async def test_what_arrives_during_a_call_shares_the_next_and_keeps_its_order(room: Room) -> None:
    room.store.gate.clear()
    told: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16)) for _ in range(many)] for many in (1, 3, 0, 7, 1)]
    futures = [room.ask(*claims, told=told) for claims in asked[:1]]
    await eventually(lambda: len(room.store.calls) == 1)
    futures += [room.ask(*claims, told=told) for claims in asked[1:]]
    room.store.gate.set()
    for claims, future in zip(asked, futures, strict=True):
        assert await future == ([State.CLAIMED] * len(claims), "")
    assert told == [tuple(claims) for claims in asked]
    claims_made = [sum(one.packed[:1] == CLAIM for one in call.operations)
                   for call in room.store.calls]  # fmt: skip
    assert sum(claims_made) == 12
    assert max(claims_made) == 4
    assert len(claims_made) <= 5  # one more where a renewal took a place


async def test_a_repeat_is_told_of_the_first(room: Room) -> None:
    first, again = room.claim(), room.claim()
    assert (await room.ask(first))[0] == [State.CLAIMED]
    assert (await room.ask(again))[0] == [State.RUNNING]
    room.desk.end(first.token, first.operation(DONE, b"place"))
    await room.desk.told(first.token)
    assert (await room.ask(room.claim()))[0] == [State.DONE]


async def test_an_end_is_told_before_what_is_asked_after_it(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.desk.end(first.token, first.operation(DONE, b"place"))
    assert (await room.ask(room.claim()))[0] == [State.DONE]


async def test_while_redis_is_away_all_go_on_in_order_and_ends_are_kept(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.store.gate.clear()
    told: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16))] for _ in range(6)]
    futures = [room.ask(*claims, told=told) for claims in asked]
    await eventually(lambda: len(room.store.calls) == 2)
    room.desk.end(first.token, first.operation(DONE, b"place"))
    room.shared.up = False
    room.store.gate.set()
    assert [await future for future in futures] == [([None], "redis_error")] * 6
    assert told == [tuple(claims) for claims in asked]
    assert await room.ask(room.claim()) == ([None], "breaker_open")
    await room.desk.told(first.token)  # does not wait for a Redis that is away
    assert not room.desk.health()[0]
    room.shared.up = True
    await eventually(lambda: room.desk.health()[0])
    assert (await room.ask(room.claim()))[0] == [State.DONE]


async def test_a_restarted_redis_is_told_what_is_under_way(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.shared.values.clear()
    room.shared.up = False
    assert (await room.ask(room.claim()))[0] == [None]
    room.shared.up = True
    await eventually(lambda: room.shared.values)  # the first one's claim, made again
    assert (await room.ask(room.claim()))[0] == [State.RUNNING]


def test_a_living_attempt_keeps_its_claim_and_a_dead_one_does_not() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        room, survivor = Room(clock, claim_ms=200.0), Room(clock, claim_ms=200.0)
        await room.desk.start()
        slow = room.claim()
        await room.ask(slow)
        for _ in range(30):  # three times claim_ms
            assert (await room.ask(room.claim()))[0] == [State.RUNNING]
            await asyncio.sleep(0.02)
        await room.desk.close()  # nobody renews it any more
        survivor.shared.values = room.shared.values
        await survivor.desk.start()
        assert (await survivor.ask(survivor.claim()))[0] == [State.RUNNING]
        await asyncio.sleep(0.2)
        assert (await survivor.ask(survivor.claim()))[0] == [State.CLAIMED]
        await survivor.desk.close()

    run_in_virtual_time(work())


async def test_released_is_as_if_never_claimed(room: Room) -> None:
    first = room.claim()
    await room.ask(first)
    room.desk.end(first.token, first.operation(RELEASE))
    assert (await room.ask(room.claim(content=b"g" * 16)))[0] == [State.CLAIMED]


async def test_closing_tells_the_last_ends() -> None:
    room = Room()
    await room.desk.start()
    claim = room.claim()
    await room.ask(claim)
    room.desk.end(claim.token, claim.operation(DONE, b"place"))
    await room.desk.close()
    (held,) = room.shared.values.values()
    assert held.value.endswith(b"place")


def test_ends_that_are_kept_are_bounded_by_number_and_bytes() -> None:
    forgotten: list[None] = []
    waiting = Waiting(
        IdentityOptions(most_pending=10, most_pending_bytes=1000), lambda: forgotten.append(None)
    )
    for number in range(30):
        claim = Claim(b"n", b"f" * 16, bytes([number]) * 12, 1.0)
        waiting.end(claim.token, claim.operation(DONE, b"x" * 20))
    assert (len(waiting.ends), len(forgotten)) == (10, 20)
    waiting.end(claim.token, claim.operation(DONE, b"x" * 900))
    assert len(waiting.ends) == 2  # 37 bytes beside what is remembered, each


def test_claims_are_made_as_calls_have_room() -> None:
    """What is digested at a time is bounded, however large the batch."""
    made = []

    def claims() -> Iterator[Sized]:
        for number in range(10):
            claim = Claim(bytes([number]), b"f" * 16, bytes([number]) * 12, 1.0)
            made.append(claim)
            yield Sized(claim, 40)

    waiting = Waiting(IdentityOptions(most_bytes=100), lambda: None)

    told: list[Verdicts] = []
    waiting.asks.append(Ask(claims(), lambda verdicts, reason: told.append(verdicts)))
    for expected in (3, 6, 9, 10):
        flight = waiting.next_flight(0.0)
        assert flight is not None
        assert len(made) == expected
        assert all(one.packed[:1] == CLAIM for one in flight.call(1.0).operations)
        waiting.answered(flight, [Verdict(State.CLAIMED)] * len(flight.claimed))
        waiting.go_on()
    assert waiting.next_flight(0.0) is None
    assert len(told[0]) == 10


async def test_nobody_waits_for_a_slow_redis_and_the_order_stays() -> None:
    room = Room(timeout_ms=40.0, most_steps=1)
    await room.desk.start()
    room.store.gate.clear()
    told: list[tuple[Claim, ...]] = []
    asked = [[room.claim(os.urandom(16))] for _ in range(3)]
    futures = [room.ask(*claims, told=told) for claims in asked]
    assert [await future for future in futures] == [([None], "redis_slow")] * 3
    assert told == [tuple(claims) for claims in asked]
    assert not room.desk.health()[0]
    assert "slow" in room.desk.health()[1]
    room.store.gate.set()  # the call that was under way is answered at last
    (late,) = asked[0]
    room.desk.end(late.token, late.operation(DONE, b"place"))
    await room.desk.told(late.token)
    again = Claim(late.name, late.fingerprint, room.desk.new_token(), 60_000.0)
    assert (await room.ask(again))[0] == [State.DONE]
    await room.desk.close()
