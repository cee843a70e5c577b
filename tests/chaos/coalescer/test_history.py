"""The checker itself: it must see what is wrong, and must not cry wolf."""

from __future__ import annotations

from chaos.coalescer.history import Clocks, Histories, Sent
from headgate.coalescer.windows import DoneMark, mark_headers
from headgate.model.record import EVENT_ID, FORCED, PRODUCER, RECEIVED_AT
from support.kafka.kafka_log import LogRecord

CLOCKS = Clocks(1500, 4000)


def sent(*names: str, outcome: str | None = "held") -> list[Sent]:
    return [Sent(name, "k", name[0].encode(), outcome) for name in names]


def log(*names: str, step_ms: int = 10) -> list[LogRecord]:
    """Records of H or O; the first letter is the content, an ! at the end is force."""
    found = []
    for offset, name in enumerate(names):
        headers: list[tuple[str, bytes | None]] = [
            (EVENT_ID, name.rstrip("!").encode()),
            (PRODUCER, b"p"),
            (RECEIVED_AT, b"%d" % (step_ms * offset)),
        ]
        headers += [(FORCED, b"1")] if name.endswith("!") else []
        found.append(LogRecord(0, offset, b"k", name[0].encode(), headers, 0))
    return found


def broken(told: list[Sent], held: list[LogRecord], topic: list[LogRecord]) -> str:
    return "\n".join(Histories(told, held, topic).violations())


def test_a_window_with_its_last_event_in_the_topic_is_right() -> None:
    assert not broken(sent("A1", "B2"), log("A1", "B2"), log("B2"))


def test_an_unchanged_end_is_right_and_another_content_is_not() -> None:
    told, held = sent("A1", "B2", "A3"), log("A1", "B2", "A3")
    assert not broken(told, held, log("A1"))
    assert "H ends with" in broken(told, held, log("A1", "B2"))
    assert "H ends with" in broken(told, held, [])


def test_an_older_event_after_a_newer_one_is_seen() -> None:
    told, held = sent("A1", "B2", "A3"), log("A1", "B2", "A3")
    assert "O has the event of H 0 after that of 1" in broken(told, held, log("B2", "A1"))
    assert "again" in broken(told, held, log("A3", "A3"))


def test_an_answered_event_that_is_not_held_is_seen_and_an_unanswered_one_is_not() -> None:
    assert "is not in H" in broken(sent("A1", "B2"), log("A1"), log("A1"))
    assert not broken(sent("A1") + sent("B2", outcome=None), log("A1"), log("A1"))
    assert not broken(sent("A1") + sent("B2", outcome=None), log("A1", "B2"), log("A1", "B2"))


def test_the_order_of_answers_is_the_order_of_the_held_topic() -> None:
    assert "is before it in H" in broken(sent("A1", "B2"), log("B2", "A1"), log("A1"))


def test_an_event_that_is_held_twice_is_seen() -> None:
    assert "2 times in H" in broken(sent("A1"), log("A1", "A1"), log("A1"))


def test_a_forced_event_needs_a_record() -> None:
    told, held = sent("A1", "A2"), log("A1", "A2!")
    assert "has no record" in broken(told, held, log("A1"))
    assert not broken(told, held, log("A1", "A2"))


def test_a_record_that_was_never_held_is_seen() -> None:
    assert "which H never had" in broken(sent("A1"), log("A1"), log("A9", "A1"))
    assert "never held" in broken([], [], log("A9"))


def test_a_done_mark_is_no_event() -> None:
    mark = LogRecord(0, 9, b"k", b"", list(mark_headers(DoneMark(b"k", 0, "00"))), 0)
    assert not broken(sent("A1"), [*log("A1"), mark], log("A1"))


def early(held: list[LogRecord], topic: list[LogRecord]) -> int:
    return Histories([], held, topic).early(CLOCKS)["k"]


def test_records_that_no_clock_accounts_for_are_counted() -> None:
    names = [f"A{number}" for number in range(30)]
    dense = log(*names, step_ms=100)
    assert early(dense, log("A29")) == 0
    assert early(dense, log("A9", "A19", "A29")) == 2
    assert early(log(*names, step_ms=600), log("A9", "A19", "A29")) == 0  # the longest delay
    assert early(log("A0", "A1", step_ms=1600), log("A0", "A1")) == 0  # quiet
    assert early(log("A0", "A1!", "A2"), log("A1", "A2")) == 0  # forced
