"""What clients were told, what the log holds, and whether the two can both be right.

An `unchanged` answer to event e with content X is wrong for certain if no X-record may have been
the last word of its key: that is, if above every X-record that can have been there when e was
answered lies a record of other content whose client had been told `published` before e was sent.
(S2 of the suppression model. Times are the client's, so what it calls wrong is wrong.)

A topic that grows moves keys to other partitions. Of two records in different partitions one is
the newer for certain if it was sent after a client had been told of the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from support.kafka.kafka_log import LogRecord

NEVER = float("inf")


@dataclass(slots=True)
class Attempt:
    """One event sent by one client. sent, told: monotonic seconds; outcome None = no answer."""

    event_id: str
    key: str
    content: str
    sent: float
    told: float = NEVER
    outcome: str | None = None
    offset: int = -1
    partition: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class _Line(NamedTuple):
    """A record of one key. told: when the first client was told of it as `published`."""

    partition: int
    offset: int
    content: str
    sent: float
    told: float


class _Certain:
    """Records of one key and partition that clients were told of, whose content is another one.

    told: sorted; with each the highest offset and the latest time of sending of those up to it.
    """

    def __init__(self, lines: Iterable[_Line]) -> None:
        known = sorted((line.told, line.offset, line.sent) for line in lines)
        self.told = [told for told, _, _ in known]
        self.offsets = list(accumulate((offset for _, offset, _ in known), max))
        self.sent = list(accumulate((sent for _, _, sent in known), max))

    def before(self, moment: float) -> tuple[int, float] | None:
        """The highest offset and the latest sending of those told before a moment."""
        count = bisect_left(self.told, moment)
        return (self.offsets[count - 1], self.sent[count - 1]) if count else None


class _Content:
    """What speaks for and against the answer that a key has this content."""

    def __init__(self, lines: Iterable[_Line], content: str) -> None:
        others: dict[int, list[_Line]] = defaultdict(list)
        self._mine = []
        for line in lines:
            if line.content == content:
                self._mine.append(line)
            elif line.told < NEVER:
                others[line.partition].append(line)
        self._mine.sort(key=lambda line: line.sent)
        self._sent = [line.sent for line in self._mine]
        self._others = {number: _Certain(those) for number, those in others.items()}

    def may_be_right(self, attempt: Attempt) -> bool:
        against = {
            partition: found
            for partition, those in self._others.items()
            if (found := those.before(attempt.sent)) is not None
        }
        there = bisect_left(self._sent, attempt.told)
        return any(_may_be_newest(self._mine[at], against) for at in reversed(range(there)))


def _may_be_newest(line: _Line, against: dict[int, tuple[int, float]]) -> bool:
    for partition, (offset, sent) in against.items():
        if offset > line.offset if partition == line.partition else sent > line.told:
            return False
    return True


def wrong_answers(attempts: Sequence[Attempt], log: Iterable[LogRecord]) -> list[Attempt]:
    """Return the attempts whose `unchanged` cannot be right."""
    by_id = {attempt.event_id: attempt for attempt in attempts}
    told: dict[tuple[str, tuple[int, int]], float] = {}
    for one in attempts:  # several, where events followed an equal one
        if one.outcome == "published":
            name = (one.key, one.place)
            told[name] = min(one.told, told.get(name, one.told))
    lines: dict[str, list[_Line]] = defaultdict(list)
    for record in log:
        writer = by_id[(record.header("hg-event-id") or b"").decode()]
        known = told.get((writer.key, (record.partition, record.offset)), NEVER)
        line = _Line(record.partition, record.offset, writer.content, writer.sent, known)
        lines[writer.key].append(line)
    contents: dict[tuple[str, str], _Content] = {}
    wrong = []
    for one in attempts:
        if one.outcome == "unchanged":
            name_of = (one.key, one.content)
            if name_of not in contents:
                contents[name_of] = _Content(lines[one.key], one.content)
            if not contents[name_of].may_be_right(one):
                wrong.append(one)
    return wrong


def lost_events(attempts: Iterable[Attempt], log: Iterable[LogRecord]) -> list[Attempt]:
    """Return the attempts told `published` at a place where the log has not their key and value.

    A key rule may have put something behind the key, after a colon.
    """
    values = {
        (_key(record), (record.partition, record.offset)): record.value or b"" for record in log
    }
    return [
        one
        for one in attempts
        if one.outcome == "published"
        and f'"{one.content}"'.encode() not in values.get((one.key, one.place), b"")
    ]


def _key(record: LogRecord) -> str:
    return (record.key or b"").decode().partition(":")[0]


def savings(attempts: Iterable[Attempt], since: float) -> tuple[int, int]:
    """Return how many events of sequential writers were saved, and how many could have been.

    One could have been saved if its client's event right before it, of the same key and content,
    was answered `published` or `unchanged`. Only pairs that began after `since` count.
    """
    before: dict[str, Attempt] = {}
    saved = possible = 0
    for attempt in attempts:
        last = before.get(attempt.key)
        before[attempt.key] = attempt
        if last is None or last.sent < since or last.content != attempt.content:
            continue
        if last.outcome in ("published", "unchanged"):
            possible += 1
            saved += attempt.outcome == "unchanged"
    return saved, possible
