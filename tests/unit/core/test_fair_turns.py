"""Whose requests start when: nobody waits for more than a share of another's work."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.fair_turns import (
    COMPANY_S,
    LATE_S,
    MAX_SHARE,
    MIN_SHARE,
    REQUEST_BYTES,
    FairTurns,
)

Turns = FairTurns[str]
SIZE = 500
COST = SIZE + REQUEST_BYTES


def started_at_once(turns: Turns, producer: str, requests: int, now_s: float = 0.0) -> int:
    """Offer so many in one turn; how many start. The others wait."""
    started = 0
    for number in range(requests):
        if turns.starts(producer, SIZE, now_s):
            started += 1
        else:
            turns.wait(producer, SIZE, f"{producer} {number}")
    return started


def test_who_is_alone_starts_everything() -> None:
    turns = Turns()
    assert started_at_once(turns, "flood", 1, 0.0) == 1
    assert turns.next_turn(0.0) == []
    assert started_at_once(turns, "flood", 10_000, COMPANY_S) == 10_000
    assert not turns.is_turning, "nothing is counted, so no turn has to be told"


def test_in_company_a_flood_starts_a_share_a_turn_and_the_others_all() -> None:
    turns = Turns()
    assert started_at_once(turns, "rest", 1) == 1
    share = -(-MAX_SHARE // COST)
    assert started_at_once(turns, "flood", 1000) == share
    assert turns.waiting == 1000 - share
    assert started_at_once(turns, "rest", 3) == 3
    assert turns.is_pressed(0.0)
    assert not turns.is_pressed(COMPANY_S)


def test_what_waits_starts_in_order_and_before_what_comes_later() -> None:
    turns = Turns()
    started_at_once(turns, "rest", 1)
    begun = started_at_once(turns, "flood", 1000)
    assert not turns.starts("flood", SIZE, 0.0)
    turns.wait("flood", SIZE, "flood 1000")
    numbers = []
    while turns.waiting:
        numbers += [int(one.removeprefix("flood ")) for one in turns.next_turn(0.0)]
    assert numbers == [*range(begun, 1000), 1000]


def test_once_alone_again_a_producer_is_not_held_back() -> None:
    turns = Turns()
    started_at_once(turns, "rest", 1)
    begun = started_at_once(turns, "flood", 1000)
    assert turns.is_turning, "it is not idle for a moment in between"
    assert started_at_once(turns, "flood", 1000, COMPANY_S) == 1000
    late = 0
    while turns.is_turning:
        late += len(turns.next_turn(0.0))
    assert late == 1000 - begun
    assert not turns.waiting


def test_late_turns_make_the_share_smaller_and_timely_ones_larger() -> None:
    turns = Turns()
    for _ in range(100):
        turns.next_turn(2 * LATE_S)
    assert turns.share == MIN_SHARE
    for _ in range(100):
        turns.next_turn(0.0)
    assert turns.share == MAX_SHARE


def test_what_is_larger_than_a_share_is_paid_by_the_next_turns() -> None:
    turns = Turns()
    started_at_once(turns, "rest", 1)
    assert turns.starts("flood", 3 * MAX_SHARE, 0.0)
    turns.wait("flood", SIZE, "next")
    assert [turns.next_turn(0.0) for _ in range(3)] == [[], [], ["next"]]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.integers(0, 100_000)),
            st.floats(0.0, 0.01),  # a turn that comes so late
        ),
        max_size=200,
    )
)
def test_every_request_starts_once_in_its_producers_order(steps: list[object]) -> None:
    turns, offered, started = FairTurns[tuple[str, int]](), [], []
    for number, step in enumerate(steps):
        if isinstance(step, float):
            spent: dict[str, int] = {}
            for producer, at in (begun := turns.next_turn(step)):
                size = dict(offered)[producer, at]
                assert spent.get(producer, 0) < turns.share, "it had its share already"
                spent[producer] = spent.get(producer, 0) + size + REQUEST_BYTES
            started += begun
        else:
            producer, size = step  # type: ignore[misc]  # the other kind of step
            one = (producer, number)
            offered.append((one, size))
            if turns.starts(producer, size, 0.0):
                started.append(one)
            else:
                turns.wait(producer, size, one)
    for _ in range(100_000):
        if not turns.is_turning:
            break
        started += turns.next_turn(0.0)
    assert turns.waiting == 0
    for name in "abc":
        mine = [one for one, _ in offered if one[0] == name]
        assert [one for one in started if one[0] == name] == mine
