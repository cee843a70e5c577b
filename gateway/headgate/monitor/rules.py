"""Rules: the state of a group at one partition, probation, and the age of a position.

The states are those of `LagState`. They have two sources: samples (committed and end offset at one
moment) and, if `__consumer_offsets` may be read, the stream of all commits. The commit stream
decides about regressions, and a sample about the remaining work.
"""

from array import array
from bisect import bisect_right
from collections import deque
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

_MAX_PATIENCE = 10  # maximum, as a multiple of the configured patience
_USUAL_FADES = 0.8
_BEHIND_DOUBTFUL = 2


class LagState(StrEnum):
    """The states from best to worst; a group is in the worst state of its partitions.

    OK: no lag, or the lag falls at times.  WARN: the lag never fell in a whole window of commits.
    STALL: the group is alive and commits nothing new despite work.  STOP: it commits nothing
    despite work.
    REWIND: a commit fell below an earlier one and has not recovered.
    """

    OK = "OK"
    WARN = "WARN"
    STALL = "STALL"
    STOP = "STOP"
    REWIND = "REWIND"


SEVERITY = {state: number for number, state in enumerate(LagState)}


class LagRules(NamedTuple):
    """Rules of lag.

    Attributes:
        allowed_lag: Records that may wait without being lag.
        patience_ms: Minimum time with work and no new commit, in milliseconds, before a group is
            late. Groups that usually take longer get twice their usual time, up to ten times this.
        samples: Samples in a window.
    """

    allowed_lag: int = 0
    patience_ms: int = 60_000
    samples: int = 10


class Sample(NamedTuple):
    """One poll of a partition.

    Attributes:
        at_ms: Time of the poll, in milliseconds since 1970.
        committed: The committed offset, clamped to the log's start and past markers. Retention
            raises it.
        end: The log's end.
        stored: The committed offset itself. Retention does not change it.
    """

    at_ms: int
    committed: int
    end: int
    stored: int

    @property
    def lag(self) -> int:
        """Return the number of records between the committed offset and the log's end."""
        return max(0, self.end - self.committed)


class CommitChange(NamedTuple):
    """The effect of a commit.

    Attributes:
        fell_from: The previous committed offset, if this one is lower.
        recovered: Whether the commit recovered all earlier falls.
    """

    fell_from: int | None = None
    recovered: bool = False


_NOTHING = CommitChange()


class LagWindow:
    """One partition of one group; memory is bounded by the rules' number of samples."""

    __slots__ = (
        "_behind",
        "_has_moved",
        "_lag",
        "_last",
        "_moved_ms",
        "_rules",
        "_samples",
        "_unmoved_ms",
        "_usual_ms",
        "_work_ms",
        "fell_from",
    )

    def __init__(self, rules: LagRules) -> None:
        self._rules = rules
        self._samples: deque[Sample] = deque(maxlen=rules.samples)
        self._last: int | None = None  # the newest commit of either source
        self._moved_ms = 0  # the last new commit, or the first poll
        self._has_moved = False  # whether a commit after the first poll was new
        self._work_ms: int | None = None  # beginning of a lag above the allowed one
        self._unmoved_ms = 0  # the newest commit that repeated the one before
        self._behind = 0  # polls in a row with a new commit and no lower lag
        self._lag = 0  # lag at the last such poll
        self._usual_ms = 0.0  # usual time from work to a commit
        self.fell_from: int | None = None  # the highest offset of an unrecovered fall

    @property
    def newest(self) -> Sample | None:
        """Return the last poll."""
        return self._samples[-1] if self._samples else None

    @property
    def is_doubtful(self) -> bool:
        """Return whether there is a lag that does not shrink: it may contain no record at all."""
        newest = self.newest
        if newest is None or newest.lag == 0:
            return False
        return self._moved_ms < newest.at_ms or self._behind > _BEHIND_DOUBTFUL

    @property
    def still_since(self) -> tuple[int, bool]:
        """Return since when records wait without a new commit, and whether that is exact.

        It is not exact before the second poll with another offset: then the time is the first poll.
        """
        work_ms = self._work_ms or 0
        return max(self._moved_ms, work_ms), self._has_moved or work_ms > self._moved_ms

    def committed(self, offset: int, at_ms: int) -> CommitChange:
        """Apply one commit, in the broker's order, seen at `at_ms`."""
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

    def sampled(self, sample: Sample) -> None:
        """Apply one poll of the committed offset and the end."""
        before = self.newest
        if before is None or sample.stored != before.stored:
            self._has_moved = before is not None
            self._moved(sample.at_ms)
            self._behind = self._behind + 1 if sample.lag >= self._lag else 1
            self._lag = sample.lag
        if sample.lag <= self._rules.allowed_lag:
            self._work_ms, self._behind, self._lag = None, 0, 0
        elif self._work_ms is None:
            self._work_ms = sample.at_ms
        self._samples.append(sample)

    def _moved(self, at_ms: int) -> None:
        if self._moved_ms and self._work_ms is not None:
            took_ms = at_ms - max(self._moved_ms, self._work_ms)
            self._usual_ms = max(took_ms, self._usual_ms * _USUAL_FADES)
        self._moved_ms = at_ms

    def state(self, now_ms: int, *, lives: bool) -> LagState:
        """Return the current state.

        Args:
            now_ms: Milliseconds since 1970.
            lives: Whether the partition has an owner, which separates STALL from STOP if single
                commits are not seen.
        """
        newest, pace = self.newest, self.pace(now_ms, lives=lives)
        if newest is None or newest.lag <= self._rules.allowed_lag or self._work_ms is None:
            return pace
        is_rewound = self.fell_from is not None and newest.committed < self.fell_from
        return LagState.REWIND if is_rewound else pace

    def pace(self, now_ms: int, *, lives: bool) -> LagState:
        """Return the state without regard to regressions.

        A group that was set back and then stops is in REWIND; only this value shows that it
        stopped.
        """
        newest = self.newest
        if newest is None or newest.lag <= self._rules.allowed_lag or self._work_ms is None:
            return LagState.OK
        since_ms = max(self._moved_ms, self._work_ms)
        patience_ms = self._patience_ms()
        if now_ms - since_ms >= patience_ms:
            commits = self._unmoved_ms > since_ms and now_ms - self._unmoved_ms < patience_ms
            return LagState.STALL if commits or lives else LagState.STOP
        return LagState.WARN if self._behind >= self._rules.samples else LagState.OK

    def _patience_ms(self) -> float:
        least_ms = self._rules.patience_ms
        return min(_MAX_PATIENCE * least_ms, max(least_ms, 2 * self._usual_ms))

    def clear_ms(self) -> int | None:
        """Return the time until the lag is gone at this window's pace; None if never or unknown."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        # Neither records that retention deleted nor a leap over them count as pace.
        read = min(last.stored - first.stored, last.committed - first.committed)
        gained = read - (last.end - first.end)
        if last.lag == 0:
            return 0
        return last.lag * (last.at_ms - first.at_ms) // gained if gained > 0 else None


# ---- probation of new groups


class Probation(NamedTuple):
    """Probation of a group. Times are milliseconds since 1970.

    Attributes:
        first_seen_ms: First poll with the group.
        kept_ms: Beginning of a lag below the bound; None if it is above.
        admitted_ms: End of the probation; None if it lasts.
    """

    first_seen_ms: int
    kept_ms: int | None = None
    admitted_ms: int | None = None

    def polled(self, now_ms: int, *, keeps_up: bool, long_ms: int) -> "Probation":
        """Return the probation after one more poll.

        Args:
            now_ms: Milliseconds since 1970.
            keeps_up: Whether the group keeps up now.
            long_ms: Time for which it must keep up without a break, in milliseconds.
        """
        if self.admitted_ms is not None:
            return self
        if not keeps_up:
            return self._replace(kept_ms=None)
        kept_ms = now_ms if self.kept_ms is None else self.kept_ms
        admitted_ms = now_ms if now_ms - kept_ms >= long_ms else None
        return self._replace(kept_ms=kept_ms, admitted_ms=admitted_ms)


# ---- times at which the end of a log passed an offset

_MAX_POINTS = 96
_FRACTION = 3  # the error of an age is at most a third of it


class Point(NamedTuple):
    """The end offset of a log at one time."""

    at_ms: int
    end: int


class LogEnds:
    """The end of one partition's log over time, ever more coarsely into the past.

    A point may go if its two neighbours are no further apart than a third of their age. So the
    error of an age is at most a third of that age, or the time between two polls if that is more.
    This holds also after a long time without writes: the end of such a time is a point, too. At
    most 96 points are kept. If none of them may go, the oldest does, and everything before it is
    unknown. With a poll every 10 s that takes months.
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: list[Point] = []

    def note(self, at_ms: int, end: int) -> None:
        """Add the current end. Times only grow; an end that went back belongs to another log."""
        points = self._points
        if points and end < points[-1].end:
            points.clear()
        if len(points) > 1 and points[-2].end == end:
            points.pop()  # a time without records needs only its first and last point
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
        """Return the time of the first known end."""
        return self._points[0].at_ms if self._points else None

    def written_ms(self, offset: int) -> int | None:
        """Return about when the record at `offset` was written; None if it is not known (yet)."""
        points = self._points
        if not points or offset < points[0].end or offset >= points[-1].end:
            return None
        following = bisect_right(points, offset, key=attrgetter("end"))
        before, after = points[following - 1], points[following]
        share = (offset - before.end) / (after.end - before.end)
        return before.at_ms + round(share * (after.at_ms - before.at_ms))


# ---- lag of a group over time

_MAX_LAGS, _NEW_LAGS = 300, 120  # points, and those of them that are never thinned
_LAGS_MS, _STEP_MS = 86_400_000, 600_000


class LagSeries:
    """The lag of a group over the last 24 hours: each of the last polls, and one of ten minutes."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points = array("q")  # times in milliseconds since 1970, each with its lag

    def note(self, now_ms: int, lag: int) -> None:
        """Add the lag of a poll."""
        self._points.extend((now_ms, lag))
        if len(self._points) > 2 * _MAX_LAGS:
            points = self.points()
            steps = {at_ms // _STEP_MS: (at_ms, lag) for at_ms, lag in points[:-_NEW_LAGS]}
            kept = [point for point in steps.values() if now_ms - point[0] <= _LAGS_MS]
            kept += points[-_NEW_LAGS:]
            self._points = array("q", [number for point in kept for number in point])

    def points(self) -> list[tuple[int, int]]:
        """Return times, in milliseconds since 1970, with the lag; the oldest first."""
        return list(zip(self._points[::2], self._points[1::2], strict=True))

    def change(self, now_ms: int, within_ms: int, least_ms: int) -> tuple[int, int] | None:
        """Return the change of the lag and its time; None if it covers less than `least_ms`."""
        points = [point for point in self.points() if now_ms - point[0] <= within_ms]
        if len(points) < 2 or points[-1][0] - points[0][0] < least_ms:
            return None
        return points[-1][1] - points[0][1], points[-1][0] - points[0][0]
