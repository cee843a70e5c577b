"""One consumer group over time: owners, commits and regressions, and its report."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headgate.kafka.groups import (
    CommittedOffset,
    Committer,
    Described,
    GroupMember,
    Partition,
    named,
    read_note,
)
from headgate.monitor.rules import (
    SEVERITY,
    LagRules,
    LagSeries,
    LagState,
    LagWindow,
    LogEnds,
    Probation,
    Sample,
)


class SeenCommit(NamedTuple):
    """One commit, at the broker's time in milliseconds since 1970."""

    offset: int
    at_ms: int
    committer: Committer | None


class Assignee(NamedTuple):
    """The owner of a partition.

    Attributes:
        member: The member.
        since_ms: Time of the assignment, in milliseconds since 1970.
        before: The client and member that owned the partition until then.
    """

    member: GroupMember
    since_ms: int
    before: str | None


@dataclass(slots=True)
class Regression:
    """A commit below the one before. The owners are clients and members."""

    group: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    at_ms: int
    committer: Committer | None
    owner: str | None
    owner_before: str | None
    owner_since_ms: int | None
    recovered_ms: int | None = None


class Drift(NamedTuple):
    """A topic that has changed: it was recreated, or its number of partitions differs."""

    what: str
    topic: str
    before: str
    after: str
    at_ms: int


@dataclass(slots=True)
class PartitionLog:
    """One partition's log.

    Attributes:
        retention_ms: Retention in milliseconds; below 0 if it is unlimited or unknown.
        empty: Offsets between which no group can read a record: only markers of transactions and
            aborted records.
        readable: Offset of a record, or -1 if none is known.
    """

    start: int
    end: int
    ends: LogEnds
    retention_ms: int = -1
    empty: tuple[int, int] = (0, 0)
    readable: int = -1

    def next_record(self, offset: int) -> int:
        """Return the offset at which reading from this offset really begins, as far as known."""
        first, last = self.empty
        return last if first <= offset < last else offset

    def note_read(self, start: int, end: int, record: int) -> None:
        """Note the first record from `start` on; a `record` of at least `end` means none."""
        if record < end:
            self.readable = record
        first, last = self.empty
        if record > start and record >= last:
            self.empty = (first if first <= start <= last else start, record)


Logs = Mapping[Partition, PartitionLog]


_COMMITS_KEPT = 8  # per partition, for its page


class Track:
    """The state of one partition of a group.

    Attributes:
        furthest: The highest commit.
    """

    __slots__ = ("commits", "furthest", "never_committed", "open_falls", "window")

    def __init__(self, rules: LagRules) -> None:
        self.window = LagWindow(rules)
        self.commits: deque[SeenCommit] = deque(maxlen=_COMMITS_KEPT)
        self.furthest: SeenCommit | None = None
        self.never_committed: int | None = None  # the log's end at the first poll without a commit
        self.open_falls: list[Regression] = []  # regressions without a recovery


class GroupWatch:
    """State of one group. All times are milliseconds since 1970."""

    def __init__(self, name: str, rules: LagRules, probation: Probation) -> None:
        self.name = name
        self.rules = rules
        self.probation = probation
        self.described = Described("", "Unknown")
        self.tracks: dict[Partition, Track] = {}
        self.owners: dict[Partition, Assignee] = {}
        self.regressions = 0
        self.lags = LagSeries()
        self._owned_last: dict[Partition, str] = {}

    def update_members(self, described: Described, now_ms: int) -> None:
        """Update the members and their partitions.

        What is known of a member's subscription stays if the description lacks it.
        """
        known = {member.member_id: member for member in self.described.members}
        members = tuple(
            member._replace(
                subscribed=before.subscribed if member.subscribed is None else member.subscribed,
                reads_pauses=before.reads_pauses
                if member.reads_pauses is None
                else member.reads_pauses,
            )
            if (before := known.get(member.member_id)) is not None
            else member
            for member in described.members
        )
        described = described._replace(members=members)
        owners: dict[Partition, Assignee] = {}
        for member in described.members:
            for partition in member.assigned:
                owners[partition] = self._owner(partition, member, now_ms)
        for partition, owner in self.owners.items():
            if partition not in owners:
                self._owned_last[partition] = named(owner.member)
        seen = self.tracks.keys() | owners.keys()
        self._owned_last = {
            each: client for each, client in self._owned_last.items() if each in seen
        }
        self.owners, self.described = owners, described

    def is_unread(self, partition: Partition) -> bool:
        """Return whether the group has members and none of them subscribes to the topic."""
        members = self.described.members
        return (
            bool(members)
            and partition not in self.owners
            and all(
                member.subscribed is not None and partition.topic not in member.subscribed
                for member in members
            )
        )

    def _owner(self, partition: Partition, member: GroupMember, now_ms: int) -> Assignee:
        had = self.owners.get(partition)
        if had is None:
            before = self._owned_last.get(partition)
            return Assignee(member, now_ms, None if before == named(member) else before)
        if had.member.member_id == member.member_id:
            return had._replace(member=member)
        return Assignee(member, now_ms, named(had.member))

    def committed(
        self, partition: Partition, stored: CommittedOffset, at_ms: int, seen_ms: int
    ) -> Regression | None:
        """Apply one commit of the commit stream, in order; `at_ms` is the broker's time."""
        track = self._track(partition)
        note = read_note(stored.metadata)
        seen = SeenCommit(stored.offset, at_ms, None if note is None else note.committer)
        change = track.window.committed(stored.offset, seen_ms)
        track.commits.append(seen)
        if track.furthest is None or seen.offset >= track.furthest.offset:
            track.furthest = seen
        if change.recovered:
            for fall in track.open_falls:
                fall.recovered_ms = at_ms
            track.open_falls.clear()
        if change.fell_from is None:
            return None
        fall = self._fall(partition, change.fell_from, seen)
        if len(track.open_falls) < _COMMITS_KEPT:
            track.open_falls.append(fall)
        self.regressions += 1
        return fall

    def _fall(self, partition: Partition, fell_from: int, seen: SeenCommit) -> Regression:
        owner = self.owners.get(partition)
        return Regression(
            self.name,
            partition.topic,
            partition.partition,
            fell_from,
            seen.offset,
            seen.at_ms,
            seen.committer,
            None if owner is None else named(owner.member),
            self._owned_last.get(partition) if owner is None else owner.before,
            None if owner is None else owner.since_ms,
        )

    def removed(self, partition: Partition) -> None:
        """Forget a partition whose committed offset was deleted: no regression follows from it."""
        self.tracks.pop(partition, None)

    def sampled(
        self,
        stored: Mapping[Partition, CommittedOffset],
        logs: Logs,
        now_ms: int,
        *,
        infer_commits: bool,
    ) -> list[Regression]:
        """Apply all committed offsets of the group at one moment.

        Args:
            stored: The committed offsets.
            logs: The logs.
            now_ms: Milliseconds since 1970.
            infer_commits: Whether a changed offset counts as a commit, because no commit stream
                reports it.
        """
        falls = []
        gone = self.tracks.keys() - stored.keys() - self.owners.keys()
        for partition in gone:
            del self.tracks[partition]
        for partition, committed_offset in stored.items():
            if infer_commits and self._is_news(partition, committed_offset.offset):
                fall = self.committed(partition, committed_offset, now_ms, now_ms)
                if fall is not None:
                    falls.append(fall)
            self._sample(partition, committed_offset.offset, logs, now_ms)
        for partition in self.owners:
            if partition not in stored:
                self._sample(partition, None, logs, now_ms)
        return falls

    def _is_news(self, partition: Partition, offset: int) -> bool:
        track = self.tracks.get(partition)
        return track is None or not track.commits or track.commits[-1].offset != offset

    def _sample(self, partition: Partition, offset: int | None, logs: Logs, now_ms: int) -> None:
        """Sample a partition; without a commit, only records since the first such poll are lag."""
        log = logs.get(partition)
        if log is None:
            return
        track = self._track(partition)
        if offset is not None:
            track.never_committed = None
        else:
            if track.never_committed is None:
                track.never_committed = log.end
            offset = track.never_committed
        begin = log.next_record(max(offset, log.start))
        track.window.sampled(Sample(now_ms, begin, log.end, offset))

    def _track(self, partition: Partition) -> Track:
        track = self.tracks.get(partition)
        if track is None:
            track = self.tracks[partition] = Track(self.rules)
        return track


# ---- reports: state, lag, heat and oddities of a group at one moment

_OWNER_CHANGED_MS = 600_000  # longest time from a change of owner to a regression that it caused


class Heat(StrEnum):
    """The location of the records that a group reads next: page cache, soon evicted, or disk."""

    HOT = "hot"
    COOLING = "cooling"
    COLD = "cold"
    UNKNOWN = "unknown"


class PartitionReport(NamedTuple):
    """One partition of a group.

    Attributes:
        pace: The state without regard to regressions.
        committed: The group's offset, also below the log's start or beyond its end; None if there
            was no commit yet.
        beyond_end: Number of records by which the offset is beyond the log's end.
        lag: External lag: end - committed, clamped to the log's start.
        internal_lag: The same from the highest offset that the partition's owner has reported as
            done; None without reports.
        is_stuck: Whether the commit is stuck.
        lost: Records that retention deleted before they were committed.
        age_ms: Age of the next record, in milliseconds.
        clear_ms: Time until the lag is gone, in milliseconds; None if never.
        loss_ms: Time until retention deletes unread records, in milliseconds; None if never.
        is_unread: Whether the group has members and none subscribes to the topic: then the offsets
            are leftovers, and the lag counts for no member.
    """

    partition: Partition
    state: LagState
    pace: LagState
    committed: int | None
    beyond_end: int
    start: int
    end: int
    lag: int
    internal_lag: int | None
    is_stuck: bool
    lost: int
    heat: Heat
    age_ms: int
    clear_ms: int | None
    loss_ms: int | None
    owner: Assignee | None
    commits: tuple[SeenCommit, ...]
    is_unread: bool = False


class GroupReport(NamedTuple):
    """A group, with the state of its worst and the heat of its coldest partition.

    Attributes:
        lag: Lag of all partitions.
        unread_topics: Topics that no member subscribes to any more; all else here ignores them.
    """

    state: LagState
    lag: int
    heat: Heat
    age_ms: int
    loss_ms: int | None
    is_stuck: bool
    idle_members: int
    partitions: tuple[PartitionReport, ...]
    unread_topics: tuple[str, ...] = ()


def report(
    watch: GroupWatch, logs: Logs, now_ms: int, horizon_ms: int, *, has_commit_stream: bool
) -> GroupReport:
    """Judge a group by its current state.

    Args:
        watch: The group.
        logs: The logs that it reads.
        now_ms: Milliseconds since 1970.
        horizon_ms: Age up to which records are in the brokers' page cache, in milliseconds.
        has_commit_stream: Whether every commit is seen, not only samples.
    """
    every = tuple(sorted(_partitions(watch, logs, now_ms, horizon_ms, has_commit_stream)))
    counted = [partition for partition in every if not partition.is_unread]
    heats = [Heat.UNKNOWN, Heat.HOT, Heat.COOLING, Heat.COLD]
    losses = [partition.loss_ms for partition in counted if partition.loss_ms is not None]
    return GroupReport(
        max(
            (partition.state for partition in counted),
            key=SEVERITY.__getitem__,
            default=LagState.OK,
        ),
        sum(report.lag for report in counted),
        max((report.heat for report in counted), key=heats.index, default=Heat.HOT),
        max((report.age_ms for report in counted), default=0),
        min(losses, default=None),
        any(report.is_stuck for report in counted),
        sum(not member.assigned for member in watch.described.members),
        every,
        tuple(sorted({report.partition.topic for report in every if report.is_unread})),
    )


def _partitions(
    watch: GroupWatch, logs: Logs, now_ms: int, horizon_ms: int, has_commit_stream: bool
) -> Iterator[PartitionReport]:
    for partition, track in watch.tracks.items():
        log = logs.get(partition)
        newest = track.window.newest
        if log is None or newest is None:
            continue
        owner = watch.owners.get(partition)
        lives = owner is not None and not has_commit_stream
        # Judged at the last sample: a silent coordinator is not a silent group.
        state = track.window.state(newest.at_ms, lives=lives)
        pace = track.window.pace(newest.at_ms, lives=lives)
        committed = None if track.never_committed is not None else newest.stored
        internal = _internal_lag(track, owner, log, newest.end)
        age_ms, heat = _age(log, newest.committed, newest.lag, now_ms, horizon_ms)
        clear_ms = track.window.clear_ms()
        loss_ms = _loss_ms(log, newest.lag, age_ms, clear_ms)
        is_unread = watch.is_unread(partition)
        if is_unread:
            state, pace, heat, age_ms, loss_ms = LagState.OK, LagState.OK, Heat.HOT, 0, None
        yield PartitionReport(
            partition,
            state,
            pace,
            committed,
            max(0, newest.stored - newest.end),
            log.start,
            newest.end,
            newest.lag,
            internal,
            state is LagState.REWIND and is_stuck(track, log, newest.end, watch.rules.allowed_lag),
            _lost(track, log),
            heat,
            age_ms,
            clear_ms,
            loss_ms,
            owner,
            tuple(track.commits),
            is_unread,
        )


def _internal_lag(track: Track, owner: Assignee | None, log: PartitionLog, end: int) -> int | None:
    """Return the lag from the highest commit that the owner has signed."""
    furthest = track.furthest
    if owner is None or furthest is None or furthest.committer is None:
        return None
    if furthest.committer.member != owner.member.member_id:
        return None
    return max(0, end - log.next_record(furthest.offset))


def is_stuck(track: Track, log: PartitionLog, end: int, allowed_lag: int) -> bool:
    """Return whether a commit fell below finished work after the partition changed hands.

    Then no member commits until a new record arrives: the group lags without knowing it.
    """
    fell_from = track.window.fell_from
    if fell_from is None or end - log.next_record(fell_from) > allowed_lag:
        return False
    return any(fall.owner is not None and _changed_hands(fall) for fall in track.open_falls)


def _changed_hands(fall: Regression) -> bool:
    if fall.owner_before is None or fall.owner_since_ms is None:
        return False
    return fall.at_ms - fall.owner_since_ms <= _OWNER_CHANGED_MS


def _lost(track: Track, log: PartitionLog) -> int:
    newest = track.commits[-1] if track.commits else None
    return max(0, log.start - newest.offset) if newest is not None else 0


def _age(
    log: PartitionLog, committed: int, lag: int, now_ms: int, horizon_ms: int
) -> tuple[int, Heat]:
    """Return the minimum age of the next record, in milliseconds, and its heat."""
    if lag == 0:
        return 0, Heat.HOT
    written_ms = log.ends.written_ms(committed)
    first_ms = log.ends.first_ms()
    known_ms = written_ms if written_ms is not None else first_ms
    age_ms = 0 if known_ms is None else max(0, now_ms - known_ms)
    if age_ms >= horizon_ms:
        return age_ms, Heat.COLD
    if written_ms is None:
        return age_ms, Heat.UNKNOWN
    return age_ms, Heat.COOLING if age_ms >= horizon_ms // 2 else Heat.HOT


def _loss_ms(log: PartitionLog, lag: int, age_ms: int, clear_ms: int | None) -> int | None:
    """Return the time until retention deletes the next record; None if the group clears before."""
    if lag == 0 or log.retention_ms < 0:
        return None
    remaining_ms = max(0, log.retention_ms - age_ms)
    return None if clear_ms is not None and clear_ms <= remaining_ms else remaining_ms
