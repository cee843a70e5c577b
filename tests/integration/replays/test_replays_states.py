"""Runners that die or stand still at each step from one state of a replay to the next."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headgate.devstack.child import Child
from support.process import faulty_runner
from support.scenarios.replay_copies import replayed, state_of, topics_of, until_ready, wanted
from support.scenarios.replay_world import Api, ReplayRunner, Two, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

FULL = pytest.mark.full
StartFaulty = Callable[..., Child]
# What the runner tells, whether it dies before or after the commit, and the state that is left.
DEATHS = (
    ("planned", "before", "pending"),  # its topic is made already
    ("planned", "after", "planned"),
    ("copying", "before", "planned"),
    ("copying", "after", "copying"),
    ("copying", "before", "copying"),  # with the records of a chunk in its transaction
    ("ready", "before", "copying"),
    ("ready", "after", "ready"),
)


@pytest.fixture
def start_faulty(two: Two, tmp_path: Path) -> Iterator[StartFaulty]:
    """`start_faulty(id, state, when, signal)`: see faulty_runner.py."""
    numbers, config = count(1), tmp_path / "faulty.toml"
    config.write_text(two.config())
    with ExitStack() as ending:

        def start(replay_id: str, state: str, when: str, name: str) -> Child:
            arguments = (str(config), replay_id, state, when, name)
            command = [sys.executable, faulty_runner.__file__, *arguments]
            child = Child("runner", command, tmp_path / f"faulty-{next(numbers)}.log")
            ending.callback(lambda: sys.stdout.write(child.log.read_text()))  # shown when it fails
            ending.callback(child.kill)
            ending.callback(child.signal, signal.SIGCONT)
            return child

        yield start


@pytest.mark.parametrize("deaths", [DEATHS[:2], pytest.param(DEATHS, marks=FULL)], ids=len)
def test_killed_at_each_step_it_goes_on_from_the_state_that_is_left(
    two: Two,
    topic: str,
    api: Api,
    start_faulty: StartFaulty,
    start_runner: Callable[[], ReplayRunner],
    deaths: Any,
) -> None:
    made = api.create(topic).page
    for told, when, left in deaths:
        runner = start_faulty(made["id"], told, when, "KILL")
        until(lambda one=runner: one.exit_code is not None, bool)
        assert runner.exit_code == -signal.SIGKILL, runner.log.read_text()
        until(lambda: state_of(api, made), left.__eq__)
    start_runner()
    until_ready(api, made)
    assert replayed(two, made) == wanted(two, topic, lambda _: True)


@pytest.mark.parametrize("then", ["another runner", pytest.param("the same", marks=FULL)])
def test_cancelled_while_it_is_planned(
    two: Two,
    topic: str,
    api: Api,
    start_faulty: StartFaulty,
    start_runner: Callable[[], ReplayRunner],
    then: str,
) -> None:
    made = api.create(topic).page
    runner = start_faulty(made["id"], "planned", "after", "STOP")
    until(lambda: state_of(api, made), "planned".__eq__)
    assert f"replay.{made['id']}" in topics_of(two)
    cancelled = api.ask("DELETE", f"/v1/replays/{made['id']}")
    assert (cancelled.status, cancelled.page["state"]) == (200, "planned")
    assert cancelled.page["reason"] == "cancelled; the runner has yet to clean up"
    if then == "the same":
        runner.signal(signal.SIGCONT)
    else:
        runner.signal(signal.SIGKILL)
        start_runner()
    until(lambda: state_of(api, made), "cancelled".__eq__)
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" not in names)
    assert api.ask("POST", f"/v1/replays/{made['id']}/resume").status == 409


@FULL
def test_paused_while_it_is_planned_it_is_not_copied_until_it_is_resumed(
    two: Two, topic: str, api: Api, start_faulty: StartFaulty
) -> None:
    made = api.create(topic).page
    runner = start_faulty(made["id"], "planned", "after", "STOP")
    until(lambda: state_of(api, made), "planned".__eq__)
    assert api.ask("POST", f"/v1/replays/{made['id']}/pause").status == 200
    runner.signal(signal.SIGCONT)
    other = api.create(topic).page  # the runner goes on with others meanwhile
    until_ready(api, other)
    # the runner may have been one step ahead of what it has read
    assert state_of(api, made) in ("planned", "copying")
    assert api.ask("POST", f"/v1/replays/{made['id']}/resume").status == 200
    until_ready(api, made)
    assert replayed(two, made) == wanted(two, topic, lambda _: True)


@FULL
def test_cancelled_while_the_runner_stands_still_in_the_transaction_that_plans_it(
    two: Two, topic: str, api: Api, start_faulty: StartFaulty
) -> None:
    """Its open transaction hides the log's end: the API waits until Kafka has ended it."""
    made = api.create(topic).page
    runner = start_faulty(made["id"], "planned", "before", "STOP")
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" in names)
    until(lambda: api.ask("DELETE", f"/v1/replays/{made['id']}").status, (200).__eq__, 120)
    assert state_of(api, made) == "cancelled"  # nobody had told that it was begun
    runner.signal(signal.SIGCONT)
    until(lambda: topics_of(two), lambda names: f"replay.{made['id']}" not in names)
    assert state_of(api, made) == "cancelled"
