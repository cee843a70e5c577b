"""What two topics say of a key, compared."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from headgate.commands.side_by_side import Finding, Side, Window, findings, judged, keyless_only

WINDOW = Window(1_000, 9_000, 100)
WHOLE = Window(None, 9_000, 0)


def side(contents: Sequence[str], window: Window = WHOLE, partition: int = 0) -> Side:
    made = Side(window)
    for number, content in enumerate(contents):
        value = None if content == "-" else content.encode()
        made.see(b"k", value, 1, partition, 2_000 + number)
    return made


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("ABA", "ABA", Finding.SAME),
        ("AABBBA", "ABA", Finding.FEWER_REPEATS),
        ("A", "AAA", Finding.FEWER_REPEATS),
        ("ABCD", "AD", Finding.FEWER_STATES),
        ("AD", "AABCD", Finding.MORE_STATES),
        ("AB", "BA", Finding.OTHER_ORDER),
        ("ABCD", "BACD", Finding.OTHER_ORDER),
        ("ABC", "ABD", Finding.OTHER_END),
        ("ABC", "AB", Finding.OTHER_END),
        ("AB-", "AB", Finding.OTHER_END),
        ("ABD", "ACD", Finding.OTHER_STATES),
        ("A", "", Finding.ONLY_FIRST),
        ("", "AB", Finding.ONLY_SECOND),
    ],
)
def test_histories_of_one_key_give_one_finding(one: str, other: str, found: Finding) -> None:
    assert [*findings(side(one), side(other), has_before=False)] == [found]


def test_the_empty_content_is_no_tombstone() -> None:
    assert [*findings(side([""]), side("-"), has_before=False)] == [Finding.OTHER_END]


def test_what_one_topic_has_alone_may_repeat_what_was_before() -> None:
    assert [*findings(side("AA"), side(""), has_before=True)] == [Finding.MAYBE_BEFORE]
    assert [*findings(side("AB"), side(""), has_before=True)] == [Finding.ONLY_FIRST]


@pytest.mark.parametrize("at_ms", [1_050, 8_950])
def test_at_an_end_of_the_time_no_difference_is_certain(at_ms: int) -> None:
    one, other = side("AB", WINDOW), side("AB", WINDOW)
    one.see(b"k", b"C", 1, 0, at_ms)
    assert [*findings(one, other, has_before=False)] == [Finding.EDGE]
    other.see(b"k", b"C", 1, 0, 5_000)
    assert [*findings(one, other, has_before=False)] == [Finding.SAME]


def test_a_key_in_several_partitions_has_no_order() -> None:
    other = side("A")
    other.see(b"k", b"B", 1, 1, 5_000)
    other.see(b"k", b"C", 1, 1, 5_000)
    found = findings(side("ABC"), other, has_before=False)
    assert [*found] == [Finding.SPLIT]
    assert found[Finding.SPLIT].examples == (b"k",)


def test_a_record_that_refers_to_its_value_is_not_compared() -> None:
    other = side("A")
    other.refers(b"k")
    assert [*findings(side("B"), other, has_before=False)] == [Finding.REFERENCE]


def test_records_without_a_key_are_counted() -> None:
    one, other = Side(WHOLE), Side(WHOLE)
    for content in (b"A", b"A", b"B"):
        one.see(None, content, 1, 0, 5)
    for content in (b"B", b"C"):
        other.see(None, content, 1, 0, 5)
    assert keyless_only(one, other) == (2, 1)


def test_all_that_consumers_need_is_in_what_suppresses_and_coalesces() -> None:
    """Whoever leaves out repeats and states before the last differs in nothing; a lost end, a
    swapped pair and a foreign content are seen."""
    dice = random.Random(7)
    for _ in range(2_000):
        states = [dice.choice("ABCDE") for _ in range(dice.randint(1, 12))]
        kept = [one for one in states[:-1] if dice.random() < 0.6] + states[-1:]
        kept = [one for at, one in enumerate(kept) if at == 0 or kept[at - 1] != one]
        one, other = side(states).keys[b"k"], side(kept).keys[b"k"]
        assert not judged(one, other, has_before=False).is_difference
        foreign = [*kept, "X"]
        dice.shuffle(foreign)
        assert judged(one, side(foreign).keys[b"k"], has_before=False).is_difference


def test_the_window() -> None:
    assert [WINDOW.has(at) for at in (999, 1_000, 8_999, 9_000)] == [False, True, True, False]
    assert WHOLE.has(0)
    assert not WHOLE.is_edge(0)
