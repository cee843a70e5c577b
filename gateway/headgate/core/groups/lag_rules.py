"""What state a group is in at one partition, from a window of what was seen of it.

The rules are those of `LagState`. Two sources feed them: samples (committed and end offset at one
moment), and, where `__consumer_offsets` may be read, the stream of every single commit. What the
commit stream says decides about commits that go back; a sample decides how much there is to do.
"""

from collections import deque
from enum import StrEnum
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
