"""When lanes go: not during a request, together after it, and never later than the linger.

While there is little traffic nobody lingers.
"""

from __future__ import annotations

import asyncio

import pytest

from headgate.kafka.producer import FEW, LONGER, MANY_RECORDS, Rounds
from support.process.stack import eventually

NODE, OTHER = 1, 2
LONG_S = 1_000.0  # ends in no test


def first(rounds: Rounds, node: int = NODE) -> asyncio.Future[None]:
    """What a lane that was empty waits for."""
    turn = rounds.turn(node, was_empty=True, is_full=False)
    assert turn is not None
    return turn


def is_free(rounds: Rounds, node: int = NODE, *, was_empty: bool = False) -> bool:
    return rounds.turn(node, was_empty=was_empty, is_full=False) is None


def loaded(linger_s: float, *nodes: int) -> Rounds:
    """Rounds of brokers whose last request has just ended and was no small one."""
    rounds = Rounds(linger_s, set())
    for node in nodes:
        assert is_free(rounds, node)
        rounds.ended(node, FEW + 1)
    return rounds


async def test_while_there_is_little_traffic_the_first_goes_at_once() -> None:
    busy = set[int]()
    rounds = Rounds(LONG_S, busy)
    for _ in range(3):
        assert is_free(rounds, was_empty=True)
        busy.add(NODE)
        waiting = [first(rounds) for _ in range(FEW)]
        busy.clear()
        rounds.ended(NODE, FEW)
        assert all(turn.done() for turn in waiting), "what came meanwhile goes together"


@pytest.mark.parametrize(("records", "lanes"), [(FEW + 1, 1), (1, FEW + 1)])
async def test_behind_traffic_lanes_gather_until_nobody_comes(records: int, lanes: int) -> None:
    busy = {NODE}
    rounds = Rounds(0.01, busy)
    waiting = [first(rounds) for _ in range(lanes)]
    busy.clear()
    rounds.ended(NODE, records)
    assert not any(turn.done() for turn in waiting)
    await asyncio.gather(*waiting)
    assert not is_free(rounds, was_empty=True), "the next gathers as well"
    rounds.go()
    rounds.ended(NODE, records)
    await eventually(lambda: not rounds._rounds[NODE].is_gathering, interval_s=0.01)
    assert is_free(rounds, was_empty=True)


async def test_lanes_of_a_busy_broker_go_together_when_its_request_has_ended() -> None:
    busy = {NODE}
    rounds = Rounds(0, busy)
    waiting = [first(rounds), first(rounds)]
    assert is_free(rounds, OTHER), "brokers do not wait for each other"
    rounds.ended(OTHER, 1)
    assert not any(turn.done() for turn in waiting)
    busy.clear()
    rounds.ended(NODE, 1)
    assert all(turn.done() for turn in waiting)
    assert is_free(rounds)


async def test_the_woken_run_before_whatever_is_scheduled_after_the_end() -> None:
    busy, order = {NODE}, list[str]()
    rounds = Rounds(0, busy)
    turn = first(rounds)
    turn.add_done_callback(lambda _: order.append("lane"))
    busy.clear()
    rounds.ended(NODE, 1)
    asyncio.get_running_loop().call_soon(order.append, "sender")
    await eventually(lambda: len(order) == 2, interval_s=0)
    assert order == ["lane", "sender"]


async def test_lanes_that_wake_within_one_window_go_at_its_end() -> None:
    rounds = loaded(0.02, NODE)
    one, other = first(rounds), first(rounds)
    order = list[str]()
    one.add_done_callback(lambda _: order.append("one"))
    other.add_done_callback(lambda _: order.append("other"))
    await one
    assert other.done()
    assert is_free(rounds), "who has waited goes"


async def test_a_window_opens_at_the_end_of_a_request() -> None:
    busy = {NODE}
    rounds = Rounds(0.02, busy)
    during = first(rounds)
    busy.clear()
    rounds.ended(NODE, FEW + 1)
    after = rounds.turn(NODE, was_empty=False, is_full=False)
    assert after is not None
    assert not during.done()
    await asyncio.gather(during, after)
    assert is_free(rounds)


@pytest.mark.parametrize(
    ("records", "is_pressed", "times"),
    [(MANY_RECORDS - 1, False, 1), (MANY_RECORDS, False, LONGER), (MANY_RECORDS, True, 1)],
)
async def test_a_round_gathers_longer_behind_a_large_request(
    records: int, is_pressed: bool, times: int
) -> None:
    """Not beside a flood: those who post little would wait for what its many records save."""
    busy, loop = {NODE}, asyncio.get_running_loop()
    rounds = Rounds(LONG_S, busy, lambda: is_pressed)
    turn = first(rounds)
    busy.clear()
    before = loop.time()
    rounds.ended(NODE, records)
    timer = rounds._rounds[NODE]._timer
    assert timer is not None
    assert before + times * LONG_S <= timer.when() <= loop.time() + times * LONG_S
    assert not turn.done()
    rounds.go()
    assert turn.done()


@pytest.mark.parametrize("records", [1, MANY_RECORDS])
async def test_without_linger_a_round_goes_when_the_request_ends(records: int) -> None:
    busy = {NODE}
    rounds = Rounds(0, busy)
    turn = first(rounds)
    busy.clear()
    rounds.ended(NODE, records)
    assert turn.done()


async def test_without_linger_nobody_waits_for_an_idle_broker() -> None:
    assert is_free(Rounds(0, set()), was_empty=True)


async def test_a_full_lane_goes_at_once_and_takes_the_others_along() -> None:
    rounds = loaded(LONG_S, NODE)
    waiting = first(rounds)
    assert rounds.turn(NODE, was_empty=True, is_full=True) is None
    assert waiting.done()


async def test_a_lane_that_is_full_during_a_request_goes_at_its_end() -> None:
    busy = {NODE}
    rounds = Rounds(LONG_S, busy)
    full, other = rounds.turn(NODE, was_empty=False, is_full=True), first(rounds)
    busy.clear()
    rounds.ended(NODE, 1)
    assert full is not None
    assert full.done()
    assert other.done()
    rounds.ended(NODE, FEW + 1)  # the next round gathers again
    assert not is_free(rounds)
    rounds.go()


@pytest.mark.parametrize("is_busy", [True, False])
async def test_all_look_again_when_leaders_move_or_the_producer_goes(is_busy: bool) -> None:
    rounds = Rounds(LONG_S, {NODE, OTHER}) if is_busy else loaded(LONG_S, NODE, OTHER)
    waiting = [first(rounds), first(rounds, OTHER)]
    rounds.go()
    assert all(turn.done() for turn in waiting)


async def test_a_cancelled_lane_takes_no_other_along() -> None:
    rounds = Rounds(0, {NODE})
    gone, other = first(rounds), first(rounds)
    gone.cancel()
    assert not other.done()
    rounds.ended(NODE, 1)
    assert other.done()
    assert not other.cancelled()
