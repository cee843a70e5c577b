"""What clients were told, what H and O hold, and whether all of that can be right.

H = the held topic, O = the topic (docs/design/coalescing-protocol.md), both read by an independent
client, read_committed. H is the order that counts: an event that was not answered may still be in
it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from headgate.coalescer.windows import HeldEvent, read_held
from support.kafka.kafka_log import LogRecord

SLACK_MS = 1000  # how far an owner may be behind in reading H on a busy machine


@dataclass(slots=True)
class Sent:
    """One event of a sequential client. outcome: None = no answer."""

    event_id: str
    key: str
    value: bytes
    outcome: str | None = None


class Clocks(NamedTuple):
    """The topic's windows."""

    quiet_ms: int
    max_delay_ms: int


class Line(NamedTuple):
    """An event in H."""

    event_id: str
    offset: int
    value: bytes
    arrived_ms: int
    forced: bool


class Histories:
    """sent: in the order in which each key's client sent.  held, topic: the logs."""

    def __init__(
        self, sent: Sequence[Sent], held: Iterable[LogRecord], topic: Iterable[LogRecord]
    ) -> None:
        self.sent = sent
        self.held: dict[str, list[Line]] = defaultdict(list)
        self.topic: dict[str, list[LogRecord]] = defaultdict(list)
        for record in held:
            line = _line(record)
            if line is not None:
                self.held[(record.key or b"").decode()].append(line)
        for record in topic:
            self.topic[(record.key or b"").decode()].append(record)

    def violations(self) -> list[str]:
        """Return what can not be right, in words."""
        found = self._answers()
        for key, lines in self.held.items():
            found += _of_key(key, lines, self.topic.get(key, []))
        found += [f"{key}: in O, and never held" for key in self.topic.keys() - self.held.keys()]
        return found

    def early(self, clocks: Clocks) -> Counter[str]:
        """By key: how many records no clock accounts for. A fault may cut each window once."""
        return Counter(
            {
                key: sum(_is_early(lines, *pair, clocks) for pair in self._windows(key))
                for key, lines in self.held.items()
            }
        )

    def _answers(self) -> list[str]:
        """What was answered `held` is in H, once, and in the order in which it was sent."""
        places = {line.event_id: line.offset for lines in self.held.values() for line in lines}
        held = [one for one in self.sent if one.outcome == "held"]
        found = [f"{one.key}: {one.event_id} was answered, and is not in H" for one in held
                 if one.event_id not in places]  # fmt: skip
        counts = Counter(line.event_id for lines in self.held.values() for line in lines)
        found += [f"{event_id} is {count} times in H" for event_id, count in counts.items()
                  if count > 1]  # fmt: skip
        by_key: dict[str, list[Sent]] = defaultdict(list)
        for one in held:
            if one.event_id in places:
                by_key[one.key].append(one)
        for key, answered in by_key.items():
            found += [
                f"{key}: {later.event_id} was sent after the answer to {earlier.event_id}, and is "
                "before it in H"
                for earlier, later in pairwise(answered)
                if places[later.event_id] < places[earlier.event_id]
            ]
        return found

    def _windows(self, key: str) -> list[tuple[int, int]]:
        """(last event of the record before, last event of this one), as indexes of H's lines."""
        numbers = {line.event_id: number for number, line in enumerate(self.held[key])}
        ends = [numbers.get(_event_id(record), -1) for record in self.topic.get(key, [])]
        return list(pairwise([-1, *ends]))


def _of_key(key: str, lines: Sequence[Line], records: Sequence[LogRecord]) -> list[str]:
    found = []
    by_id: Mapping[str, Line] = {line.event_id: line for line in lines}
    offsets = []
    for record in records:
        line = by_id.get(_event_id(record))
        if line is None or line.value != record.value:
            found.append(f"{key}: O has {record.value!r} at {record.offset}, which H never had")
        else:
            offsets.append(line.offset)
    found += [
        f"{key}: O has the event of H {later} {'again' if later == earlier else 'after'}"
        f" that of {earlier}"
        for earlier, later in pairwise(offsets)
        if later <= earlier
    ]
    last = records[-1].value if records else None
    if lines[-1].value != last:
        found.append(f"{key}: H ends with {lines[-1]}, O with {last!r}")
    forced = max((line.offset for line in lines if line.forced), default=-1)
    if forced > max(offsets, default=-1):
        found.append(f"{key}: the forced event of H {forced} has no record")
    return found


def _is_early(lines: Sequence[Line], before: int, end: int, clocks: Clocks) -> bool:
    """Whether a record was written although the key's next event was there in time."""
    window = lines[before + 1 : end + 1]
    if not window or end + 1 == len(lines) or any(line.forced for line in window):
        return False
    due_ms = min(
        window[-1].arrived_ms + clocks.quiet_ms, window[0].arrived_ms + clocks.max_delay_ms
    )
    return lines[end + 1].arrived_ms < due_ms - SLACK_MS


def _line(record: LogRecord) -> Line | None:
    headers = [(name, value or b"") for name, value in record.headers]
    held = read_held(record.offset, record.key, record.value, record.timestamp_ms, headers)
    if not isinstance(held, HeldEvent):
        return None
    return Line(_event_id(record), held.offset, held.value or b"", held.arrived_ms, held.is_forced)


def _event_id(record: LogRecord) -> str:
    return (record.header("hg-event-id") or b"").decode()
