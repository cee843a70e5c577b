"""What is to be said of a group now: its state, its lag, how hot it reads, and what is odd."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from headgate.core.groups.facts import (
    Assignee,
    Logs,
    Partition,
    PartitionLog,
    Regression,
    SeenCommit,
)
from headgate.core.groups.group_watch import GroupWatch, Track
from headgate.core.groups.lag_rules import SEVERITY, LagState

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
