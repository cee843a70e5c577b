"""The diagnosis of a group: a table of situations, and the sentence, first cause and first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.kafka.groups import GroupMember, Partition
from headgate.monitor.diagnosis import (
    NOT_PAUSED,
    Diagnosis,
    NextRecord,
    PauseState,
    diagnose,
    facts_of,
    long,
)
from headgate.monitor.rules import LagSeries
from headgate.monitor.views import pause_state
from headgate.redis.pauses import ALL, Intent, Kept, PauseScope
from support.scenarios.group_world import GROUP, POLL_MS, TOPIC, World

RECORD = NextRecord(4, b"deal-3", 812_000)


def diagnosis_of(
    world: World, record: NextRecord | None = None, pause: PauseState = NOT_PAUSED
) -> Diagnosis:
    falls = [fall for fall in world.watch.regressions if fall.recovered_ms is None]
    now_ms = world.now_ms - POLL_MS
    fall = falls[-1] if falls else None
    watch = world.watch.groups[GROUP]
    return diagnose(facts_of(watch, world.group, now_ms, fall, record, pause))


def hung(polls: int = 60, **options: Any) -> World:
    """It read for a minute, and stands at offset 4 since."""
    world = World(**options)
    world.member("c1", 0)
    for _ in range(6):
        world.poll()
    world.commit(4)
    world.produce(7)
    world.poll()
    world.polls(polls, lambda: world.produce(1))
    return world


def without_members() -> World:
    world = hung()
    world.leaves("c1")
    world.poll()
    return world


def empty_and_done() -> World:
    world = World()
    world.produce(7)
    world.keep_up()
    world.polls(3)
    return world


def repeating() -> World:
    world = World()
    world.member("c1", 0)
    world.produce(7)
    world.commit(4)
    world.polls(40, lambda: world.commit(4))
    return world


def unowned() -> World:
    world = hung()
    world.members["c1"].clear()
    world.poll()
    return world


def never_committed() -> World:
    world = World()
    world.member("c1", 0)
    world.poll()
    world.polls(60, lambda: world.produce(1))
    return world


def left_topic() -> World:
    world = World()
    world.member("m", 0)
    world.subscribed = frozenset([TOPIC])
    world.produce(5)
    world.commit(2)
    world.poll()
    world.members["m"].clear()
    world.subscribed = frozenset(["others"])
    world.polls(30)
    return world


def behind() -> World:
    world = World()
    world.member("c1", 0)

    def step() -> None:
        world.produce(10)
        world.commit(world.stored[0].offset + 5 if 0 in world.stored else 0)

    world.polls(20, step)
    return world


def rewound() -> World:
    world = World()
    world.member("c1", 0)
    world.produce(200)
    world.commit(200)
    world.poll()
    world.commit(180, by="c1")
    world.poll()
    return world


def beyond() -> World:
    world = hung()
    world.leaves("c1")
    world.commit(99_999)
    world.polls(2)
    return world


def fine() -> World:
    world = World()
    world.member("c1", 0)
    world.member("c2")
    world.produce(3)
    world.keep_up()
    world.polls(3)
    return world


@pytest.mark.parametrize(
    ("world", "record", "sentence", "cause", "step"),
    [
        (hung, RECORD,
         "Partition 0 of orders has not moved from offset 4 for 10 minutes. Member c1-app is alive "
         "and still owns it. The next record's key is deal-3; it is 812 kB. The lag grows: 60 "
         "records more in 10 minutes.",
         "The next record is large", "Look at the log and the stack of member c1-app at 10.0.0.1"),
        (hung, NextRecord(6, None, 12),
         "and still owns it. The next record has no key; it is 12 B.",
         "The handler waits without a timeout in the record at offset 6", "Look at the log"),
        (hung, None, "is alive and still owns it. The lag grows",
         "The handler waits without a timeout in the record at offset 4", "Look at the log"),
        (lambda: hung(has_commit_stream=False), None, "c1-app is alive and still owns it.",
         "The handler waits", "Look at the log"),
        (repeating, None,
         "has not moved from offset 4 for at least 6 minutes. Member c1-app is alive and commits "
         "this offset again and again. The lag does not grow.",
         "The handler fails on the record at offset 4", "Look at the log"),
        (without_members, None,
         "The group is empty: it has no members, and 63 records wait. Partition 0 of orders has "
         "not moved from offset 4 for 10 minutes.",
         "Its consumers are stopped", "Start a consumer"),
        (empty_and_done, None,
         "The group is empty: it has no members, and no record waits.", None, None),
        (unowned, None, "for 10 minutes. No member owns it.", "The members subscribe to other",
         "Compare the subscriptions"),
        (never_committed, None, "Partition 0 of orders has no committed offset, for 9 minutes.",
         "The handler waits", "Look at the log"),
        (left_topic, None, "No member reads `orders`: delete its offsets.", None,
         "Delete the offsets that are left over: kafka-consumer-groups.sh --bootstrap-server BROKER"
         " --group billing --topic orders --delete-offsets"),
        (behind, None, "The group commits, but does not catch up: 105 records wait, most on "
         "partition 0 of orders. The lag grows:", "The members process fewer", "Compare the lag"),
        (rewound, None, "Partition 0 of orders went back from offset 200 to 180 at ",
         "A former owner committed", "Wait until the group reaches"),
        (beyond, None, "no members, and no record waits.", None, None),
        (lambda: hung(polls=3), None,
         "No fault is known yet: 6 records wait. Partition 0 of orders has not moved from offset 4 "
         "for 30 seconds.", None, None),
        (fine, None, "The group keeps up: no record waits. 1 member has no partition.", None, None),
    ],
)  # fmt: skip
def test_the_diagnosis_says_what_is_known_and_what_to_do(
    world: Callable[[], World],
    record: NextRecord | None,
    sentence: str,
    cause: str | None,
    step: str | None,
) -> None:
    said = diagnosis_of(world(), record)
    assert sentence in said.sentence
    assert (said.causes[0] if said.causes else "").startswith(cause or "")
    assert bool(said.causes) == (cause is not None)
    assert (said.next[0] if said.next else "").startswith(step or "")
    assert bool(said.next) == (step is not None)


def test_a_rewound_group_that_then_hangs_has_both_facts() -> None:
    world = rewound()
    world.polls(60, lambda: world.produce(1))
    said = diagnosis_of(world).sentence
    assert said.startswith("Partition 0 of orders went back from offset 200 to 180 at ")
    assert "by c1-app, and has not recovered. Partition 0 of orders has not moved from" in said


def test_while_the_cluster_is_away_nothing_is_known_to_stand_still() -> None:
    world = hung()
    world.now_ms += 3_600_000
    facts = facts_of(world.watch.groups[GROUP], world.group, world.now_ms)
    said = diagnose(facts._replace(unseen="no connection")).sentence
    assert said.startswith(
        "The cluster cannot be polled (no connection), so this is the last known state. Partition "
        "0 of orders has not moved from offset 4 for 10 minutes."
    )


def test_a_record_that_may_be_skipped_has_the_command_with_the_next_offset() -> None:
    (skip,) = [step for step in diagnosis_of(hung(), RECORD).next if "--reset-offsets" in step]
    assert "--topic orders:0 --reset-offsets --to-offset 5 --execute" in skip


def test_a_name_cannot_act_in_the_shell_of_an_operator() -> None:
    world = without_members()
    facts = facts_of(world.watch.groups[GROUP], world.group, world.now_ms)
    (command,) = [
        step for step in diagnose(facts._replace(group="a; rm -r b")).next if "rm" in step
    ]
    assert command.endswith("--group 'a; rm -r b' --delete")


def test_a_key_cannot_act_on_a_terminal_and_is_bounded() -> None:
    said = diagnosis_of(hung(), NextRecord(4, b"\x1b[2J\xff\n" + b"k" * 5_000, 9)).sentence
    assert "\x1b" not in said
    assert "\n" not in said
    assert len(said) < 500


# ---- pauses


def paused(world: World, *scopes: PauseScope, reads: bool | None) -> PauseState:
    watch = world.watch.groups[GROUP]
    members = tuple(each._replace(reads_pauses=reads) for each in watch.described.members)
    watch.update_members(watch.described._replace(members=members), world.now_ms)
    world.judged = world.watch.judged(world.now_ms, has_commit_stream=True)
    kept = [Kept(Intent(scope, "deploy"), "till", world.now_ms) for scope in scopes]
    return pause_state(watch, world.group, kept)


@pytest.mark.parametrize(
    ("scope", "reads", "sentence"),
    [
        (ALL, True, "The group is paused (all: deploy, by till): no member reads it, and 63 "),
        (ALL, None, "The group is paused (all: deploy, by till): no member reads it, and 63 "),
        (PauseScope(TOPIC), True, "`orders` is paused (orders: deploy, by till): no member reads"),
        (PauseScope(TOPIC, 0), True, "`orders-0` is paused (orders-0: deploy, by till): no"),
        (PauseScope("other"), True, "Partition 0 of orders has not moved from offset 4"),
        (ALL, False,
         "The group is paused (all: deploy, by till), which is not obeyed: 1 member does not use "
         "Headgate's consumer library with a pause store. Partition 0 of orders has not moved"),
    ],
)  # fmt: skip
def test_a_pause_is_the_diagnosis_and_says_if_it_is_not_obeyed(
    scope: PauseScope, reads: bool | None, sentence: str
) -> None:
    world = hung()
    assert diagnosis_of(world, None, paused(world, scope, reads=reads)).sentence.startswith(
        sentence
    )


def test_some_members_obey_and_some_do_not() -> None:
    world = hung(partitions=2)
    deaf = GroupMember("c2", "c2-app", "/h", frozenset([Partition(TOPIC, 1)]), None, False)
    watch = world.watch.groups[GROUP]
    members = (*(each._replace(reads_pauses=True) for each in watch.described.members), deaf)
    watch.update_members(watch.described._replace(members=members), world.now_ms)
    kept = [Kept(Intent(ALL, "deploy"), "till", world.now_ms)]
    assert pause_state(watch, world.group, kept).disobeyed.startswith("obeyed in part: 1 member ")
    kept = [Kept(Intent(PauseScope(TOPIC, 0), "deploy"), "till", world.now_ms)]
    assert pause_state(watch, world.group, kept).disobeyed == ""


# ---- lag over time


def test_the_lag_over_time_is_bounded_and_keeps_a_day() -> None:
    lags = LagSeries()
    for number in range(20_000):  # two days of polls
        lags.note(number * POLL_MS, number)
    points = lags.points()
    assert len(points) <= 300
    assert points[-100:] == [(number * POLL_MS, number) for number in range(19_900, 20_000)]
    assert points == sorted(points)
    assert 86_000_000 < points[-1][0] - points[0][0] < 90_000_000
    assert lags.change(19_999 * POLL_MS, 600_000, 60_000) == (60, 600_000)
    assert LagSeries().change(0, 600_000, 60_000) is None


@pytest.mark.parametrize(
    ("ms", "words"),
    [(1_000, "1 second"), (119_000, "119 seconds"), (120_000, "2 minutes"),
     (41 * 60_000, "41 minutes"), (7_200_000, "2 hours"), (259_200_000, "3 days")],
)  # fmt: skip
def test_durations_in_words(ms: int, words: str) -> None:
    assert long(ms) == words
