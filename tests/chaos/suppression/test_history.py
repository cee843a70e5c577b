"""The checker itself: it must see a wrong answer, and must not cry wolf."""

from chaos.suppression.history import Attempt, lost_events, savings, wrong_answers
from support.kafka.kafka_log import LogRecord


def attempt(
    number: int, content: str, sent: float, told: float, outcome: str, offset: int = -1
) -> Attempt:
    return Attempt(str(number), "k", content, sent, told, outcome, offset)


def log(*numbers: int) -> list[LogRecord]:
    values = [b'"B"' if number == 2 else b'"A"' for number in numbers]
    return [
        LogRecord(0, offset, b"k", value, [("hg-event-id", str(number).encode())], 0)
        for offset, (number, value) in enumerate(zip(numbers, values, strict=True))
    ]


A1, B2 = attempt(1, "A", 0, 1, "published", 0), attempt(2, "B", 2, 3, "published", 1)


def test_other_content_told_before_is_wrong() -> None:
    late = attempt(3, "A", 4, 5, "unchanged")
    assert wrong_answers([A1, B2, late], log(1, 2)) == [late]
    swapped = [attempt(1, "A", 0, 1, "published", 1), attempt(2, "B", 2, 3, "published", 0), late]
    assert wrong_answers(swapped, log(2, 1)) == []


def test_a_follower_of_other_content_counts_like_its_leader() -> None:
    leader = attempt(2, "B", 2, 9, "unknown")
    follower = attempt(5, "B", 2, 3, "published", 1)
    late = attempt(3, "A", 4, 5, "unchanged")
    assert wrong_answers([A1, leader, follower, late], log(1, 2)) == [late]


def test_other_content_told_while_it_was_asked_is_no_proof() -> None:
    racing = attempt(3, "A", 2.5, 5, "unchanged")
    assert wrong_answers([A1, B2, racing], log(1, 2)) == []


def test_other_content_nobody_was_told_of_is_no_proof() -> None:
    unknown = attempt(2, "B", 2, 3, "unknown")
    late = attempt(3, "A", 4, 5, "unchanged")
    assert wrong_answers([A1, unknown, late], log(1, 2)) == []


def test_an_equal_record_sent_after_the_answer_does_not_excuse_it() -> None:
    late = attempt(3, "A", 4, 5, "unchanged")
    after = attempt(4, "A", 6, 7, "published")
    assert wrong_answers([A1, B2, late, after], log(1, 2, 4)) == [late]
    between = attempt(4, "A", 4.5, 7, "unknown")
    assert wrong_answers([A1, B2, late, between], log(1, 2, 4)) == []


def test_unchanged_without_any_record_is_wrong() -> None:
    only = attempt(1, "A", 0, 1, "unchanged")
    assert wrong_answers([only], []) == [only]


def test_lost_events() -> None:
    assert lost_events([A1, B2], log(1)) == [B2]
    assert lost_events([A1, B2], log(1, 2)) == []
    elsewhere = attempt(2, "B", 2, 3, "published", 0)
    assert lost_events([A1, elsewhere], log(1, 2)) == [elsewhere]


def test_savings() -> None:
    events = [
        attempt(1, "A", 0, 0, "published"),
        attempt(2, "A", 1, 1, "published"),  # possible, not saved
        attempt(3, "A", 2, 2, "unchanged"),  # saved
        attempt(4, "B", 3, 3, "published"),
        attempt(5, "B", 4, 4, "unknown"),  # possible, not saved
        attempt(6, "B", 5, 5, "published"),  # the one before has no good end
    ]
    assert savings(events, since=0) == (1, 3)
    assert savings(events, since=3) == (0, 1)
