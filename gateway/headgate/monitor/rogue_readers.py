"""Detection of readers without a group, by bytes out that no group's progress explains.

Kafka lists no group for a consumer that assigns partitions and never commits. The brokers' own
metrics count its reads: bytes out by topic, without replication. The groups' progress in the same
time, multiplied by the topic's bytes per record, explains a part of them. Another reader causes the
rest.

A member that owns a partition without a commit may read any amount of it, for example in a new
group that catches up. While such a member exists, its topic gets no verdict: the group's page shows
that its work cannot be seen.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.kafka.groups import Described, Offsets

_LINE = re.compile(
    r"^kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)_total"
    r"\{(?:[^}]*,)?\s*topic=\"([^\"]+)\"[^}]*\}\s+([0-9.eE+]+)",
    re.MULTILINE,
)
_SLACK = 1.5  # factor for fetches repeated after a rebalance, and reads not yet committed
_POLLS = 6  # length of a window; a shorter one would count reads not yet committed as rogue


class TopicTotals(NamedTuple):
    """Counters of a topic on one broker since the broker's start."""

    bytes_in: float = 0
    bytes_out: float = 0
    records_in: float = 0


Totals = Mapping[str, TopicTotals]


def read_totals(text: str) -> dict[str, TopicTotals]:
    """Read an exporter's page, with the names of the JMX exporter's example for Kafka."""
    fields = {"bytesin": "bytes_in", "bytesout": "bytes_out", "messagesin": "records_in"}
    totals: dict[str, TopicTotals] = {}
    for name, topic, value in _LINE.findall(text):
        total = totals.get(topic, TopicTotals())
        totals[topic] = total._replace(**{fields[name]: float(value)})
    return totals


class Rogue(NamedTuple):
    """Reads of a topic by an unknown reader, in bytes per second over the window."""

    topic: str
    bytes_per_s: float
    unexplained_per_s: float
    since_ms: int


class _Span(NamedTuple):
    seconds: float
    out: float
    explained: float


class RogueReaders:
    """Detection of unknown readers on one cluster.

    Args:
        limit_per_s: Unexplained bytes per second that a topic may have.
        is_mirrored: Whether a mirror, which has no group, reads every record once.
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
        self.unexplained: dict[str, float] = {}  # bytes per second by topic, over complete windows

    def polled(
        self,
        now_ms: int,
        brokers: Mapping[str, Totals],
        offsets: Mapping[str, Offsets],
        groups: Mapping[str, Described | None],
    ) -> None:
        """Apply the counters of every broker, and the commits and members of every group."""
        before_ms, self._at_ms = self._at_ms, now_ms
        moved, self._offsets = _moved(self._offsets, offsets), offsets
        before, self._silent = self._silent, _silent(groups, offsets)
        silent = before | self._silent  # the first commit does not show where reading began
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
        if not total.records_in:  # no writes since the broker's start: record size unknown
            return now.bytes_out if moved else mirrored
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
        """Return the topics with unknown readers, the largest rate first."""
        readers = []
        for topic, since_ms in self._since_ms.items():
            spans = self._spans[topic]
            rate = sum(span.out for span in spans) / sum(span.seconds for span in spans)
            readers.append(Rogue(topic, rate, self.unexplained[topic], since_ms))
        return sorted(readers, key=lambda reader: -reader.unexplained_per_s)


def _silent(
    groups: Mapping[str, Described | None], offsets: Mapping[str, Offsets]
) -> frozenset[str]:
    """Return the topics in which a member owns a partition without a commit."""
    return frozenset(
        partition.topic
        for name, group in groups.items()
        for member in (() if group is None else group.members)
        for partition in member.assigned
        if partition not in offsets.get(name, {})
    )


def _moved(before: Mapping[str, Offsets], now: Mapping[str, Offsets]) -> dict[str, int]:
    """Return the number of records that the groups have passed, by topic."""
    moved: dict[str, int] = {}
    for group, offsets in now.items():
        had = before.get(group)
        if had is None:
            continue
        for partition, stored in offsets.items():
            old = had.get(partition)
            if old is not None and stored.offset > old.offset:
                moved[partition.topic] = moved.get(partition.topic, 0) + stored.offset - old.offset
    return moved


def _grown(before: Mapping[str, Totals], now: Mapping[str, Totals]) -> dict[str, TopicTotals]:
    """Return the increase of the brokers' counters; a reset one counts from its start."""
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
    sums: dict[str, TopicTotals] = {}
    for totals in every:
        for topic, total in totals.items():
            sums[topic] = _plus(sums.get(topic, TopicTotals()), total)
    return sums


def _plus(total: TopicTotals, other: TopicTotals) -> TopicTotals:
    return TopicTotals(*(own + added for own, added in zip(total, other, strict=True)))
