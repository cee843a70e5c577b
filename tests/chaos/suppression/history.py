"""What clients were told, what the log holds, and whether the two can both be right.

An `unchanged` answer to event e with content X is wrong for certain if no X-record may have been
the last word of its key: that is, if above every X-record that can have been there when e was
answered lies a record of other content whose client had been told `published` before e was sent.
(S2 of the suppression model. Times are the client's, so what it calls wrong is wrong.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_log import LogRecord


@dataclass(slots=True)
class Attempt:
    """One event sent by one client. sent, told: monotonic seconds; outcome None = no answer."""

    event_id: str
    key: str
    content: str
    sent: float
    told: float = float("inf")
    outcome: str | None = None
    offset: int = -1


class _Line(NamedTuple):
    """A record of one key. told: when the first client was told of it as `published`."""

    offset: int
    content: str
    sent: float
    told: float


def wrong_answers(attempts: Sequence[Attempt], log: Iterable[LogRecord]) -> list[Attempt]:
    """Return the attempts whose `unchanged` cannot be right."""
    by_id = {attempt.event_id: attempt for attempt in attempts}
    told: dict[tuple[str, int], float] = {}
    for one in attempts:  # several, where events followed an equal one
        if one.outcome == "published":
            place = (one.key, one.offset)
            told[place] = min(one.told, told.get(place, one.told))
    lines: dict[str, list[_Line]] = defaultdict(list)
    for record in log:
        writer = by_id[(record.header("hg-event-id") or b"").decode()]
        known = told.get((writer.key, record.offset), float("inf"))
        lines[writer.key].append(_Line(record.offset, writer.content, writer.sent, known))
    return [
        attempt
        for attempt in attempts
        if attempt.outcome == "unchanged" and not _may_be_right(attempt, lines[attempt.key])
    ]


def _may_be_right(attempt: Attempt, lines: list[_Line]) -> bool:
    certain = [
        line.offset
        for line in lines
        if line.content != attempt.content and line.told < attempt.sent
    ]
    floor = max(certain, default=-1)
    return any(
        line.offset > floor and line.content == attempt.content and line.sent < attempt.told
        for line in lines
    )


def lost_events(attempts: Iterable[Attempt], log: Iterable[LogRecord]) -> list[Attempt]:
    """Return the attempts told `published` at a place where the log has not their key and value."""
    values = {((record.key or b"").decode(), record.offset): record.value or b"" for record in log}
    return [
        one
        for one in attempts
        if one.outcome == "published"
        and f'"{one.content}"'.encode() not in values.get((one.key, one.offset), b"")
    ]


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
