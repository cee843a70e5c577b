"""Fair shares of the event loop: no producer waits for more than a share of another's work."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.http.events import (
    COMPANY_S,
    LATE_S,
    MAX_SHARE,
    MIN_SHARE,
    REQUEST_BYTES,
    FairShares,
)

Shares = FairShares[str]
SIZE = 500
COST = SIZE + REQUEST_BYTES


def started_at_once(shares: Shares, producer: str, requests: int, now_s: float = 0.0) -> int:
    """Offer so many in one round; how many start. The others wait."""
    started = 0
    for number in range(requests):
        if shares.try_start(producer, SIZE, now_s):
            started += 1
        else:
            shares.wait(producer, SIZE, f"{producer} {number}")
    return started


def test_who_is_alone_starts_everything() -> None:
    shares = Shares()
    assert started_at_once(shares, "flood", 10_000, 0.0) == 10_000
    assert not shares.needs_round, "nothing is counted, so no round has to be told"


def test_in_company_a_flood_starts_a_share_a_round_and_the_others_all() -> None:
    shares = Shares()
    assert started_at_once(shares, "rest", 1) == 1
    share = -(-MAX_SHARE // COST)
    assert started_at_once(shares, "flood", 1000) == share
    assert shares.waiting == 1000 - share
    assert started_at_once(shares, "rest", 3) == 3
    assert shares.is_pressed(0.0)
    assert not shares.is_pressed(COMPANY_S)


def test_what_waits_starts_in_order_and_before_what_comes_later() -> None:
    shares = Shares()
    started_at_once(shares, "rest", 1)
    begun = started_at_once(shares, "flood", 1000)
    assert not shares.try_start("flood", SIZE, 0.0)
    shares.wait("flood", SIZE, "flood 1000")
    numbers = []
    while shares.waiting:
        numbers += [int(one.removeprefix("flood ")) for one in shares.begin_round(0.0)]
    assert numbers == [*range(begun, 1000), 1000]


def test_once_alone_again_a_producer_is_not_held_back() -> None:
    shares = Shares()
    started_at_once(shares, "rest", 1)
    begun = started_at_once(shares, "flood", 1000)
    assert shares.needs_round, "it is not idle for a moment in between"
    assert started_at_once(shares, "flood", 1000, COMPANY_S) == 1000
    late = 0
    while shares.needs_round:
        late += len(shares.begin_round(0.0))
    assert late == 1000 - begun
    assert not shares.waiting


def test_late_rounds_make_the_share_smaller_and_timely_ones_larger() -> None:
    shares = Shares()
    for _ in range(100):
        shares.begin_round(2 * LATE_S)
    assert shares.share == MIN_SHARE
    for _ in range(100):
        shares.begin_round(0.0)
    assert shares.share == MAX_SHARE


def test_what_is_larger_than_a_share_is_paid_by_the_begin_rounds() -> None:
    shares = Shares()
    started_at_once(shares, "rest", 1)
    assert shares.try_start("flood", 3 * MAX_SHARE, 0.0)
    shares.wait("flood", SIZE, "next")
    assert [shares.begin_round(0.0) for _ in range(3)] == [[], [], ["next"]]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.integers(0, 100_000)),
            st.floats(0.0, 0.01),  # a round that comes so late
        ),
        max_size=200,
    )
)
def test_every_request_starts_once_in_its_producers_order(steps: list[object]) -> None:
    shares, offered, started = FairShares[tuple[str, int]](), [], []
    for number, step in enumerate(steps):
        if isinstance(step, float):
            spent: dict[str, int] = {}
            for producer, at in (begun := shares.begin_round(step)):
                size = dict(offered)[producer, at]
                assert spent.get(producer, 0) < shares.share, "it had its share already"
                spent[producer] = spent.get(producer, 0) + size + REQUEST_BYTES
            started += begun
        else:
            producer, size = step  # type: ignore[misc]  # the other kind of step
            one = (producer, number)
            offered.append((one, size))
            if shares.try_start(producer, size, 0.0):
                started.append(one)
            else:
                shares.wait(producer, size, one)
    for _ in range(100_000):
        if not shares.needs_round:
            break
        started += shares.begin_round(0.0)
    assert shares.waiting == 0
    for name in "abc":
        mine = [one for one, _ in offered if one[0] == name]
        assert [one for one in started if one[0] == name] == mine
