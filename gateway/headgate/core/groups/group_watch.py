"""One consumer group over time: who owns what, what was committed, and what went back."""

from collections import deque
from collections.abc import Mapping

from headgate.core.groups.facts import (
    Assignee,
    CommittedOffset,
    Described,
    GroupMember,
    Logs,
    Partition,
    Regression,
    SeenCommit,
    named,
    read_note,
)
from headgate.core.groups.lag_rules import LagRules, LagWindow, Sample
from headgate.core.groups.probation import Probation

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
