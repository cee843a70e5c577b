"""Whatever dies or hangs: the last answered state of each key is the last in the log, once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chaos.coalescer.clients import Clients
from chaos.coalescer.stand import CLOCKS, Logs, Stand, prepare
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(3600)]
Note = Callable[[str, object], None]


@pytest.fixture
async def it(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
    seed: int,
) -> Stand:
    redis = start_redis()
    text = prepare(kafka, redis.url, topic_name, tmp_path).read_text()
    gateways = [start_gateway(text, "--workers", "2", wait=False) for _ in range(2)]
    for gateway in gateways:
        await eventually(lambda one=gateway: asyncio.to_thread(one.is_ready), 60.0)
    return Stand(redis, gateways, Logs(kafka, topic_name), seed)


async def run_round(it: Stand, clients: Clients, faults: Sequence[str]) -> None:
    """A burst in which these happen; then wait until everything held is decided."""
    stop = asyncio.Event()

    async def all_faults() -> None:
        await asyncio.sleep(1.0)
        try:
            await asyncio.gather(*(after(name) for name in faults))
            await asyncio.sleep(1.0)
        finally:
            stop.set()

    async def after(name: str) -> None:
        await asyncio.sleep(3 * it.random.random())
        await it.faults[name]()

    async with asyncio.TaskGroup() as group:
        group.create_task(clients.burst(stop))
        group.create_task(all_faults())
    await it.logs.until_decided()


async def check(it: Stand, clients: Clients, done: Sequence[str], note: Note) -> None:
    """note: figures for tests/RESULTS.md."""
    histories = await it.logs.histories(clients.sent)
    outcomes = Counter(str(one.outcome) for one in clients.sent)
    records = sum(map(len, histories.topic.values()))
    early = histories.early(CLOCKS)
    figures = {"faults": Counter(done), "answers": outcomes, "records": records,
               "early": early.total(), "lives": _lives(it)}  # fmt: skip
    note("coalescing", str(figures))  # what pytest-xdist can send: no Counter
    sys.stderr.write(f"{figures}\n")
    assert not histories.violations(), histories.violations()[:10]
    # A death may end each key's window before its time, nothing else may.
    assert all(count <= len(done) for count in early.values()), early
    assert outcomes["held"] > 2 * records, figures  # else nothing was coalesced


def _lives(it: Stand) -> int:
    return sum(gateway.log().count(" restarts: ") for gateway in it.gateways)


async def test_nothing_is_lost_or_repeated_when_owners_and_redis_die(
    it: Stand, seed: int, topic_name: str, record_property: Note
) -> None:
    clients = Clients([one.url for one in it.gateways], topic_name, seed)
    faults = ["stop a worker", "kill Redis", "kill a worker", "kill a gateway"]
    await run_round(it, clients, faults)
    await check(it, clients, faults, record_property)


async def test_nothing_is_lost_or_repeated_while_the_option_comes_and_goes(
    it: Stand, seed: int, topic_name: str, record_property: Note
) -> None:
    """Each gateway by its own file and at its own time, beside the death of owners."""
    clients = Clients([one.url for one in it.gateways], topic_name, seed)
    it.faults["change a file"] = it.change_file
    for faults in (["change a file"] * 5, ["change a file"] * 3 + ["kill a worker"]):
        await run_round(it, clients, faults)
    histories = await it.logs.histories(clients.sent)
    assert not histories.violations(), histories.violations()[:10]
    outcomes = Counter(str(one.outcome) for one in clients.sent)
    record_property("coalescing", str(outcomes))
    assert outcomes["held"]
    assert not outcomes["published"], outcomes  # nobody publishes past what is held


@pytest.mark.full
async def test_nothing_is_lost_or_repeated_in_60_random_faults(
    it: Stand, seed: int, topic_name: str, record_property: Note
) -> None:
    clients = Clients([one.url for one in it.gateways], topic_name, seed)
    done: list[str] = []
    for _ in range(30):
        faults = it.random.choices(list(it.faults), k=2)
        await run_round(it, clients, faults)
        done += faults
        violations = (await it.logs.histories(clients.sent)).violations()
        assert not violations, (faults, violations[:10])
    await check(it, clients, done, record_property)
