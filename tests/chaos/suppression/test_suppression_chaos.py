"""No outage, race or death makes the gateway drop a change: real Kafka, real Redis, 2 gateways."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from chaos.suppression.history import Attempt, lost_events, savings, wrong_answers
from chaos.suppression.stand import QUARANTINE_S, EpochGateway, Stand, stand
from chaos.suppression.writers import DENSE_S, Writers, write_while
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(1200)]
DELAYS_S = (0.0, 0.06)


def describe(attempts: list[Attempt]) -> str:
    return "\n".join(map(str, attempts[:10]))


async def faults(it: Stand, kills: int, seed: int) -> None:
    """Redis dies `kills` times, half of them with snapshots; around it other things happen."""
    chance = random.Random(seed)
    await asyncio.sleep(QUARANTINE_S + 1.0)
    for number in range(kills):
        # With snapshots in the second half: an empty start must not clean up after them.
        kill = it.kill_redis(chance.random() * 0.4, snapshot=number >= kills // 2)
        if number % 4 == 1:
            await asyncio.gather(kill, it.stop_broker(0.2 + chance.random() * 0.5))
        elif number % 4 == 3:
            await asyncio.gather(kill, it.kill_gateway(number // 4 % 2))
        else:
            await kill
        if number % 4 == 2:
            await it.stop_broker(0.2 + chance.random() * 0.5)
        await asyncio.sleep(QUARANTINE_S + 0.5 + chance.random())


async def check_history(it: Stand, writers: Writers, note: Callable[[str, object], None]) -> None:
    log = await it.log()
    outcomes = Counter(str(attempt.outcome) for attempt in writers.attempts)
    wrong = wrong_answers(writers.attempts, log)
    note("suppression", {"kills": it.kills, "outcomes": dict(outcomes), "wrong": len(wrong)})
    assert not wrong, describe(wrong)
    assert not lost_events(writers.attempts, log)
    assert outcomes["unchanged"] > 100, outcomes  # else there was nothing to be wrong
    assert outcomes["published"] > 100, outcomes


async def run_faults(
    kills: int,
    seed: int,
    start_broker: Callable[..., RunningBroker],
    redis: RunningRedis,
    start: Callable[[str], Gateway],
    topic: str,
    note: Callable[[str, object], None],
) -> None:
    async with stand(start_broker, redis, start, topic, DELAYS_S, seed) as it:
        writers = Writers(it.urls, topic, seed)
        await write_while(writers, lambda: faults(it, kills, seed))
        assert it.kills == kills
        await check_history(it, writers, note)


@pytest.mark.parametrize("kills", scaled(4, 50))  # of four kinds: with them other things happen
async def test_no_change_is_dropped(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    record_property: Callable[[str, object], None],
    kills: int,
) -> None:
    start = lambda text: start_gateway(text, wait=False)  # noqa: E731
    redis = start_redis()
    await run_faults(kills, kills, start_broker, redis, start, topic_name, record_property)


@pytest.mark.parametrize("wanted", scaled(120, 1_000))
async def test_possible_savings_are_made_without_faults(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    record_property: Callable[[str, object], None],
    wanted: int,
) -> None:
    start = lambda text: start_gateway(text, wait=False)  # noqa: E731
    # A call that takes long is no fault here: what is bypassed cannot be saved.
    async with stand(
        start_broker, start_redis(), start, topic_name, (0.0, 0.005), 1, redis_timeout_ms=5_000
    ) as it:
        writers = Writers(it.urls, topic_name, 1)
        await write_while(writers, lambda: asyncio.sleep(QUARANTINE_S + 1.0))
        since = time.monotonic()

        async def enough() -> None:
            await eventually(lambda: savings(writers.sequential, since)[1] > wanted, 60, 0.5)

        await write_while(writers, enough)
        saved, possible = savings(writers.sequential, since)
        record_property("savings", {"saved": saved, "possible": possible})
        await check_history(it, writers, record_property)
        assert possible > wanted
        assert saved >= 0.9 * possible, (saved, possible)


@pytest.fixture
def start_epoch_gateway(tmp_path: Path) -> Iterator[Callable[[str], Gateway]]:
    numbers = count(1)
    with ExitStack() as ending:

        def start(text: str) -> Gateway:
            gateway = EpochGateway(tmp_path / f"epoch-{next(numbers)}", text)
            ending.callback(gateway.kill)
            return gateway

        yield start


@pytest.mark.full  # test_history.py shows in memory that wrong answers are found
async def test_the_harness_sees_what_an_epoch_counter_does_wrong(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_epoch_gateway: Callable[[str], Gateway],
    topic_name: str,
    record_property: Callable[[str, object], None],
) -> None:
    redis = start_redis()
    async with stand(start_broker, redis, start_epoch_gateway, topic_name, DELAYS_S, 2) as it:
        writers = Writers(it.urls, topic_name, 2, pause_s=DENSE_S)
        wrong: list[Attempt] = []
        for _ in range(96):  # a slow machine makes fewer races
            await write_while(writers, lambda: asyncio.sleep(1.0))
            wrong = wrong_answers(writers.attempts, await it.log())
            if wrong:
                break
        record_property("epoch", {"unchanged": writers.count("unchanged"), "wrong": len(wrong)})
        assert wrong
