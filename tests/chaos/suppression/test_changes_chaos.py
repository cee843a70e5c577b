"""Policies change back and forth, the topic grows, processes die: no change is ever dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import pytest

from chaos.suppression.changing import ChangingStand
from chaos.suppression.history import Attempt, lost_events, wrong_answers
from chaos.suppression.moves import wrong_unchanged
from chaos.suppression.writers import Writers, write_while
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(1800)]
PARTITIONS = 3


class Run(NamedTuple):
    """rounds: of some seconds each.  growths, redis_kills: in which of them."""

    seed: int
    rounds: int
    growths: set[int]
    redis_kills: set[int]


RUNS = {"short": Run(1, 3, {1}, {2})}
LONG = {
    "long": Run(3, 40, {10, 30}, set()),
    "long-redis-killed": Run(4, 40, {10, 30}, set(range(3, 40, 4))),
}


async def happenings(it: ChangingStand, writers: Writers, run: Run) -> None:
    def saved() -> int:
        return writers.count("unchanged")

    await it.happenings(run.rounds, run.growths, run.redis_kills, saved)


def described(attempts: list[Attempt]) -> str:
    return "\n".join(map(str, attempts[:5]))


@pytest.mark.parametrize(
    "run",
    [
        *(pytest.param(run, id=name) for name, run in RUNS.items()),
        *(pytest.param(run, id=name, marks=pytest.mark.full) for name, run in LONG.items()),
    ],
)
async def test_no_change_is_dropped(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    record_property: Callable[[str, object], None],
    run: Run,
) -> None:
    kafka.create_topic(topic_name, PARTITIONS)
    it = ChangingStand(kafka, start_redis(), topic_name, run.seed, PARTITIONS)
    it.start(start_gateway)
    await it.wait_until_ready()
    writers = Writers(
        [one.url for one in it.gateways], topic_name, run.seed, hot_keys=3, sequential_keys=20,
        reconnects=True,
    )  # fmt: skip
    await write_while(writers, lambda: happenings(it, writers, run))
    log = await it.log()
    outcomes = Counter(str(attempt.outcome) for attempt in writers.attempts)
    wrong = wrong_answers(writers.attempts, log)
    figures = {"happened": dict(it.happened), "outcomes": dict(outcomes), "wrong": len(wrong)}
    record_property("changes", figures)
    print(figures)  # noqa: T201 the figures of the run
    assert not wrong, f"{figures}\n{described(wrong)}"
    beside = list(islice(wrong_unchanged(writers.sequential, log), 5))
    assert not beside, "\n".join(beside)
    assert not lost_events(writers.attempts, log)
    assert min(outcomes["unchanged"], outcomes["published"]) > 100, outcomes
    assert it.happened["growth"] == len(run.growths)
    assert it.happened["Redis killed"] == len(run.redis_kills)
