"""The commit stream is late, polls are not: whatever the order, exactly what went back is told."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as some

from headgate.kafka.groups import CommittedOffset, Partition
from headgate.monitor.rules import LagState
from support.scenarios.group_world import GROUP, TOPIC, World

PLACE = Partition(TOPIC, 0)
END = 50
# what happens next: a commit of this offset, a poll, or so much of the commit stream arrives
STEPS = some.lists(
    some.one_of(
        some.tuples(some.just("commit"), some.integers(0, END)),
        some.tuples(some.just("poll"), some.just(0)),
        some.tuples(some.just("arrive"), some.integers(1, 4)),
    ),
    max_size=60,
)


class LateCommits:
    """A group whose commits are known to polls at once and to the commit stream some time later."""

    def __init__(self) -> None:
        self.world = World(has_commit_stream=True)
        self.world.member("a", 0)
        self.world.produce(END)
        self.world.commit(10)
        self.world.poll()  # what the commit stream begins after
        self.told: deque[tuple[int, int]] = deque()
        self.falls: list[tuple[int, int]] = []  # what the monitor says
        self.truth: list[tuple[int, int]] = []
        self.last = 10
        self.highest_lost: int | None = None  # the offset to be reached again

    def commit(self, offset: int) -> None:
        self.world.stored[0] = CommittedOffset(offset)
        self.told.append((offset, self.world.now_ms))
        if offset < self.last:
            self.truth.append((self.last, offset))
            self.highest_lost = max(self.last, self.highest_lost or 0)
        elif self.highest_lost is not None and offset >= self.highest_lost:
            self.highest_lost = None
        self.last = offset

    def arrive(self, count: int) -> None:
        for _ in range(min(count, len(self.told))):
            offset, at_ms = self.told.popleft()
            stored, now_ms = CommittedOffset(offset), self.world.now_ms
            fall = self.world.watch.committed(GROUP, PLACE, stored, at_ms, now_ms)
            if fall is not None:
                self.falls.append((fall.from_offset, fall.to_offset))


@given(STEPS)
def test_exactly_what_went_back_is_told(steps: list[tuple[str, int]]) -> None:
    late = LateCommits()
    for what, number in steps:
        if what == "commit":
            late.commit(number)
        elif what == "arrive":
            late.arrive(number)
        else:
            assert late.world.poll() == [], (
                "a poll tells of no commit that the commit stream will tell"
            )
    late.arrive(len(late.told))
    late.world.poll()
    assert late.falls == late.truth
    assert late.world.watch.counts.get((GROUP, TOPIC), 0) == len(late.truth)
    rewound = late.highest_lost is not None and late.last < END
    assert (late.world.group.state is LagState.REWIND) == rewound
    kept = late.world.watch.regressions
    unrecovered = [one for one in kept if one.recovered_ms is None]
    assert bool(unrecovered) == (late.highest_lost is not None)


@given(STEPS)
def test_polls_alone_tell_what_they_can_see(steps: list[tuple[str, int]]) -> None:
    world = World(has_commit_stream=False)
    world.produce(END)
    world.commit(10)
    world.poll()
    seen, truth = 10, []
    for what, number in steps:
        if what == "commit":
            world.commit(number)
        elif what == "poll":
            now = world.stored[0].offset
            if now < seen:
                truth.append((seen, now))
            seen = now
            world.poll()
    found = [(one.from_offset, one.to_offset) for one in world.watch.regressions]
    assert found == truth
