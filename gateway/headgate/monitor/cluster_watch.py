"""All groups of one Kafka cluster over time, the logs that they read, and the cluster's health."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from headgate.core.groups import CommittedOffset, Described, GroupMember, Partition, TopicSeen
from headgate.monitor.group_watch import (
    Drift,
    GroupReport,
    GroupWatch,
    Heat,
    Judging,
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
    """See `LagRules` and `Judging`. probation_ms: how long a new group must keep its lag at or
    below
    `probation_lag` records until it counts as one that keeps up."""

    rules: LagRules = LagRules()
    horizon_ms: int = 3_600_000
    probation_ms: int = 86_400_000
    probation_lag: int = 10_000


class ClusterHealth(NamedTuple):
    """Partitions of the whole cluster that are not as they should be."""

    under_replicated: int = 0
    offline: int = 0
    below_min_isr: int = 0


class ClusterWatch:
    """Told what is seen, and when; memory is bounded by the groups and partitions that there are.

    known: probation of groups as it was before a restart. A group that is there at the first poll
    and that nobody remembers counts as admitted: nothing says when it began.
    """

    def __init__(self, options: WatchOptions, known: Mapping[str, Probation]) -> None:
        self.options = options
        self.groups: dict[str, GroupWatch] = {}
        self.logs: dict[Partition, PartitionLog] = {}
        self.health = ClusterHealth()
        self.drifts: deque[Drift] = deque(maxlen=_DRIFTS_KEPT)
        self.regressions: deque[Regression] = deque(maxlen=_REGRESSIONS_KEPT)
        self.counts: dict[tuple[str, str], int] = {}  # regressions by group and topic
        self._topics: dict[str, TopicSeen] = {}
        self._away: dict[str, TopicSeen] = {}  # topics that are not there now, as they were last
        self._known = dict(known)
        self._has_polled = False
        self._doubted: Partition | None = None  # the last one of the last turn
        self._missed: dict[str, int] = {}  # polls in a row that did not find a known group

    def topics_seen(self, topics: Mapping[str, TopicSeen], now_ms: int) -> None:
        """Take the cluster's metadata."""
        for name, topic in topics.items():
            before = self._topics.get(name) or self._away.pop(name, None)
            if before is not None and before.topic_id != topic.topic_id:
                self._recreated(name, before, topic, now_ms)
            elif before is not None and len(before.partitions) != len(topic.partitions):
                counts = (str(len(before.partitions)), str(len(topic.partitions)))
                self.drifts.append(Drift("partitions", name, *counts, now_ms))
        gone = self._topics.keys() - topics.keys()
        self._away |= {name: self._topics[name] for name in gone}
        while len(self._away) > _AWAY_KEPT:
            del self._away[next(iter(self._away))]
        self._topics = dict(topics)
        self.health = _health(topics)
        for place in [each for each in self.logs if each.topic not in topics]:
            del self.logs[place]

    def _recreated(self, topic: str, before: TopicSeen, now: TopicSeen, now_ms: int) -> None:
        ids = (before.topic_id.hex(), now.topic_id.hex())
        self.drifts.append(Drift("recreated", topic, *ids, now_ms))
        for place in [each for each in self.logs if each.topic == topic]:
            del self.logs[place]
        for watch in self.groups.values():
            for place in [each for each in watch.tracks if each.topic == topic]:
                watch.removed(place)

    def logs_seen(self, offsets: Mapping[Partition, tuple[int, int]], now_ms: int) -> None:
        """Take the first offset and the end of partitions."""
        for place, (start, end) in offsets.items():
            topic = self._topics.get(place.topic)
            retention_ms = -1 if topic is None else topic.retention_ms
            log = self.logs.get(place)
            if log is None:
                log = self.logs[place] = PartitionLog(start, end, LogEnds())
            if end < log.end:  # it was cut off: what was read there is not there
                log.empty, log.readable = (0, 0), -1
            log.start, log.end, log.retention_ms = start, end, retention_ms
            log.ends.note(now_ms, end)

    def seeded(self, place: Partition, at_ms: int, end: int) -> None:
        """Take where a log's end was before anybody polled; before its first `logs_seen`, and the
        older before the newer. Timestamps of records need not grow: what does not fit is left out.
        """
        log = self.logs.setdefault(place, PartitionLog(0, end, LogEnds()))
        if end >= log.end:
            log.end = end
            log.ends.note(at_ms, end)

    def groups_seen(
        self, described: Mapping[str, Described | None], now_ms: int, *, is_whole: bool = True
    ) -> None:
        """Take the groups that there are. None: it is there, and nothing is said of it now.

        is_whole: no group is missing but those that are gone. Only after three such polls in a row
        one is forgotten: a coordinator that has just taken over may not know all of its groups.
        """
        missing = self.groups.keys() - described.keys()
        if is_whole:
            self._missed = {name: self._missed.get(name, 0) + 1 for name in missing}
            for name in [each for each, polls in self._missed.items() if polls >= _GONE_POLLS]:
                del self.groups[name], self._missed[name]
        for name, one in described.items():
            watch = self._group(name, now_ms)
            if one is not None:
                watch.is_described(one, now_ms)
        self._has_polled = True

    def members_seen(self, group: str, members: tuple[GroupMember, ...], now_ms: int) -> None:
        """Take who is in a classic group after a rebalance, as the commit stream tells it."""
        watch = self._group(group, now_ms)
        watch.is_described(watch.described._replace(members=members), now_ms)

    def member_is(self, group: str, member: GroupMember, now_ms: int, *, is_gone: bool) -> None:
        """Take what the commit stream tells of one member of a KIP-848 group."""
        watch = self._group(group, now_ms)
        others = tuple(one for one in watch.described.members if one.member_id != member.member_id)
        members = others if is_gone else (*others, member)
        watch.is_described(watch.described._replace(members=members), now_ms)

    def member(self, group: str, member_id: str) -> GroupMember:
        """A member of a group as it is known now."""
        watch = self.groups.get(group)
        known = () if watch is None else watch.described.members
        nobody = GroupMember(member_id, "", "", frozenset())
        return next((one for one in known if one.member_id == member_id), nobody)

    def places_of(self, partitions: Mapping[bytes, tuple[int, ...]]) -> frozenset[Partition]:
        """Partitions by topic id, as places; of topics that are not known yet: none."""
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
        place: Partition,
        stored: CommittedOffset | None,
        at_ms: int,
        seen_ms: int,
    ) -> Regression | None:
        """Take a commit of the commit stream; stored: None when the offset was deleted."""
        if stored is None:
            if group in self.groups:
                self.groups[group].removed(place)
            return None
        fall = self._group(group, seen_ms).committed(place, stored, at_ms, seen_ms)
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
        """Take the committed offsets of groups at one moment; see `GroupWatch.sampled`."""
        falls = []
        for name, offsets in stored.items():
            watch = self._group(name, now_ms)
            falls += watch.sampled(offsets, self.logs, now_ms, infer_commits=infer_commits)
        for fall in falls:
            self._count(fall)
        return falls

    def doubtful(
        self,
        stored: Mapping[str, Mapping[Partition, CommittedOffset]],
        logs: Mapping[Partition, tuple[int, int]],
    ) -> dict[Partition, tuple[int, int]]:
        """Where a small lag may be no record: the offsets between which one is to be looked for.

        Markers of transactions, and what was aborted, take offsets, and who commits behind the last
        record never commits beyond them. Told what a poll has found, before it is taken. At most
        100 partitions at a time, in turn; what was found once is not asked again.
        """
        found: dict[Partition, tuple[int, int]] = {}
        for name, watch in self.groups.items():
            for place, track in watch.tracks.items():
                log, newest = self.logs.get(place), track.window.newest
                if log is None or newest is None or not track.window.is_doubtful:
                    continue
                one, (start, end) = stored.get(name, {}).get(place), logs.get(place, (0, 0))
                begin = log.next_record(max(newest.stored if one is None else one.offset, start))
                if 0 < end - begin <= _MAX_DOUBTFUL and not begin <= log.readable < end:
                    before, _ = found.get(place, (begin, 0))
                    found[place] = (min(begin, before), end)
        turn = [place for place in sorted(found) if self._doubted is None or place > self._doubted]
        turn = (turn + sorted(found))[: min(len(found), _DOUBTS_AT_ONCE)]
        self._doubted = turn[-1] if turn else None
        return {place: found[place] for place in turn}

    def is_read(
        self, spans: Mapping[Partition, tuple[int, int]], found: Mapping[Partition, int]
    ) -> None:
        """Take where the first record of each span is, or the span's end: there is none."""
        for place, record in found.items():
            if place in self.logs:
                self.logs[place].is_read(*spans[place], record)

    def _count(self, fall: Regression) -> None:
        self.regressions.append(fall)
        by = (fall.group, fall.topic)
        self.counts[by] = self.counts.get(by, 0) + 1
        if len(self.counts) > _MAX_COUNTS:
            self.counts = {each: n for each, n in self.counts.items() if each[0] in self.groups}

    def judged(self, now_ms: int, *, has_commit_stream: bool) -> dict[str, GroupReport]:
        """Judge every group, and whether it keeps up."""
        judging = Judging(self.options.horizon_ms, has_commit_stream)
        found = {}
        for name, watch in self.groups.items():
            one = found[name] = report(watch, self.logs, now_ms, judging)
            keeps_up = one.lag <= self.options.probation_lag and one.heat is not Heat.COLD
            keeps_up = keeps_up and one.state in (LagState.OK, LagState.WARN)
            watch.probation = watch.probation.polled(
                now_ms, keeps_up=keeps_up, long_ms=self.options.probation_ms
            )
        return found


def _health(topics: Mapping[str, TopicSeen]) -> ClusterHealth:
    under = offline = below = 0
    for topic in topics.values():
        for partition in topic.partitions:
            under += partition.in_sync < partition.replicas
            offline += partition.leader < 0
            below += partition.in_sync < topic.min_in_sync
    return ClusterHealth(under, offline, below)
