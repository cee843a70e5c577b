"""Histories of groups whose truth is known: the monitor's rules name each right.

Every one is told twice: with the stream of all commits, and with polls alone.
"""

from __future__ import annotations

import pytest

from headgate.kafka.groups import Partition, PartitionSeen, TopicSeen
from headgate.monitor.cluster_watch import ClusterHealth, WatchOptions
from headgate.monitor.group_watch import Heat, PartitionLog
from headgate.monitor.rules import LagRules, LagState, LogEnds
from headgate.monitor.views import hints
from support.scenarios.group_world import GROUP, POLL_MS, TOPIC, World

OK, WARN, STALL, STOP, REWIND = LagState
BOTH = pytest.mark.parametrize("has_commit_stream", [True, False], ids=["stream", "polls"])


def working(
    *, has_commit_stream: bool, partitions: int = 1, options: WatchOptions | None = None
) -> World:
    """A group that has worked well for a while: 100 records between two polls."""
    world = World(has_commit_stream=has_commit_stream, partitions=partitions, options=options)
    world.member("a", *range(partitions))

    def step() -> None:
        for number in range(partitions):
            world.produce(100, number)
            world.keep_up(number)

    assert set(world.polls(15, step)) == {OK}
    return world


@BOTH
def test_a_member_that_is_gone_has_stopped(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.leaves("a")
    states = world.polls(12, lambda: world.produce(100))
    assert states[0] is OK, "a moment's silence is nothing"
    assert states[-1] is STOP
    assert states.index(STOP) <= 7, "within patience and a poll"
    assert world.partition().owner is None
    assert world.group.lag == 1200


def test_a_member_that_lives_and_commits_nothing_has_stopped_too() -> None:
    world = working(has_commit_stream=True)
    assert world.polls(12, lambda: world.produce(100))[-1] is STOP
    unreserved = working(
        has_commit_stream=False
    )  # what it commits again is not seen: it lives, that is all
    assert unreserved.polls(12, lambda: unreserved.produce(100))[-1] is STALL


@BOTH
def test_a_member_that_commits_the_same_again_and_again_stalls(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    at = world.ends[0]

    def step() -> None:
        world.produce(100)
        world.commit(at)

    states = world.polls(12, step)
    assert states[-1] is STALL
    assert STOP not in states


def said(world: World) -> list[str]:
    return hints(world.watch.groups[GROUP], world.group)


@BOTH
def test_rewound_and_recovered_is_an_event_and_no_state(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.commit(1200)
    world.poll()
    assert world.group.state is REWIND
    world.keep_up()
    world.poll()
    assert world.group.state is OK
    (fall,) = world.watch.regressions
    assert (fall.group, fall.topic, fall.partition) == (GROUP, TOPIC, 0)
    assert (fall.from_offset, fall.to_offset) == (1500, 1200)
    assert fall.recovered_ms is not None
    assert world.watch.counts == {(GROUP, TOPIC): 1}


def test_rewound_and_recovered_between_two_polls_is_seen_in_the_commit_stream_only() -> None:
    for has_commit_stream in (True, False):
        world = working(has_commit_stream=has_commit_stream)
        world.commit(1499)
        world.keep_up()
        assert set(world.polls(5)) == {OK}
        assert len(world.watch.regressions) == has_commit_stream


@BOTH
def test_a_replay_that_goes_on_is_rewound_until_it_is_where_it_was(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    at = 0

    def step() -> None:
        nonlocal at
        world.commit(at)
        at += 100

    states = world.polls(16, step)  # 0, 100 ... 1500: for longer than any window
    assert states == [REWIND] * 15 + [OK]
    assert len(world.watch.regressions) == 1


@BOTH
def test_incident_b_is_named_a_stuck_commit(has_commit_stream: bool) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.member("c1", 0)
    world.produce(5)
    world.commit(4)
    world.poll()
    world.member("c2", 0)  # p0 moves while c1 still works on offset 4
    world.produce(2)
    world.poll()
    world.commit(7)
    world.poll()
    world.commit(5)  # of c1, whose generation is current
    states = world.polls(30)  # five minutes of a topic in which nothing happens
    assert set(states) == {REWIND}, "it does not turn into something else while it waits"
    found = world.partition()
    assert found.lag == 2
    assert found.is_stuck
    (fall,) = world.watch.regressions
    assert (fall.from_offset, fall.to_offset, fall.committer) == (7, 5, None)
    assert fall.owner is not None
    assert "c2" in fall.owner
    assert fall.owner_before is not None
    assert "c1" in fall.owner_before
    world.produce(1)
    world.commit(8)
    assert world.polls(1) == [OK]
    assert not world.partition().is_stuck
    assert fall.recovered_ms is not None


@BOTH
def test_who_signs_its_commits_is_named_and_shows_its_internal_lag(has_commit_stream: bool) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.member("c1", 0)
    world.produce(4)
    world.commit(4, by="c1")
    world.poll()
    world.member("c2", 0)
    world.produce(3)
    world.commit(7, by="c2")
    world.poll()
    assert world.partition().internal_lag == 0
    world.commit(5, by="c1")
    world.poll()
    found = world.partition()
    assert (found.lag, found.internal_lag, found.is_stuck) == (2, 0, True)
    (fall,) = world.watch.regressions
    assert fall.committer is not None
    assert (fall.committer.member, fall.committer.client, fall.committer.term) == (
        "c1",
        "c1-app",
        3,
    )
    world.produce(10)
    world.poll()
    found = world.partition()
    assert (found.lag, found.internal_lag, found.is_stuck) == (12, 10, False)


@BOTH
def test_a_reset_by_a_tool_is_rewound_and_not_stuck(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.leaves("a")
    world.poll()
    world.commit(0)
    world.poll()
    assert world.group.state is REWIND
    assert not world.partition().is_stuck


@BOTH
def test_a_slow_topic_is_well_however_rarely_it_is_written(has_commit_stream: bool) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.member("a", 0)
    states: list[LagState] = []
    for _ in range(6):
        states += world.polls(60)  # ten minutes of nothing
        world.produce(1)
        states += world.polls(1)  # not committed yet
        world.keep_up()
        states += world.polls(1)
    assert set(states) == {OK}


@BOTH
def test_a_slow_topic_whose_consumer_died_is_found_by_the_first_record(
    has_commit_stream: bool,
) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.member("a", 0)
    world.produce(1)
    world.keep_up()
    world.polls(60)
    world.leaves("a")
    assert set(world.polls(60)) == {OK}, "there is nothing to do"
    world.produce(1)
    assert world.polls(8)[-1] is STOP


@BOTH
def test_an_idle_topic_is_well_with_and_without_members(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    assert set(world.polls(100)) == {OK}
    world.leaves("a")
    assert set(world.polls(100)) == {OK}


@BOTH
def test_a_group_that_commits_rarely_but_works_is_well(has_commit_stream: bool) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.member("a", 0)
    states: list[LagState] = []
    for _ in range(6):
        states += world.polls(11, lambda: world.produce(10))
        world.keep_up()
        states += world.polls(1)
    settled = states[24:]  # the first two commits show how long it takes
    assert set(settled) == {OK}
    world.leaves("a")
    assert world.polls(40, lambda: world.produce(10))[-1] is STOP


@BOTH
def test_a_burst_that_is_worked_off_is_well(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.produce(50_000)
    at = world.stored[0].offset

    def step() -> None:
        nonlocal at
        world.produce(100)
        at = min(world.ends[0], at + 2_500)
        world.commit(at)

    assert set(world.polls(30, step)) == {OK}
    assert world.partition().lag == 0


@BOTH
def test_a_consumer_that_falls_ever_more_behind_is_warned_of(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)

    def step() -> None:
        world.produce(200)
        world.commit(world.stored[0].offset + 100)

    states = world.polls(12, step)
    assert states[-1] is WARN
    assert set(states) == {OK, WARN}
    assert world.partition().clear_ms is None
    assert world.partition().loss_ms is not None


@BOTH
def test_commits_faster_than_the_polls_do_not_hide_a_lag_that_grows(
    has_commit_stream: bool,
) -> None:
    world = working(has_commit_stream=has_commit_stream)

    def step() -> None:
        world.produce(200)
        for _ in range(100):
            world.commit(world.stored[0].offset + 1)

    assert world.polls(12, step)[-1] is WARN
    track = world.watch.groups[GROUP].tracks[Partition(TOPIC, 0)]
    assert len(track.commits) <= 8, "memory is bounded however often it commits"


@BOTH
def test_a_lag_that_never_falls_and_one_that_falls_once(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.produce(1_000)

    def step() -> None:
        world.produce(100)
        world.commit(world.stored[0].offset + 100)

    assert world.polls(12, step)[-1] is WARN, "it keeps pace and never catches up"
    world.commit(world.stored[0].offset + 1)
    assert world.polls(1) == [OK]
    assert world.partition().lag == 999


@BOTH
def test_members_that_own_nothing_are_idle(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream, partitions=2)
    world.member("b")
    world.member("c")
    world.poll()
    assert world.group.idle_members == 2
    assert world.group.state is OK


@BOTH
def test_one_bad_partition_makes_the_group_bad(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream, partitions=3)

    def step() -> None:
        for number in range(3):
            world.produce(100, number)
        world.keep_up(0)
        world.keep_up(2)

    world.leaves("a")
    world.member("b", 0, 2)
    assert world.polls(12, step)[-1] is STOP
    assert [one.state for one in world.group.partitions] == [OK, STOP, OK]


@BOTH
def test_a_recreated_topic_is_named_and_no_step_back(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.topic = replace_id(world)
    world.ends[0] = 0
    del world.stored[0]  # Kafka deletes the offsets of a deleted topic
    if has_commit_stream:
        world.watch.committed(GROUP, Partition(TOPIC, 0), None, world.now_ms, world.now_ms)
    world.poll()
    world.produce(10)
    world.commit(3)
    assert world.polls(1) == [OK]
    world.keep_up()
    assert set(world.polls(5)) == {OK}
    assert not world.watch.regressions
    (drift,) = world.watch.drifts
    assert (drift.what, drift.topic) == ("recreated", TOPIC)


def replace_id(world: World) -> TopicSeen:
    return world.topic._replace(topic_id=b"2" * 16)


@BOTH
def test_a_topic_that_is_away_for_a_poll_and_comes_back_as_another_is_no_step_back(
    has_commit_stream: bool,
) -> None:
    world = working(has_commit_stream=has_commit_stream)
    topic, world.topic = world.topic, replace_id(world)
    world.watch.topics_seen({}, world.now_ms)
    world.watch.topics_seen({}, world.now_ms)
    if has_commit_stream:
        world.watch.committed(GROUP, Partition(TOPIC, 0), None, world.now_ms, world.now_ms)
    world.ends[0] = 10
    world.commit(3)
    assert world.polls(1) == [OK]
    assert not world.watch.regressions
    (drift,) = world.watch.drifts
    assert (drift.what, drift.before) == ("recreated", topic.topic_id.hex())


@BOTH
def test_more_partitions_are_named(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    sound = world.topic.partitions[0]
    world.topic = world.topic._replace(partitions=(sound,) * 4)
    world.ends += [0, 0, 0]
    world.starts += [0, 0, 0]
    world.poll()
    (drift,) = world.watch.drifts
    assert (drift.what, drift.before, drift.after) == ("partitions", "1", "4")
    assert world.group.state is OK


@BOTH
def test_under_replicated_is_the_cluster_s_trouble_and_not_the_group_s(
    has_commit_stream: bool,
) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.topic = world.topic._replace(partitions=(PartitionSeen(1, 3, 1),))

    def step() -> None:  # producers wait for replicas: nothing new, nothing to do
        world.keep_up()

    assert set(world.polls(10, step)) == {OK}
    assert world.watch.health == ClusterHealth(under_replicated=1, offline=0, below_min_isr=1)
    world.topic = world.topic._replace(partitions=(PartitionSeen(-1, 3, 0),))
    world.poll()
    assert world.watch.health == ClusterHealth(1, 1, 1)


@BOTH
def test_a_member_that_never_commits_is_named(has_commit_stream: bool) -> None:
    world = World(has_commit_stream=has_commit_stream)
    world.produce(500)
    world.member("a", 0)
    assert set(world.polls(10)) == {OK}, "what was there before may be none of its business"
    states = world.polls(12, lambda: world.produce(10))
    assert states[-1] is (STOP if has_commit_stream else STALL)
    assert world.partition().committed is None
    world.starts[0] = world.ends[0] - 5
    world.poll()
    assert world.partition().lag == 5, "what retention took is nobody's work"


@BOTH
def test_records_that_retention_took_are_lost_and_no_lag(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.leaves("a")
    world.polls(10, lambda: world.produce(100))
    world.starts[0] = 2_000
    world.poll()
    found = world.partition()
    assert (found.lag, found.lost) == (500, 500)
    assert found.committed == 1_500, "what the group has, not what is left of the log"


@BOTH
def test_what_holds_no_record_is_no_lag(has_commit_stream: bool) -> None:
    """A group commits behind the last record, and a marker, or what was aborted, lies there."""
    world = working(has_commit_stream=has_commit_stream)
    world.keep_up()
    for _ in range(3):
        world.marker()
    assert set(world.polls(30)) == {OK}
    assert (world.partition().lag, world.partition().committed) == (0, 1_500)
    assert len(world.asked) == 1, "what was found is not asked again"

    world.produce(1)
    world.marker()
    states = world.polls(12)
    assert world.partition().lag == 2
    assert states[-1] in (STALL, STOP), "now there is work"
    assert len(world.asked) <= 3


@BOTH
def test_a_group_that_keeps_up_behind_markers_is_well(has_commit_stream: bool) -> None:
    world = working(has_commit_stream=has_commit_stream)

    def step() -> None:
        world.produce(10)
        world.keep_up()
        world.marker()

    assert set(world.polls(40, step)) == {OK}


def test_two_groups_behind_one_marker_are_told_apart_by_what_they_read() -> None:
    """What is empty for one is behind a record for the other."""
    log = PartitionLog(0, 20, LogEnds())
    log.note_read(18, 20, 20)
    assert [log.next_record(at) for at in (5, 17, 18, 19, 20)] == [5, 17, 20, 20, 20]
    log.note_read(5, 20, 7)
    assert log.next_record(18) == 20
    assert log.readable == 7
    log.end = 25
    log.note_read(20, 25, 25)
    assert [log.next_record(at) for at in (5, 18, 20, 24)] == [5, 25, 25, 25]


@BOTH
def test_a_commit_beyond_the_end_of_the_log_is_named(has_commit_stream: bool) -> None:
    """No lag, and yet nothing is well: it reads nothing, or all again."""
    world = working(has_commit_stream=has_commit_stream)
    world.commit(10_000)
    world.poll()
    found = world.partition()
    assert (found.state, found.lag) == (OK, 0)
    assert (found.committed, found.beyond_end) == (10_000, 8_500)
    assert any("beyond the log's end" in one for one in said(world))
    world.keep_up()
    world.poll()
    assert world.partition().beyond_end == 0
    assert not said(world)


@BOTH
@pytest.mark.parametrize("after", ["stands still", "goes on"])
def test_rewound_does_not_hide_that_it_stands_still(has_commit_stream: bool, after: str) -> None:
    world = working(has_commit_stream=has_commit_stream)
    world.produce(10_000)
    world.keep_up()
    world.poll()
    world.commit(2_000)
    states = [
        *world.polls(12, lambda: world.commit(world.stored[0].offset + 10 * (after == "goes on")))
    ]
    assert set(states) == {REWIND}
    found = world.partition()
    stands_still = any("commits nothing new since" in one for one in said(world))
    if after == "goes on":
        assert found.pace in (OK, WARN)
        assert not stands_still
    else:
        assert found.pace is STALL
        assert stands_still


@BOTH
@pytest.mark.parametrize("polls_between", [1, 30])
def test_retention_is_no_progress(has_commit_stream: bool, polls_between: int) -> None:
    """What it takes from under a group that is gone moves nobody forward."""
    world = working(has_commit_stream=has_commit_stream)
    world.leaves("a")
    states: list[LagState] = []
    for _ in range(120 // polls_between):
        states += world.polls(polls_between, lambda: world.produce(100))
        world.starts[0] = world.ends[0] - 1_000  # a segment goes
    assert set(states[7:]) == {STOP}, "from when patience ended"
    found = world.partition()
    assert found.lost > 0
    assert found.clear_ms is None


@BOTH
def test_a_group_of_which_nothing_was_told_has_not_stopped_meanwhile(
    has_commit_stream: bool,
) -> None:
    """Its coordinator did not answer: what is known of it is as old as its last poll."""
    world = working(has_commit_stream=has_commit_stream)
    world.produce(100)
    assert world.polls(1) == [OK], "a moment's lag"
    for _ in range(30):
        world.now_ms += POLL_MS
        world.watch.groups_seen({GROUP: None}, world.now_ms, is_whole=False)
        world.watch.sampled({}, world.now_ms, infer_commits=not has_commit_stream)
        world.judged = world.watch.judged(world.now_ms, has_commit_stream=has_commit_stream)
        assert world.group.state is OK
    world.leaves("a")
    assert world.polls(1) == [STOP], "nothing was committed for five minutes, now that it is told"


def test_hot_cooling_and_cold_are_told_by_the_age_of_what_is_read_next() -> None:
    options = WatchOptions(LagRules(), horizon_ms=60 * POLL_MS)
    world = working(has_commit_stream=True, options=options)
    world.leaves("a")
    heats = []
    for _ in range(70):
        world.produce(100)
        world.poll()
        heats.append(world.group.heat)
    assert heats == sorted(heats, key=[Heat.HOT, Heat.COOLING, Heat.COLD].index)
    assert 28 <= heats.index(Heat.COOLING) <= 32
    assert 58 <= heats.index(Heat.COLD) <= 62


def test_time_to_clear_and_to_loss() -> None:
    world = working(has_commit_stream=True)
    world.topic = world.topic._replace(retention_ms=600_000)
    world.produce(10_000)
    world.polls(10, lambda: world.commit(world.stored[0].offset + 100))  # a whole window
    found = world.partition()
    assert found.lag == 9_000
    assert found.clear_ms is not None
    assert found.clear_ms == 90 * POLL_MS
    assert found.loss_ms is not None, "it clears later than retention takes it"
    assert 480_000 <= found.loss_ms <= 600_000
    world.polls(9, lambda: world.commit(world.stored[0].offset + 900))
    assert world.partition().loss_ms is None


def test_a_new_group_is_on_probation_until_it_has_kept_up() -> None:
    options = WatchOptions(LagRules(), probation_ms=30 * POLL_MS, probation_lag=1_000)
    world = World(options=options)
    world.watch.groups_seen({}, world.now_ms - POLL_MS)  # the monitor has polled: it was not there
    world.member("a", 0)

    def step() -> None:
        world.produce(100)
        world.keep_up()

    world.polls(20, step)
    assert world.watch.groups[GROUP].probation.admitted_ms is None
    world.produce(2_000)  # over the bound: it starts over
    world.poll()
    world.polls(29, step)
    assert world.watch.groups[GROUP].probation.admitted_ms is None
    world.polls(3, step)
    assert world.watch.groups[GROUP].probation.admitted_ms is not None


def test_a_group_that_was_there_before_the_monitor_is_not_on_probation() -> None:
    world = working(has_commit_stream=True)
    assert world.watch.groups[GROUP].probation.admitted_ms is not None


# ---- where Burrow says something else: each row of the table in docs/operate/consumer-groups.md


def test_burrow_a_step_back_within_min_distance() -> None:
    world = working(has_commit_stream=True)
    world.commit(1499)
    world.keep_up()
    world.polls(3)
    assert set(world.burrow_says) == {"OK"}
    assert len(world.watch.regressions) == 1


def test_burrow_forgets_a_rewind_that_leaves_its_window() -> None:
    world = working(has_commit_stream=True)
    at = 0

    def step() -> None:
        nonlocal at
        world.commit(at)
        at += 50

    begun = len(world.burrow_says)
    assert set(world.polls(20, step)) == {REWIND}
    assert world.burrow_says[begun : begun + 9] == ["REWIND"] * 9
    assert set(world.burrow_says[begun + 9 :]) == {"OK"}


def test_burrow_takes_a_stuck_commit_for_a_stop() -> None:
    world = working(has_commit_stream=True)
    world.commit(1498)
    assert set(world.polls(40)) == {REWIND}
    assert world.burrow_says[-1] == "STOP"
    assert "REWIND" in world.burrow_says


def test_burrow_and_a_slow_topic_whose_consumer_died() -> None:
    world = World(has_commit_stream=True)
    world.member("a", 0)
    for _ in range(12):  # a record every ten minutes
        world.polls(60)
        world.produce(1)
        world.keep_up()
    world.polls(60)
    world.leaves("a")
    world.produce(1)
    begun = len(world.burrow_says)
    ours = world.polls(600)
    assert ours.index(STOP) * POLL_MS <= 70_000
    assert world.burrow_says.index("STOP", begun) - begun > 250, "after 40 minutes and more"


def test_burrow_never_warns_of_commits_that_are_faster_than_its_refresh() -> None:
    world = working(has_commit_stream=True)

    def step() -> None:
        for _ in range(10):
            world.produce(20)
            world.commit(world.stored[0].offset + 10)
            world.now_ms += 1_000
        world.now_ms -= 10_000

    states = world.polls(30, step)
    assert states[-1] is WARN
    assert "WARN" not in world.burrow_says


def test_burrow_and_a_recreated_topic() -> None:
    world = working(has_commit_stream=True)
    world.topic = replace_id(world)
    world.ends[0] = 0
    del world.stored[0]
    world.watch.committed(GROUP, Partition(TOPIC, 0), None, world.now_ms, world.now_ms)
    world.poll()
    world.produce(10)
    world.commit(3)
    assert world.polls(3) == [OK] * 3
    assert "REWIND" in world.burrow_says


def test_burrow_does_not_see_a_member_without_a_commit() -> None:
    world = World(has_commit_stream=True)
    world.member("a", 0)
    world.poll()
    assert world.polls(12, lambda: world.produce(10))[-1] is STOP
    assert set(world.burrow_says) == {"OK"}


def test_a_topic_that_no_member_subscribes_to_any_more_is_unread_and_no_lag() -> None:
    world = World()
    world.member("m", 0)
    world.subscribed = frozenset([TOPIC])
    for _ in range(3):
        world.produce(5)
        world.keep_up()
        world.poll()
    world.member("m")
    world.members["m"].clear()  # the same member, with another subscription
    world.subscribed = frozenset(["others"])
    assert set(world.polls(30, lambda: world.produce(5))) == {LagState.OK}
    assert world.group.unread_topics == (TOPIC,)
    assert (world.group.lag, world.group.loss_ms) == (0, None)
    assert (world.partition().is_unread, world.partition().lag) == (True, 150)
    # During a rebalance the coordinator does not tell what members subscribe to.
    world.subscribed = None
    assert set(world.polls(5, lambda: world.produce(5))) == {LagState.OK}
    # Somebody subscribes to it again, and does nothing.
    world.subscribed = frozenset(["others", TOPIC])
    assert world.polls(10, lambda: world.produce(5))[-1] is LagState.STOP
    assert world.group.unread_topics == ()
    assert any("look at the log of the member" in hint for hint in said(world))


def test_without_members_or_subscriptions_that_are_known_a_lag_stays_a_stop() -> None:
    for subscribed, has_members in ((None, True), (frozenset(["others"]), False)):
        world = World()
        world.subscribed = subscribed
        world.commit(0)
        if has_members:
            world.member("m")
        assert world.polls(30, lambda world=world: world.produce(5))[-1] is LagState.STOP
