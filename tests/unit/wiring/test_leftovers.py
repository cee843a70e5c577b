"""When a worker gives freed memory back."""

from headgate.wiring.leftovers import Leftovers

MIB = 2**20


def looks(leftovers: Leftovers, count: int, resident: int, in_flight: int) -> list[bool]:
    return [leftovers.are_worth_it(resident * MIB, in_flight * MIB) for _ in range(count)]


def test_memory_is_given_back_once_a_backlog_is_gone_for_some_looks() -> None:
    leftovers = Leftovers(80 * MIB)
    assert not any(looks(leftovers, 20, 300, 64))
    assert looks(leftovers, 5, 300, 1) == [False] * 4 + [True]


def test_a_load_with_short_pauses_keeps_its_memory() -> None:
    leftovers = Leftovers(80 * MIB)
    for _ in range(5):
        assert not any(looks(leftovers, 4, 200, 0))
        assert not any(looks(leftovers, 1, 200, 60))


def test_little_memory_is_kept() -> None:
    assert not any(looks(Leftovers(80 * MIB), 20, 95, 0))


def test_what_cannot_be_given_back_is_not_tried_again() -> None:
    leftovers = Leftovers(80 * MIB)
    assert looks(leftovers, 5, 300, 0)[-1]
    leftovers.given_back(160 * MIB)
    assert not any(looks(leftovers, 20, 160, 0))
    assert looks(leftovers, 5, 180, 0)[-1]


def test_growth_counts_from_the_least_that_was_seen() -> None:
    leftovers = Leftovers(200 * MIB)
    assert not any(looks(leftovers, 5, 100, 0))
    assert looks(leftovers, 5, 120, 0)[-1]
