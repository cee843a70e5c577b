"""Who reads without a group: bytes that leave the brokers and that no group's progress explains.

A consumer that assigns partitions and never commits is in no list that Kafka has. Its reads are in
the brokers' own figures: bytes out by topic, without replication. What the groups have moved in the
same time, at the topic's bytes a record, explains some of them; the rest has another reader.

A member that owns a partition and has not committed there yet may read any amount of it: one of a
new group that catches up, say. As long as there is one, nothing is said of its topic: it has a
group, and the group's page says that its work cannot be seen.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.core.groups import Described, Offsets

_LINE = re.compile(
    r"^kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)_total"
    r"\{(?:[^}]*,)?\s*topic=\"([^\"]+)\"[^}]*\}\s+([0-9.eE+]+)",
    re.MULTILINE,
)
_SLACK = 1.5  # of what groups explain: fetched again after a rebalance, read before it is committed
_POLLS = 6  # a window; shorter ones would take what is not committed yet for somebody else's


class TopicTotals(NamedTuple):
    """A topic on one broker since the broker's start."""

    bytes_in: float = 0
    bytes_out: float = 0
    records_in: float = 0


Totals = Mapping[str, TopicTotals]


def read_totals(text: str) -> dict[str, TopicTotals]:
    """Read an exporter's page, in the names that the JMX exporter's example for Kafka gives."""
    fields = {"bytesin": "bytes_in", "bytesout": "bytes_out", "messagesin": "records_in"}
    found: dict[str, TopicTotals] = {}
    for name, topic, value in _LINE.findall(text):
        known = found.get(topic, TopicTotals())
        found[topic] = known._replace(**{fields[name]: float(value)})
    return found


class Rogue(NamedTuple):
    """Reads of a topic that nobody who is known has made. Bytes a second, over the window."""

    topic: str
    bytes_per_s: float
    unexplained_per_s: float
    since_ms: int


class _Span(NamedTuple):
    seconds: float
    out: float
    explained: float


class RogueReaders:
    """One cluster's. limit_per_s: bytes a second of a topic that may go unexplained.

    is_mirrored: a mirror reads every record once and has no group either.
    """

    def __init__(self, limit_per_s: float, *, is_mirrored: bool) -> None:
        self._limit_per_s = limit_per_s
        self._is_mirrored = is_mirrored
        self._brokers: dict[str, Totals] = {}
        self._offsets: Mapping[str, Offsets] = {}
        self._silent: frozenset[str] = frozenset()
        self._at_ms: int | None = None
        self._spans: dict[str, deque[_Span]] = {}
        self._since_ms: dict[str, int] = {}
        self.unexplained: dict[str, float] = {}  # bytes a second by topic, over whole windows

    def polled(
        self,
        now_ms: int,
        brokers: Mapping[str, Totals],
        offsets: Mapping[str, Offsets],
        groups: Mapping[str, Described | None],
    ) -> None:
        """Take what every broker has counted, what every group has committed, and who is in it."""
        before_ms, self._at_ms = self._at_ms, now_ms
        moved, self._offsets = _moved(self._offsets, offsets), offsets
        before, self._silent = self._silent, _silent(groups, offsets)
        silent = before | self._silent  # the first commit does not say where reading began
        grown = _grown(self._brokers, brokers)
        self._brokers = dict(brokers)
        if before_ms is None or now_ms <= before_ms:
            return
        seconds = (now_ms - before_ms) / 1000
        totals = _sum(brokers.values())
        self._spans = {topic: spans for topic, spans in self._spans.items() if topic in totals}
        for topic in totals:
            if not topic.startswith("__"):
                explained = self._explained(grown, totals[topic], moved.get(topic, 0), topic)
                out = grown.get(topic, TopicTotals()).bytes_out
                span = _Span(seconds, out, max(out, explained) if topic in silent else explained)
                self._spans.setdefault(topic, deque(maxlen=_POLLS)).append(span)
        self._judge(now_ms)

    def _explained(self, grown: Totals, total: TopicTotals, moved: int, topic: str) -> float:
        now = grown.get(topic, TopicTotals())
        mirrored = now.bytes_in if self._is_mirrored else 0.0
        if not total.records_in:  # nothing written since the broker's start: a record's size is
            return now.bytes_out if moved else mirrored  # not known
        return moved * total.bytes_in / total.records_in + mirrored

    def _judge(self, now_ms: int) -> None:
        self.unexplained = {}
        for topic, spans in self._spans.items():
            if len(spans) == _POLLS:
                rest = sum(span.out for span in spans) - _SLACK * sum(
                    span.explained for span in spans
                )
                self.unexplained[topic] = max(0.0, rest) / sum(span.seconds for span in spans)
        rogue = {topic for topic, rate in self.unexplained.items() if rate > self._limit_per_s}
        self._since_ms = {topic: self._since_ms.get(topic, now_ms) for topic in rogue}

    def rogues(self) -> list[Rogue]:
        """Topics with a reader that is not known, the most read one first."""
        found = []
        for topic, since_ms in self._since_ms.items():
            spans = self._spans[topic]
            rate = sum(span.out for span in spans) / sum(span.seconds for span in spans)
            found.append(Rogue(topic, rate, self.unexplained[topic], since_ms))
        return sorted(found, key=lambda one: -one.unexplained_per_s)


def _silent(
    groups: Mapping[str, Described | None], offsets: Mapping[str, Offsets]
) -> frozenset[str]:
    """Topics of which a member of a group owns a partition that the group never committed."""
    return frozenset(
        place.topic
        for name, group in groups.items()
        for member in (() if group is None else group.members)
        for place in member.places
        if place not in offsets.get(name, {})
    )


def _moved(before: Mapping[str, Offsets], now: Mapping[str, Offsets]) -> dict[str, int]:
    """Records that the groups have moved past, by topic."""
    moved: dict[str, int] = {}
    for group, offsets in now.items():
        had = before.get(group)
        if had is None:
            continue
        for place, stored in offsets.items():
            old = had.get(place)
            if old is not None and stored.offset > old.offset:
                moved[place.topic] = moved.get(place.topic, 0) + stored.offset - old.offset
    return moved


def _grown(before: Mapping[str, Totals], now: Mapping[str, Totals]) -> dict[str, TopicTotals]:
    """By how much the brokers' counters grew; one that was reset counts from its start."""
    grown: dict[str, TopicTotals] = {}
    for broker, totals in now.items():
        if broker not in before:
            continue
        for topic, total in totals.items():
            old = before[broker].get(topic, TopicTotals())
            if total.bytes_out < old.bytes_out or total.bytes_in < old.bytes_in:
                old = TopicTotals()
            change = TopicTotals(*(new - was for new, was in zip(total, old, strict=True)))
            grown[topic] = _plus(grown.get(topic, TopicTotals()), change)
    return grown


def _sum(every: Iterable[Totals]) -> dict[str, TopicTotals]:
    found: dict[str, TopicTotals] = {}
    for totals in every:
        for topic, total in totals.items():
            found[topic] = _plus(found.get(topic, TopicTotals()), total)
    return found


def _plus(one: TopicTotals, other: TopicTotals) -> TopicTotals:
    return TopicTotals(*(left + right for left, right in zip(one, other, strict=True)))
