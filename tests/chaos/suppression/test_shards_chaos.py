"""Several Redis servers, one killed, or their list changed under racing writers: no change is
dropped, and suppression comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from chaos.suppression.history import lost_events, wrong_answers
from chaos.suppression.shards import CarelessGateway, Shards
from chaos.suppression.writers import DENSE_S, Writers, write_while
from support.process.stack import Gateway, RunningBroker, RunningRedis
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(1200)]
ALL = (0, 1, 2)
THREE_TWO_THREE = [ALL, (0, 1), ALL]
ONE_TWO = [(0,), (0, 1)]
STEPS = [
    pytest.param(THREE_TWO_THREE, id="3-2-3", marks=pytest.mark.full),
    pytest.param(ONE_TWO, id="1-2"),
]


@pytest.fixture
def shards(
    kafka: RunningBroker, start_redis: Callable[..., RunningRedis], topic_name: str
) -> Shards:
    kafka.create_topic(topic_name, 6)
    return Shards(kafka, [start_redis() for _ in ALL], topic_name, 1)


async def judge(it: Shards, writers: Writers, note: Callable[[str, object], None]) -> None:
    log = await it.log()
    outcomes = Counter(str(attempt.outcome) for attempt in writers.attempts)
    wrong = wrong_answers(writers.attempts, log)
    note("shards", {"kills": it.kills, "outcomes": dict(outcomes), "wrong": len(wrong)})
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert not lost_events(writers.attempts, log)
    assert min(outcomes["unchanged"], outcomes["published"]) > 100, outcomes


@pytest.mark.parametrize("kills", scaled(2, 20))
async def test_one_of_three_is_killed(
    shards: Shards,
    start_gateway: Callable[..., Gateway],
    record_property: Callable[[str, object], None],
    kills: int,
) -> None:
    await shards.start(lambda text: start_gateway(text, wait=False), ALL)
    writers = Writers(shards.urls, shards.topic, 1)
    others: list[int] = []

    async def faults() -> None:
        await shards.until_saved(writers)
        for number in range(kills):
            before = writers.count("unchanged")
            await shards.kill_redis(number % 3, snapshot=number % 2 == 1)
            others.append(writers.count("unchanged") - before)
            await shards.until_saved(writers)

    await write_while(writers, faults)
    await judge(shards, writers, record_property)
    assert sum(others) > 0, "while one server is away the others suppress"


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("rounds", scaled(1, 8))
async def test_the_list_changes(
    shards: Shards,
    start_gateway: Callable[..., Gateway],
    record_property: Callable[[str, object], None],
    steps: Sequence[Sequence[int]],
    rounds: int,
) -> None:
    await shards.start(lambda text: start_gateway(text, wait=False), steps[0])
    writers = Writers(shards.urls, shards.topic, 1)

    async def changes() -> None:
        await shards.until_saved(writers)
        for _ in range(rounds):
            for servers in [*steps[1:], *steps[-2::-1]]:
                await shards.change(servers)
                await shards.until_saved(writers)

    await write_while(writers, changes)
    await judge(shards, writers, record_property)


@pytest.fixture
def start_careless(tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    numbers = count(1)
    with ExitStack() as ending:

        def start(text: str) -> Gateway:
            gateway = CarelessGateway(tmp_path / f"careless-{next(numbers)}", text)
            ending.callback(gateway.kill)
            return gateway

        yield start


@pytest.mark.full  # test_history.py shows in memory that wrong answers are found
@pytest.mark.parametrize("steps", STEPS)
async def test_the_harness_sees_what_gateways_that_agree_on_nothing_do_wrong(
    shards: Shards, start_careless: Callable[[str], Gateway], steps: Sequence[Sequence[int]]
) -> None:
    await shards.start(start_careless, steps[0])
    writers = Writers(shards.urls, shards.topic, 1, pause_s=DENSE_S)

    async def changes() -> None:
        await shards.until_saved(writers)
        for servers in steps[1:]:
            await shards.change(servers)

    await write_while(writers, changes)
    assert wrong_answers(writers.attempts, await shards.log())
