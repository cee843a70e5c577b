"""All groups of one Kafka cluster over time, the logs that they read, and the cluster's health."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from headgate.kafka.groups import CommittedOffset, Described, GroupMember, Partition, TopicSeen
from headgate.monitor.group_watch import (
    Drift,
    GroupReport,
    GroupWatch,
    Heat,
    PartitionLog,
    Regression,
    report,
)
from headgate.monitor.rules import LagRules, LagState, LogEnds, Probation

_REGRESSIONS_KEPT = 1_000
_DRIFTS_KEPT = 100
_AWAY_KEPT = 10_000
_GONE_POLLS = 3
_MAX_DOUBTFUL, _DOUBTS_AT_ONCE = 1_000, 100
_MAX_COUNTS = 10_000  # names of groups may be made up for each start of a consumer


class WatchOptions(NamedTuple):
    """Options of a watch. See `LagRules`.

    Attributes:
        rules: Rules of lag.
        horizon_ms: Age up to which records are in the brokers' page cache, in milliseconds.
        probation_ms: Time for which a new group must keep its lag low to be admitted, in
            milliseconds.
        probation_lag: Highest lag, in records, that counts as low.
    """

    rules: LagRules = LagRules()
    horizon_ms: int = 3_600_000
    probation_ms: int = 86_400_000
    probation_lag: int = 10_000


class ClusterHealth(NamedTuple):
    """Numbers of unhealthy partitions of the whole cluster."""

    under_replicated: int = 0
    offline: int = 0
    below_min_isr: int = 0


class ClusterWatch:
    """State of a cluster's groups; memory is bounded by the existing groups and partitions.

    Args:
        options: The options.
        probations: Probation of groups before a restart. Other groups at the first poll count as
            admitted, because their start is unknown.
    """

    def __init__(self, options: WatchOptions, probations: Mapping[str, Probation]) -> None:
        self.options = options
        self.groups: dict[str, GroupWatch] = {}
        self.logs: dict[Partition, PartitionLog] = {}
        self.health = ClusterHealth()
        self.drifts: deque[Drift] = deque(maxlen=_DRIFTS_KEPT)
        self.regressions: deque[Regression] = deque(maxlen=_REGRESSIONS_KEPT)
        self.counts: dict[tuple[str, str], int] = {}  # regressions by group and topic
        self._topics: dict[str, TopicSeen] = {}
        self._away: dict[str, TopicSeen] = {}  # last state of topics that are missing now
        self._known = dict(probations)
        self._has_polled = False
        self._doubted: Partition | None = None  # the last partition of the last turn
        self._missed: dict[str, int] = {}  # polls in a row that did not find a known group

    def topics_seen(self, topics: Mapping[str, TopicSeen], now_ms: int) -> None:
        """Update the cluster's metadata."""
        for name, topic in topics.items():
            before = self._topics.get(name) or self._away.pop(name, None)
            if before is not None and before.topic_id != topic.topic_id:
                self._recreated(name, before, topic, now_ms)
            elif before is not None and len(before.partitions) != len(topic.partitions):
                old, new = str(len(before.partitions)), str(len(topic.partitions))
                self.drifts.append(Drift("partitions", name, old, new, now_ms))
        gone = self._topics.keys() - topics.keys()
        self._away |= {name: self._topics[name] for name in gone}
        while len(self._away) > _AWAY_KEPT:
            del self._away[next(iter(self._away))]
        self._topics = dict(topics)
        self.health = _health(topics)
        for partition in [each for each in self.logs if each.topic not in topics]:
            del self.logs[partition]

    def _recreated(self, topic: str, before: TopicSeen, now: TopicSeen, now_ms: int) -> None:
        self.drifts.append(
            Drift("recreated", topic, before.topic_id.hex(), now.topic_id.hex(), now_ms)
        )
        for partition in [each for each in self.logs if each.topic == topic]:
            del self.logs[partition]
        for watch in self.groups.values():
            for partition in [each for each in watch.tracks if each.topic == topic]:
                watch.removed(partition)

    def logs_seen(self, offsets: Mapping[Partition, tuple[int, int]], now_ms: int) -> None:
        """Update the first offset and the end of partitions."""
        for partition, (start, end) in offsets.items():
            topic = self._topics.get(partition.topic)
            retention_ms = -1 if topic is None else topic.retention_ms
            log = self.logs.get(partition)
            if log is None:
                log = self.logs[partition] = PartitionLog(start, end, LogEnds())
            if end < log.end:  # the log was truncated: positions in it are void
                log.empty, log.readable = (0, 0), -1
            log.start, log.end, log.retention_ms = start, end, retention_ms
            log.ends.note(now_ms, end)

    def seeded(self, partition: Partition, at_ms: int, end: int) -> None:
        """Add a past end of a log, before its first `logs_seen` and in the order of time.

        Timestamps of records need not grow; an end below the previous one is skipped.
        """
        log = self.logs.setdefault(partition, PartitionLog(0, end, LogEnds()))
        if end >= log.end:
            log.end = end
            log.ends.note(at_ms, end)

    def groups_seen(
        self, described: Mapping[str, Described | None], now_ms: int, *, is_whole: bool = True
    ) -> None:
        """Update the existing groups.

        A group is forgotten only after three complete polls in a row without it: a new coordinator
        may not know all of its groups yet.

        Args:
            described: Groups by name; None for a group without a description in this poll.
            now_ms: Milliseconds since 1970.
            is_whole: Whether the poll is complete, so that a missing group is gone.
        """
        missing = self.groups.keys() - described.keys()
        if is_whole:
            self._missed = {name: self._missed.get(name, 0) + 1 for name in missing}
            for name in [each for each, polls in self._missed.items() if polls >= _GONE_POLLS]:
                del self.groups[name], self._missed[name]
        for name, group in described.items():
            watch = self._group(name, now_ms)
            if group is not None:
                watch.update_members(group, now_ms)
        self._has_polled = True

    def members_seen(self, group: str, members: tuple[GroupMember, ...], now_ms: int) -> None:
        """Update the members of a classic group after a rebalance, from the commit stream."""
        watch = self._group(group, now_ms)
        watch.update_members(watch.described._replace(members=members), now_ms)

    def apply_member(self, group: str, member: GroupMember, now_ms: int, *, is_gone: bool) -> None:
        """Update one member of a KIP-848 group from the commit stream."""
        watch = self._group(group, now_ms)
        others = tuple(
            other for other in watch.described.members if other.member_id != member.member_id
        )
        members = others if is_gone else (*others, member)
        watch.update_members(watch.described._replace(members=members), now_ms)

    def member(self, group: str, member_id: str) -> GroupMember:
        """Return a member of a group in its current state."""
        watch = self.groups.get(group)
        members = () if watch is None else watch.described.members
        unknown = GroupMember(member_id, "", "", frozenset())
        return next((each for each in members if each.member_id == member_id), unknown)

    def partitions_of(self, partitions: Mapping[bytes, tuple[int, ...]]) -> frozenset[Partition]:
        """Return the partitions of known topics, from partition numbers by topic id."""
        names = {topic.topic_id: name for name, topic in self._topics.items()}
        return frozenset(
            Partition(names[topic_id], number)
            for topic_id, numbers in partitions.items()
            if topic_id in names
            for number in numbers
        )

    def _group(self, name: str, now_ms: int) -> GroupWatch:
        watch = self.groups.get(name)
        if watch is None:
            admitted_ms = None if self._has_polled or self._known else now_ms
            fresh = Probation(now_ms, None, admitted_ms)
            probation = self._known.get(name, fresh)
            watch = self.groups[name] = GroupWatch(name, self.options.rules, probation)
        return watch

    def committed(
        self,
        group: str,
        partition: Partition,
        stored: CommittedOffset | None,
        at_ms: int,
        seen_ms: int,
    ) -> Regression | None:
        """Apply a commit of the commit stream; return the regression, if it is one.

        Args:
            group: Name of the group.
            partition: The partition.
            stored: The committed offset; None if it was deleted.
            at_ms: The broker's time, in milliseconds since 1970.
            seen_ms: Time of reading, in milliseconds since 1970.
        """
        if stored is None:
            if group in self.groups:
                self.groups[group].removed(partition)
            return None
        fall = self._group(group, seen_ms).committed(partition, stored, at_ms, seen_ms)
        if fall is not None:
            self._count(fall)
        return fall

    def sampled(
        self,
        stored: Mapping[str, Mapping[Partition, CommittedOffset]],
        now_ms: int,
        *,
        infer_commits: bool,
    ) -> list[Regression]:
        """Apply the committed offsets of groups at one moment; see `GroupWatch.sampled`."""
        falls = []
        for name, offsets in stored.items():
            watch = self._group(name, now_ms)
            falls += watch.sampled(offsets, self.logs, now_ms, infer_commits=infer_commits)
        for fall in falls:
            self._count(fall)
        return falls

    def next_doubtful(
        self,
        stored: Mapping[str, Mapping[Partition, CommittedOffset]],
        logs: Mapping[Partition, tuple[int, int]],
    ) -> dict[Partition, tuple[int, int]]:
        """Return spans of offsets to search for a record, because a small lag may contain none.

        Markers of transactions and aborted records take offsets, and a group at the last record
        never commits beyond them. The arguments are the result of a poll, before it is applied. One
        call returns at most 100 partitions, in turn. A record that was found once is not searched
        again.
        """
        spans: dict[Partition, tuple[int, int]] = {}
        for name, watch in self.groups.items():
            for partition, track in watch.tracks.items():
                log, newest = self.logs.get(partition), track.window.newest
                if log is None or newest is None or not track.window.is_doubtful:
                    continue
                committed, (start, end) = (
                    stored.get(name, {}).get(partition),
                    logs.get(partition, (0, 0)),
                )
                begin = log.next_record(
                    max(newest.stored if committed is None else committed.offset, start)
                )
                if 0 < end - begin <= _MAX_DOUBTFUL and not begin <= log.readable < end:
                    before, _ = spans.get(partition, (begin, 0))
                    spans[partition] = (min(begin, before), end)
        turn = [
            partition
            for partition in sorted(spans)
            if self._doubted is None or partition > self._doubted
        ]
        turn = (turn + sorted(spans))[: min(len(spans), _DOUBTS_AT_ONCE)]
        self._doubted = turn[-1] if turn else None
        return {partition: spans[partition] for partition in turn}

    def note_read(
        self, spans: Mapping[Partition, tuple[int, int]], first_records: Mapping[Partition, int]
    ) -> None:
        """Apply the offset of the first record in each span, or the span's end if there is none."""
        for partition, record in first_records.items():
            if partition in self.logs:
                self.logs[partition].note_read(*spans[partition], record)

    def _count(self, fall: Regression) -> None:
        self.regressions.append(fall)
        by = (fall.group, fall.topic)
        self.counts[by] = self.counts.get(by, 0) + 1
        if len(self.counts) > _MAX_COUNTS:
            self.counts = {each: n for each, n in self.counts.items() if each[0] in self.groups}

    def judged(self, now_ms: int, *, has_commit_stream: bool) -> dict[str, GroupReport]:
        """Judge every group, and update its probation."""
        horizon_ms = self.options.horizon_ms
        reports = {}
        for name, watch in self.groups.items():
            group_report = reports[name] = report(
                watch, self.logs, now_ms, horizon_ms, has_commit_stream=has_commit_stream
            )
            watch.lags.note(now_ms, group_report.lag)
            keeps_up = (
                group_report.lag <= self.options.probation_lag
                and group_report.heat is not Heat.COLD
            )
            keeps_up = keeps_up and group_report.state in (LagState.OK, LagState.WARN)
            watch.probation = watch.probation.polled(
                now_ms, keeps_up=keeps_up, long_ms=self.options.probation_ms
            )
        return reports


def _health(topics: Mapping[str, TopicSeen]) -> ClusterHealth:
    under = offline = below = 0
    for topic in topics.values():
        for partition in topic.partitions:
            under += partition.in_sync < partition.replicas
            offline += partition.leader < 0
            below += partition.in_sync < topic.min_in_sync
    return ClusterHealth(under, offline, below)
