"""A copier killed or frozen at random moments, without Spark: fencing, resuming, exactly once."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from headgate.devstack.child import Child
from support.process.stack import PATIENCE, RunningBroker
from support.scenarios import mirror_world
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


def said(child: Child) -> str:
    return child.log.read_text(errors="replace")


def ended(child: Child) -> bool:
    return child.exit_code is not None


def wait_for(child: Child, until: Callable[[], bool], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s * PATIENCE
    while not until():
        assert time.monotonic() < end, said(child)
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("records", "kills"),
    [pytest.param(4_000, 5, id="scaled"),
     pytest.param(40_000, 60, id="full", marks=pytest.mark.full)],
)  # fmt: skip
def test_I4_I5_I6_a_killed_copier_goes_on_without_loss_or_repetition(
    two: Two, topic_name: str, start_copier: Callable[..., Child], records: int, kills: int
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    source = OddSource(two.source, topic_name, seed)
    source.write(0, records)
    unit = mirror_world.unit(two, topic_name)
    options, cut_short = two.options(chunk_records=max(10, records // kills // 25)), 0
    for _ in range(kills):
        copier = start_copier(unit, options)
        wait_for(copier, lambda copier=copier: said(copier).count("\n") >= 2 or ended(copier))  # type: ignore[misc]
        time.sleep(chance.random() * 0.1)
        copier.kill()
        if "done" in said(copier):  # all was copied before the kill: there must be more of it
            source.write(0, records // 2)
            unit = mirror_world.unit(two, topic_name)
        else:
            cut_short += 1
    assert cut_short >= kills // 3, "they were too quick to be killed"
    last = start_copier(unit, options)
    wait_for(last, lambda: last.exit_code is not None)
    assert last.exit_code == 0, said(last)
    assert mirror_world.judge(two, topic_name) >= records, f"seed {seed}"


def test_I7_a_copier_that_was_frozen_and_replaced_cannot_commit(
    two: Two, topic_name: str, start_copier: Callable[..., Child]
) -> None:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    OddSource(two.source, topic_name, seed=7).write(0, 3000)
    unit = mirror_world.unit(two, topic_name)
    # slow, as it must not be done before it is frozen; what it has waited for is there after that
    frozen = start_copier(unit, two.options(chunk_records=50, bytes_per_s=30_000))
    wait_for(frozen, lambda: said(frozen).count("\n") >= 3)
    frozen.signal(signal.SIGSTOP)
    second = start_copier(unit, two.options(chunk_records=400))
    wait_for(second, lambda: said(second).count("\n") >= 3)
    frozen.signal(signal.SIGCONT)
    for one in (frozen, second):
        wait_for(one, lambda one=one: one.exit_code is not None)  # type: ignore[misc]
    assert "FencedError" in said(frozen)
    assert second.exit_code == 0, said(second)
    assert mirror_world.judge(two, topic_name) >= 3000


def test_I7_of_several_copiers_at_once_each_takes_over_where_the_one_before_it_is(
    two: Two, topic_name: str, start_copier: Callable[..., Child]
) -> None:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    OddSource(two.source, topic_name, seed=8).write(0, 1000)
    copiers = list[Child]()
    with writing(two, topic_name):  # so that nobody is ever done
        follow = mirror_world.unit(two, topic_name, end=None)
        for _ in range(5):
            one = start_copier(follow, two.options(chunk_records=20, interval_s=0.2))
            wait_for(one, lambda one=one: said(one).count("\n") >= 3)  # type: ignore[misc]
            copiers.append(one)
        *replaced, last = copiers
        for one in replaced:
            wait_for(one, lambda one=one: ended(one))  # type: ignore[misc]
    assert all("FencedError" in said(one) for one in replaced)
    assert not ended(last), said(last)
    last.kill()
    rest = start_copier(mirror_world.unit(two, topic_name), two.options())
    wait_for(rest, lambda: ended(rest))
    assert rest.exit_code == 0, said(rest)
    assert mirror_world.judge(two, topic_name) >= 1000


@contextmanager
def writing(two: Two, topic: str) -> Iterator[None]:
    """Records come as long as the block runs."""
    source, is_over = OddSource(two.source, topic, seed=9), threading.Event()

    def write() -> None:
        while not is_over.wait(0.05):
            source.write(0, 40)

    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(write)
        try:
            yield
        finally:
            is_over.set()
        going_on.result()
