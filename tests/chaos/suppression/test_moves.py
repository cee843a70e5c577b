"""The checker of growing topics: it must see each kind of fault, and must not cry wolf."""

from chaos.suppression.history import Attempt, wrong_answers
from chaos.suppression.moves import back_moves, disorder, stale_keys, wrong_unchanged
from support.kafka.kafka_log import LogRecord

# Event n is sent at 10 n and answered at 10 n + 1.


def event(number: int, content: str, outcome: str | None, partition: int, offset: int) -> Attempt:
    sent = 10.0 * number
    return Attempt(str(number), "k", content, sent, sent + 1, outcome, offset, partition)


def record(number: int, partition: int, offset: int) -> LogRecord:
    return LogRecord(partition, offset, b"k", b"", [("hg-event-id", b"%d" % number)], 0)


A0, B1 = event(0, "A", "published", 0, 0), event(1, "B", "published", 0, 1)
MOVED_B1 = event(1, "B", "published", 1, 0)


def test_an_answer_by_the_former_partition_is_wrong() -> None:
    late = event(2, "A", "unchanged", 0, 0)
    log = [record(0, 0, 0), record(1, 1, 0)]
    assert wrong_answers([A0, MOVED_B1, late], log) == [late]
    assert len(list(wrong_unchanged([A0, MOVED_B1, late], log))) == 1


def test_an_answer_by_the_newest_record_is_right_whatever_its_partition() -> None:
    back = event(2, "A", "published", 0, 1)
    again = event(3, "A", "unchanged", 0, 1)
    log = [record(0, 0, 0), record(1, 1, 0), record(2, 0, 1)]
    assert wrong_answers([A0, MOVED_B1, back, again], log) == []
    assert not list(wrong_unchanged([A0, MOVED_B1, back, again], log))


def test_records_sent_at_the_same_time_to_two_partitions_prove_nothing() -> None:
    racing = Attempt("1", "k", "B", 0.5, 5, "published", 0, 1)
    late = event(2, "A", "unchanged", 0, 0)
    assert wrong_answers([A0, racing, late], [record(0, 0, 0), record(1, 1, 0)]) == []


def test_an_answer_that_names_no_record_or_one_of_other_content_is_wrong() -> None:
    log = [record(0, 0, 0), record(1, 0, 1)]
    for place in ((0, 0), (0, 7)):
        wrong = event(2, "B", "unchanged", *place)
        assert len(list(wrong_unchanged([A0, B1, wrong], log))) == 1


def test_a_record_nobody_was_told_of_counts_where_it_lies() -> None:
    lost = event(1, "B", None, 0, -1)
    unchanged = event(2, "A", "unchanged", 0, 0)
    above, below = [record(0, 0, 0), record(1, 0, 1)], [record(0, 0, 0)]
    assert len(list(wrong_unchanged([A0, lost, unchanged], above))) == 1
    assert not list(wrong_unchanged([A0, lost, unchanged], below))


def test_stale_keys() -> None:
    unchanged = event(2, "A", "unchanged", 0, 0)
    log = [record(0, 0, 0), record(1, 1, 0)]
    assert len(list(stale_keys([A0, MOVED_B1, unchanged], log))) == 1
    assert not list(stale_keys([A0, MOVED_B1], log))
    assert len(list(stale_keys([A0], []))) == 1
    swapped = [record(1, 0, 0), record(0, 0, 1)]
    assert len(list(stale_keys([A0, B1], swapped))) == 1
    lost = event(2, "C", None, 0, -1)
    assert not list(stale_keys([A0, B1, lost], [record(0, 0, 0), record(1, 0, 1), record(2, 0, 2)]))


def place(_key: bytes, count: int) -> int:
    return {2: 1, 4: 3, 8: 3, 16: 11}[count]


def went(*partitions: int) -> list[str]:
    sent = [event(n, "A", "published", one, n) for n, one in enumerate(partitions)]
    return list(back_moves(sent, (2, 4, 8, 16), place))


def test_moves() -> None:
    assert went(1, 1, 3, 3, 11, 11) == []
    assert went(1, 11) == []  # nothing was written between two growths
    assert went(1, 3, 1) == ["k: its way is [1, 3, 3, 11], it went [1, 3, 1]"]
    assert went(1, 3, 11, 3, 11) != []
    assert went(1, 2) != []


def test_disorder() -> None:
    log = [record(0, 0, 0), record(1, 0, 1)]
    assert list(disorder([A0, B1], log)) == []
    elsewhere, twice = [log[0], record(1, 1, 0)], [*log, record(1, 0, 2)]
    assert len(list(disorder([A0, B1], elsewhere))) == 1
    assert len(list(disorder([A0, B1], twice))) == 1
    assert len(list(disorder([A0, B1], log[:1]))) == 1
    one, two = event(0, "A", "published", 0, 1), event(1, "B", "published", 0, 0)
    assert len(list(disorder([one, two], [record(0, 0, 1), record(1, 0, 0)]))) == 1
