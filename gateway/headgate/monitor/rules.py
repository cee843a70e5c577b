"""Rules: the state of a group at one partition, probation, and the age of a position.

The states are those of `LagState`. Two sources feed them: samples (committed and end offset at one
moment) and, if `__consumer_offsets` may be read, the stream of all commits. The commit stream
decides about commits that go back; a sample decides how much work is left.
"""

from collections import deque
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

_MAX_PATIENCE = 10  # times the configured one, however rarely a group commits
_USUAL_FADES = 0.8
_BEHIND_DOUBTFUL = 2


class LagState(StrEnum):
    """From best to worst; a group is in the worst state of its partitions.

    OK: no lag, or it falls at times.  WARN: in a whole window of commits the lag never fell.
    STALL: it lives and commits nothing new while there is work.  STOP: it commits nothing while
    there is work.  REWIND: a commit was lower than one before and has not been made good.
    """

    OK = "OK"
    WARN = "WARN"
    STALL = "STALL"
    STOP = "STOP"
    REWIND = "REWIND"


SEVERITY = {state: number for number, state in enumerate(LagState)}


def worst(states: "list[LagState]") -> LagState:
    """The worst of them; OK where there are none."""
    return max(states, key=SEVERITY.__getitem__, default=LagState.OK)


class LagRules(NamedTuple):
    """allowed_lag: records that may wait without being called lag.  patience_ms: how long there may
    be work without a commit that moves, at least; groups that usually take longer get twice what
    they took, up to ten times this.  samples: of a window."""

    allowed_lag: int = 0
    patience_ms: int = 60_000
    samples: int = 10


class Sample(NamedTuple):
    """One poll. committed: clamped to the log's start, and past what is no record.  stored: as the
    group has it; what retention takes raises the one and not the other."""

    at_ms: int
    committed: int
    end: int
    stored: int

    @property
    def lag(self) -> int:
        """Records between the committed offset and the log's end."""
        return max(0, self.end - self.committed)


class CommitChange(NamedTuple):
    """What a commit did. fell_from: the offset committed before, when this one is lower.
    recovered: it made all earlier falls good."""

    fell_from: int | None = None
    recovered: bool = False


_NOTHING = CommitChange()


class LagWindow:
    """One partition of one group; memory is bounded by the rules' number of samples."""

    __slots__ = ("_behind", "_lag", "_last", "_moved_ms", "_samples", "_unmoved_ms", "_usual_ms",
                 "_work_ms", "fell_from")  # fmt: skip

    def __init__(self, rules: LagRules) -> None:
        self._samples: deque[Sample] = deque(maxlen=rules.samples)
        self._last: int | None = None  # the newest commit, of whichever source tells of commits
        self._moved_ms = 0
        self._work_ms: int | None = None  # since when there is more than the allowed lag
        self._unmoved_ms = 0  # the newest commit that said the same as the one before
        self._behind = 0  # polls in a row that found a new commit, and no less lag than before
        self._lag = 0  # at the last of them
        self._usual_ms = 0.0  # how long it usually takes from work to a commit
        self.fell_from: int | None = None  # the highest offset from which it fell for good so far

    @property
    def newest(self) -> Sample | None:
        """The last poll."""
        return self._samples[-1] if self._samples else None

    @property
    def is_doubtful(self) -> bool:
        """There is a lag, and it neither goes nor grows less: it may be no record at all."""
        newest = self.newest
        if newest is None or newest.lag == 0:
            return False
        return self._moved_ms < newest.at_ms or self._behind > _BEHIND_DOUBTFUL

    def committed(self, offset: int, at_ms: int) -> CommitChange:
        """Take one commit, in the order in which the broker took it. at_ms: when it was seen."""
        before, self._last = self._last, offset
        if before is None:
            return _NOTHING
        if offset == before:
            self._unmoved_ms = at_ms
            return _NOTHING
        if offset < before:
            self.fell_from = before if self.fell_from is None else max(self.fell_from, before)
            return CommitChange(fell_from=before)
        if self.fell_from is None or offset < self.fell_from:
            return _NOTHING
        self.fell_from = None
        return CommitChange(recovered=True)

    def sampled(self, sample: Sample, rules: LagRules) -> None:
        """Take one poll at the committed offset and at the end."""
        before = self.newest
        if before is None or sample.stored != before.stored:
            self._moved(sample.at_ms)
            self._behind = self._behind + 1 if sample.lag >= self._lag else 1
            self._lag = sample.lag
        if sample.lag <= rules.allowed_lag:
            self._work_ms, self._behind, self._lag = None, 0, 0
        elif self._work_ms is None:
            self._work_ms = sample.at_ms
        self._samples.append(sample)

    def _moved(self, at_ms: int) -> None:
        if self._moved_ms and self._work_ms is not None:
            took_ms = at_ms - max(self._moved_ms, self._work_ms)
            self._usual_ms = max(took_ms, self._usual_ms * _USUAL_FADES)
        self._moved_ms = at_ms

    def state(self, now_ms: int, rules: LagRules, *, lives: bool) -> LagState:
        """The state now. lives: the partition has an owner; it tells STALL from STOP where single
        commits are not seen."""
        newest, pace = self.newest, self.pace(now_ms, rules, lives=lives)
        if newest is None or newest.lag <= rules.allowed_lag or self._work_ms is None:
            return pace
        is_rewound = self.fell_from is not None and newest.committed < self.fell_from
        return LagState.REWIND if is_rewound else pace

    def pace(self, now_ms: int, rules: LagRules, *, lives: bool) -> LagState:
        """The state, were no commit ever lower than one before: a group that was set back and then
        stands still is in REWIND, and nothing else would tell that it stands still."""
        newest = self.newest
        if newest is None or newest.lag <= rules.allowed_lag or self._work_ms is None:
            return LagState.OK
        since_ms = max(self._moved_ms, self._work_ms)
        patience_ms = self._patience_ms(rules)
        if now_ms - since_ms >= patience_ms:
            commits = self._unmoved_ms > since_ms and now_ms - self._unmoved_ms < patience_ms
            return LagState.STALL if commits or lives else LagState.STOP
        return LagState.WARN if self._behind >= rules.samples else LagState.OK

    def _patience_ms(self, rules: LagRules) -> float:
        limit = _MAX_PATIENCE * rules.patience_ms
        return min(limit, max(rules.patience_ms, 2 * self._usual_ms))

    def clear_ms(self) -> int | None:
        """When the lag will be gone at the pace of this window; None: never, or not known."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        # Neither what retention has taken nor a leap over that is a pace.
        read = min(last.stored - first.stored, last.committed - first.committed)
        gained = read - (last.end - first.end)
        if last.lag == 0:
            return 0
        return last.lag * (last.at_ms - first.at_ms) // gained if gained > 0 else None


# ---- Probation of new groups


class Probation(NamedTuple):
    """kept_ms: since when its lag is under the bound; None: it is not.  admitted_ms: since when it
    counts as one that keeps up; None: it is on probation. Times are ms since 1970."""

    first_seen_ms: int
    kept_ms: int | None = None
    admitted_ms: int | None = None

    def polled(self, now_ms: int, *, keeps_up: bool, long_ms: int) -> "Probation":
        """After one more poll. long_ms: how long it must have kept up without a break."""
        if self.admitted_ms is not None:
            return self
        if not keeps_up:
            return self._replace(kept_ms=None)
        kept_ms = now_ms if self.kept_ms is None else self.kept_ms
        admitted_ms = now_ms if now_ms - kept_ms >= long_ms else None
        return self._replace(kept_ms=kept_ms, admitted_ms=admitted_ms)


# ---- Times at which the end of a log passed an offset

_MAX_POINTS = 96
_FRACTION = 3  # the error of an age is at most a third of it


class Point(NamedTuple):
    """The end offset that a log had at a time."""

    at_ms: int
    end: int


class LogEnds:
    """The end of one partition's log over time, ever more coarsely into the past.

    A point may go when the two beside it are no further apart than a third of their age. So the
    error of an age is at most a third of that age, or the time between two polls if that is more,
    also where nothing was written for long: the end of such a time is a point like any other. At
    most 96 points; if none of them may go, the oldest does, and with it the knowledge of what
    was before. At a poll every 10 s that is after months.
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: list[Point] = []

    def note(self, at_ms: int, end: int) -> None:
        """Take what the end is now. Times only grow; an end that went back is another log's."""
        points = self._points
        if points and end < points[-1].end:
            points.clear()
        if len(points) > 1 and points[-2].end == end:
            points.pop()  # of a time without records the first and the last point will do
        points.append(Point(at_ms, end))
        if len(points) > _MAX_POINTS:
            self._thin(at_ms)

    def _thin(self, now_ms: int) -> None:
        points = self._points
        kept = points[:1]
        for point, after in pairwise(points[1:]):
            if _FRACTION * (after.at_ms - kept[-1].at_ms) > now_ms - after.at_ms:
                kept.append(point)
        kept.append(points[-1])
        self._points = kept[-_MAX_POINTS:]

    def first_ms(self) -> int | None:
        """Since when the end is known."""
        return self._points[0].at_ms if self._points else None

    def written_ms(self, offset: int) -> int | None:
        """About when the record at `offset` was written.

        None: before anything is known here, or not yet.
        """
        points = self._points
        if not points or offset < points[0].end or offset >= points[-1].end:
            return None
        low, high = 0, len(points) - 1  # the first point whose end is above the offset
        while low < high:
            middle = (low + high) // 2
            if points[middle].end > offset:
                high = middle
            else:
                low = middle + 1
        after, before = points[low], points[low - 1]
        share = (offset - before.end) / (after.end - before.end)
        return before.at_ms + round(share * (after.at_ms - before.at_ms))
