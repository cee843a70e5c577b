"""Lists of servers change one gateway after the other, and servers die: no change is dropped."""

from __future__ import annotations

import pytest

from headgate.suppression.rules import Agreement, LayoutReply, LayoutSpans
from support.scale import scaled
from support.scenarios.sharded_world import World
from support.virtual_time import run_in_virtual_time

CHANGES = {
    "one and more": [(0,), (0, 1), (0, 1, 2), (0, 1), (0,)],
    "three, two, three": [(0, 1, 2), (0, 1), (0, 1, 2), (0, 1), (0, 1, 2)],
    "three, four, three": [(0, 1, 2), (0, 1, 2, 3), (0, 1, 2), (0, 1, 2, 3)],
}
SPANS = LayoutSpans(10.0, 2.5, 100.0, 10_000.0)


def play(seed: int, steps: list[tuple[int, ...]], kills: float, *, agrees: bool = True) -> World:
    found: list[World] = []

    async def run() -> None:
        world = World(seed, steps, agrees=agrees)
        found.append(world)
        await world.run(40.0, kills)

    run_in_virtual_time(run())
    return found[0]


@pytest.mark.parametrize("kills", [0.0, 0.7])
@pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("seeds", scaled(1, 12))
def test_no_change_is_dropped(seeds: int, steps: list[tuple[int, ...]], kills: float) -> None:
    for seed in range(seeds):
        world = play(seed, steps, kills)
        assert not world.wrong, (seed, world.wrong[:3])
        assert world.outcomes["unchanged"] > 50, world.outcomes


def test_without_an_agreement_the_same_histories_drop_changes() -> None:
    steps = CHANGES["three, two, three"]
    assert any(play(seed, steps, 0.0, agrees=False).wrong for seed in range(5))


def test_a_lost_server_stops_suppression_of_its_own_keys_alone() -> None:
    async def run() -> None:
        world = World(1, [(0, 1, 2)])
        await world.run(40.0, 1.0)
        assert world.outcomes["killed"] == 1
        assert not world.wrong
        assert world.outcomes["unchanged"] > 80, world.outcomes

    run_in_virtual_time(run())


# ---- what one process concludes


def quiet(now: float = 0.0) -> LayoutReply:
    return LayoutReply(int(now * 1000) + 50_000_000, 0, False)


def noisy(age_s: float, *, found: bool = True) -> LayoutReply:
    return LayoutReply(50_000_000, int(50_000_000 - age_s * 1000), found)


def test_more_than_half_of_the_servers_are_needed() -> None:
    for count, needed in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3)):
        agreement = Agreement(count, SPANS)
        for number in range(needed):
            assert not agreement.believes(0.0, 1_000.0), (count, number)
            agreement.apply_reply(number, 999.0, 1_000.0, quiet())
        assert agreement.believes(0.0, 1_000.0)


def test_what_was_heard_holds_for_a_lease_from_when_it_was_sent() -> None:
    agreement = Agreement(1, SPANS)
    agreement.apply_reply(0, 99.0, 100.0, quiet())
    assert agreement.believes(0.0, 108.9)
    assert not agreement.believes(0.0, 109.0)


def test_a_broken_connection_takes_back_what_was_heard() -> None:
    agreement = Agreement(3, SPANS)
    for number in range(3):
        agreement.apply_reply(number, 100.0, 100.0, quiet())
    agreement.lost(0, 100.0)
    assert agreement.believes(0.0, 100.0)
    agreement.lost(1, 100.0)
    assert not agreement.believes(0.0, 100.0)


def test_another_layout_makes_a_start_wait_and_what_is_older_begin_anew() -> None:
    agreement = Agreement(3, SPANS)
    agreement.apply_reply(0, 1_000.0, 1_000.0, noisy(2.0))
    agreement.apply_reply(1, 1_000.0, 1_000.0, quiet())
    assert agreement.begins_s == 1_010.0
    assert not agreement.believes(990.0, 1_000.0)  # born before the other was last there
    assert agreement.believes(999.0, 1_000.0)
    assert not agreement.begins_anew(990.0, 1_000.0)  # it still may be
    agreement.apply_reply(0, 1_011.0, 1_011.0, noisy(13.0))
    agreement.apply_reply(1, 1_011.0, 1_011.0, quiet(11.0))
    assert agreement.begins_anew(990.0, 1_011.0)
    assert not agreement.begins_anew(999.0, 1_011.0)


def test_a_server_that_lost_its_state_does_not_count_against_the_others() -> None:
    agreement = Agreement(3, SPANS)
    for number in range(3):
        agreement.apply_reply(number, 1_000.0, 1_000.0, quiet())
    agreement.apply_reply(2, 1_000.0, 1_000.0, noisy(0.0, found=False))
    assert agreement.believes(0.0, 1_000.0)


def test_only_the_first_answer_of_each_server_makes_a_start_wait() -> None:
    agreement = Agreement(3, SPANS)
    agreement.apply_reply(0, 1_000.0, 1_000.0, noisy(2.0))
    agreement.apply_reply(1, 1_001.0, 1_001.0, noisy(2.0))
    agreement.apply_reply(0, 1_005.0, 1_005.0, noisy(1.0))
    assert agreement.begins_s == 1_011.0
