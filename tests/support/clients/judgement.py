"""Judges what senders were told about their events by what is in Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from support.clients.recording import Seen
from support.kafka.kafka_log import LogRecord

# Ends of an attempt behind which the event may be in the log, or land there later.
NOT_KNOWN = {"no answer", "unknown", "idempotency_conflict"}
WRITTEN = {"published", "duplicate"}


class Sent(NamedTuple):
    """An event that a client took."""

    key: str
    event_id: str
    value: bytes


class End(NamedTuple):
    """What a client said of an event."""

    name: str
    partition: int | None = None
    offset: int | None = None
    reason: str = ""


class History(NamedTuple):
    """sent: in the order of each key.  ends: by event id.  attempts: those of an event id."""

    sent: Sequence[Sent]
    ends: Mapping[str, Sequence[End]]
    attempts: Callable[[str], Sequence[Seen]]


def judge(history: History, log: list[LogRecord]) -> None:
    """Fail unless the log has every event where it should be, in order, and not twice."""
    assert lost(history, log) == []
    assert out_of_order(history, log) == []
    assert repeated(history, log) == []


def lost(history: History, log: list[LogRecord]) -> list[Sent]:
    """Events that are not at the place that their end names, or did not end once and well."""
    found = {(one.partition, one.offset): one.value for one in log}
    at: Mapping[tuple[int | None, int | None], bytes | None] = {**found}
    return [
        sent
        for sent in history.sent
        if [
            at.get((one.partition, one.offset)) if one.name in WRITTEN else None
            for one in history.ends.get(sent.event_id, ())
        ]
        != [sent.value]
    ]


def repeated(history: History, log: list[LogRecord]) -> list[Sent]:
    """Events that are in the log twice though each of their attempts had a known end."""
    times = Counter(one.value for one in log)
    return [
        sent
        for sent in history.sent
        if times[sent.value] > 1 and not _is_excused(history.attempts(sent.event_id))
    ]


def _is_excused(attempts: Sequence[Seen]) -> bool:
    """Whether an attempt may have written without anybody knowing it."""
    return len(attempts) > 1 and any(one.end in NOT_KNOWN or one.is_bypassed for one in attempts)


def out_of_order(history: History, log: list[LogRecord]) -> list[str]:
    """Keys of which a newer event is in the log before an older one."""
    first: dict[str, list[bytes]] = {}
    seen: set[bytes] = set()
    for record in sorted(log, key=lambda one: (one.partition, one.offset)):
        assert record.key is not None
        assert record.value is not None
        if record.value not in seen:
            seen.add(record.value)
            first.setdefault(record.key.decode(), []).append(record.value)
    sent: dict[str, list[bytes]] = {}
    for one in history.sent:
        sent.setdefault(one.key, []).append(one.value)
    return [key for key in sent if sent[key] != first.get(key)]


def judge_states(history: History, log: list[LogRecord]) -> None:
    """Fail unless the newest state of each key is the last of it in the log, and what did not get
    there was overtaken by a newer one."""
    assert not_newest(history, log) == []
    assert left_out_wrongly(history, log) == []


def not_newest(history: History, log: list[LogRecord]) -> list[str]:
    """Keys whose last record is not what was sent last."""
    last: dict[str, bytes | None] = {}
    for record in sorted(log, key=lambda one: (one.partition, one.offset)):
        assert record.key is not None
        last[record.key.decode()] = record.value
    sent = {one.key: one.value for one in history.sent}
    return [key for key, value in sent.items() if last.get(key) != value]


def left_out_wrongly(history: History, log: list[LogRecord]) -> list[Sent]:
    """Events that neither are where their end says, nor were overtaken by one that is."""
    at = {(one.partition, one.offset): one.value for one in log}
    wrong: list[Sent] = []
    is_well: dict[str, bool] = {}  # of a key: a newer event is in the log
    for sent in reversed(history.sent):
        ends = history.ends.get(sent.event_id, ())
        names = [one.reason if one.name == "rejected" else one.name for one in ends]
        if len(ends) == 1 and names[0] in {*WRITTEN, "unchanged"}:
            place = (ends[0].partition or 0, -1 if ends[0].offset is None else ends[0].offset)
            if at.get(place) == sent.value:
                is_well[sent.key] = True
                continue
        elif names == ["overtaken"] and is_well.get(sent.key):
            continue
        wrong.append(sent)
    return wrong[::-1]
