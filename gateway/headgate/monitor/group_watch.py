"""One consumer group over time: owners, commits and regressions, and its report."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headgate.core.groups import (
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
    LagState,
    LagWindow,
    LogEnds,
    Probation,
    Sample,
)


class SeenCommit(NamedTuple):
    """One commit. at_ms: the broker's time, since 1970."""

    offset: int
    at_ms: int
    committer: Committer | None


class Assignee(NamedTuple):
    """Whose partition it is.  before: the client and member that had it until `since_ms`."""

    member: GroupMember
    since_ms: int
    before: str | None


@dataclass(slots=True)
class Regression:
    """A commit that was lower than the one before. owner, owner_before: clients and members."""

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
    """A topic that is not what it was. what: recreated, or partitions (their count changed)."""

    what: str
    topic: str
    before: str
    after: str
    at_ms: int


@dataclass(slots=True)
class PartitionLog:
    """One partition's log. retention_ms: below 0 = kept for ever, or not known.

    empty: from the first offset to the second there is no record that a group could read: markers
    of transactions, and what was aborted.  readable: the offset of a record, -1 = none is known.
    """

    start: int
    end: int
    ends: LogEnds
    retention_ms: int = -1
    empty: tuple[int, int] = (0, 0)
    readable: int = -1

    def next_record(self, offset: int) -> int:
        """Where reading from this offset really begins, as far as is known."""
        first, last = self.empty
        return last if first <= offset < last else offset

    def is_read(self, start: int, end: int, record: int) -> None:
        """The first record from `start` on lies at `record`, or there is none before `end`."""
        if record < end:
            self.readable = record
        first, last = self.empty
        if record > start and record >= last:
            self.empty = (first if first <= start <= last else start, record)


Logs = Mapping[Partition, PartitionLog]


_COMMITS_KEPT = 8  # of each partition, for its page


class Track:
    """What is known of one partition of a group. furthest: the commit that was never passed by a
    later one, and who owned the partition then."""

    __slots__ = ("commits", "furthest", "never_committed", "open_falls", "window")

    def __init__(self, rules: LagRules) -> None:
        self.window = LagWindow(rules)
        self.commits: deque[SeenCommit] = deque(maxlen=_COMMITS_KEPT)
        self.furthest: SeenCommit | None = None
        self.never_committed: int | None = None  # the log's end when that was first seen
        self.open_falls: list[Regression] = []  # those that nothing has made good yet


class GroupWatch:
    """Told the time (ms since 1970) with everything that it is told."""

    def __init__(self, name: str, rules: LagRules, probation: Probation) -> None:
        self.name = name
        self.rules = rules
        self.probation = probation
        self.described = Described("", "Unknown")
        self.tracks: dict[Partition, Track] = {}
        self.owners: dict[Partition, Assignee] = {}
        self.regressions = 0
        self._owned_last: dict[Partition, str] = {}

    def is_described(self, described: Described, now_ms: int) -> None:
        """Take who the members are and what each of them owns.

        What a member subscribes to stays known where this does not say it.
        """
        subscribed = {one.member_id: one.subscribed for one in self.described.members}
        members = tuple(
            one._replace(subscribed=subscribed.get(one.member_id))
            if one.subscribed is None
            else one
            for one in described.members
        )
        described = described._replace(members=members)
        owners: dict[Partition, Assignee] = {}
        for member in described.members:
            for place in member.places:
                owners[place] = self._owner(place, member, now_ms)
        for place, owner in self.owners.items():
            if place not in owners:
                self._owned_last[place] = named(owner.member)
        known = self.tracks.keys() | owners.keys()
        self._owned_last = {each: who for each, who in self._owned_last.items() if each in known}
        self.owners, self.described = owners, described

    def is_unread(self, place: Partition) -> bool:
        """Tell whether the group has members, and none of them subscribes to the topic."""
        members = self.described.members
        return (
            bool(members)
            and place not in self.owners
            and all(
                one.subscribed is not None and place.topic not in one.subscribed for one in members
            )
        )

    def _owner(self, place: Partition, member: GroupMember, now_ms: int) -> Assignee:
        had = self.owners.get(place)
        if had is None:
            before = self._owned_last.get(place)
            return Assignee(member, now_ms, None if before == named(member) else before)
        if had.member.member_id == member.member_id:
            return had._replace(member=member)
        return Assignee(member, now_ms, named(had.member))

    def committed(
        self, place: Partition, stored: CommittedOffset, at_ms: int, seen_ms: int
    ) -> Regression | None:
        """Take one commit of the commit stream, in its order. at_ms: the broker's time."""
        track = self._track(place)
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
        fall = self._fall(place, change.fell_from, seen)
        if len(track.open_falls) < _COMMITS_KEPT:
            track.open_falls.append(fall)
        self.regressions += 1
        return fall

    def _fall(self, place: Partition, fell_from: int, seen: SeenCommit) -> Regression:
        owner = self.owners.get(place)
        return Regression(
            self.name,
            place.topic,
            place.partition,
            fell_from,
            seen.offset,
            seen.at_ms,
            seen.committer,
            None if owner is None else named(owner.member),
            self._owned_last.get(place) if owner is None else owner.before,
            None if owner is None else owner.since_ms,
        )

    def removed(self, place: Partition) -> None:
        """The committed offset was deleted: what comes next is no step back."""
        self.tracks.pop(place, None)

    def sampled(
        self,
        stored: Mapping[Partition, CommittedOffset],
        logs: Logs,
        now_ms: int,
        *,
        infer_commits: bool,
    ) -> list[Regression]:
        """Take all committed offsets of the group at one moment.

        infer_commits: no commit stream tells of them, so an offset that differs from the last one
        is a commit."""
        falls = []
        gone = self.tracks.keys() - stored.keys() - self.owners.keys()
        for place in gone:
            del self.tracks[place]
        for place, one in stored.items():
            if infer_commits and self._is_news(place, one.offset):
                fall = self.committed(place, one, now_ms, now_ms)
                if fall is not None:
                    falls.append(fall)
            self._sample(place, one.offset, logs, now_ms)
        for place in self.owners:
            if place not in stored:
                self._sample_silent(place, logs, now_ms)
        return falls

    def _is_news(self, place: Partition, offset: int) -> bool:
        track = self.tracks.get(place)
        return track is None or not track.commits or track.commits[-1].offset != offset

    def _sample(self, place: Partition, offset: int, logs: Logs, now_ms: int) -> None:
        log = logs.get(place)
        if log is None:
            return
        track = self._track(place)
        track.never_committed = None
        begin = log.next_record(max(offset, log.start))
        track.window.sampled(Sample(now_ms, begin, log.end, offset), self.rules)

    def _sample_silent(self, place: Partition, logs: Logs, now_ms: int) -> None:
        """A member owns it and never committed: what has come since that was seen is its work."""
        log = logs.get(place)
        if log is None:
            return
        track = self._track(place)
        if track.never_committed is None:
            track.never_committed = log.end
        first = track.never_committed
        begin = log.next_record(max(first, log.start))
        track.window.sampled(Sample(now_ms, begin, log.end, first), self.rules)

    def _track(self, place: Partition) -> Track:
        track = self.tracks.get(place)
        if track is None:
            track = self.tracks[place] = Track(self.rules)
        return track


# ---- Reports: state, lag, heat and oddities of a group at one moment

_OWNER_CHANGED_MS = 600_000  # before a commit that went back: longer ago has nothing to do with it


class Heat(StrEnum):
    """Where what a group reads next is: in the page cache, soon not any more, or on disk."""

    HOT = "hot"
    COOLING = "cooling"
    COLD = "cold"
    UNKNOWN = "unknown"


class Judging(NamedTuple):
    """horizon_ms: how old a record may be and still be in the brokers' page cache.

    has_commit_stream: every commit is seen, not only samples.
    """

    horizon_ms: int
    has_commit_stream: bool


class PartitionReport(NamedTuple):
    """One partition of a group.

    pace: the state without regard to commits that went back.  committed: as the group has it, also
    below the log's start or beyond its end; None when nothing was ever committed.  beyond_end:
    records by which it is.  lag: external, end - committed, clamped to the log's start.
    internal_lag: the same from the furthest offset that the partition's owner itself has reported
    done; None where it reports nothing.  is_stuck: a stuck commit.  lost: records that retention
    took before they were committed.  age_ms: of the record that is read next.
    clear_ms, loss_ms: until the lag is gone, until retention takes what was not read; None: never.
    is_unread: the group has members, and none of them subscribes to the topic: its offsets are left
    over, and what has come since is no work of theirs.
    """

    place: Partition
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
    """A group: as bad as its worst partition, as cold as its coldest. lag: of all partitions.

    unread_topics: those that no member subscribes to any more; they count for nothing else here.
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


def report(watch: GroupWatch, logs: Logs, now_ms: int, judging: Judging) -> GroupReport:
    """Judge a group by all that is known of it."""
    every = tuple(sorted(_partitions(watch, logs, now_ms, judging)))
    found = [one for one in every if not one.is_unread]
    heats = [Heat.UNKNOWN, Heat.HOT, Heat.COOLING, Heat.COLD]
    losses = [one.loss_ms for one in found if one.loss_ms is not None]
    return GroupReport(
        max((one.state for one in found), key=SEVERITY.__getitem__, default=LagState.OK),
        sum(one.lag for one in found),
        max((one.heat for one in found), key=heats.index, default=Heat.HOT),
        max((one.age_ms for one in found), default=0),
        min(losses, default=None),
        any(one.is_stuck for one in found),
        sum(not member.places for member in watch.described.members),
        every,
        tuple(sorted({one.place.topic for one in every if one.is_unread})),
    )


def _partitions(
    watch: GroupWatch, logs: Logs, now_ms: int, judging: Judging
) -> Iterator[PartitionReport]:
    for place, track in watch.tracks.items():
        log = logs.get(place)
        newest = track.window.newest
        if log is None or newest is None:
            continue
        owner = watch.owners.get(place)
        lives = owner is not None and not judging.has_commit_stream
        # As of what was seen last: silence of a coordinator is not the group's.
        state = track.window.state(newest.at_ms, watch.rules, lives=lives)
        pace = track.window.pace(newest.at_ms, watch.rules, lives=lives)
        committed = None if track.never_committed is not None else newest.stored
        internal = _internal_lag(track, owner, log, newest.end)
        age_ms, heat = _age(log, newest.committed, newest.lag, now_ms, judging.horizon_ms)
        clear_ms = track.window.clear_ms()
        loss_ms = _loss_ms(log, newest.lag, age_ms, clear_ms)
        is_unread = watch.is_unread(place)
        if is_unread:
            state, pace, heat, age_ms, loss_ms = LagState.OK, LagState.OK, Heat.HOT, 0, None
        yield PartitionReport(
            place,
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
    """What the owner says of itself, by the furthest commit that it has signed."""
    furthest = track.furthest
    if owner is None or furthest is None or furthest.committer is None:
        return None
    if furthest.committer.member != owner.member.member_id:
        return None
    return max(0, end - log.next_record(furthest.offset))


def is_stuck(track: Track, log: PartitionLog, end: int, allowed_lag: int) -> bool:
    """Whether a commit went back behind work that is all done, after the partition changed hands.

    So nobody commits again until something new arrives: the group lags, and knows nothing of it.
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
    """How old the record is that is read next, at least, and whether that is hot."""
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
    """Until retention takes the record that is read next, unless the group clears before that."""
    if lag == 0 or log.retention_ms < 0:
        return None
    left_ms = max(0, log.retention_ms - age_ms)
    return None if clear_ms is not None and clear_ms <= left_ms else left_ms
