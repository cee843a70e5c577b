"""Two gateways are replaced one after the other by the other version, under load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.upgrades.former import Step, Version
from support.upgrades.rolling import Member, RollingLoad, judge, judge_held

CONFIG = """
[http]
request_timeout_ms = 20000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
urls = {redis}
quarantine_ms = 1000
timeout_ms = 5000
[coalescer]
session_timeout_ms = 6000
[topics."{topic}"]
kind = "state"
key = ["/id"]
suppress = "raw"
[topics."held-{topic}"]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = 100
coalesce_max_delay_ms = 500
coalesce_partitions = 2
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("step", "servers", "events"),
    [
        ("upgrade", 1, 300),
        ("rollback", 3, 300),
        *(
            pytest.param(step, servers, 2_000, marks=pytest.mark.full)
            for step in ("upgrade", "rollback")
            for servers in (1, 3)
        ),
    ],
    indirect=["step"],
)
async def test_a_rolling_step_keeps_order_and_suppresses_nothing_wrongly(
    step: Step,
    servers: int,
    events: int,
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    held = f"held-{topic_name}"
    kafka.create_topic(topic_name, 3)
    kafka.create_topic(held, 3)
    urls = json.dumps([start_redis().url for _ in range(servers)])
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=urls, topic=topic_name)

    def start(version: Version) -> Member:
        return Member(version, start_gateway(text, environment=version.environment, wait=False))

    initial = start(step.before)
    done = step.before.run("init", "--config", str(initial.gateway.config))
    assert done.returncode == 0, done
    load = RollingLoad([topic_name, held], seed=events)
    running = asyncio.create_task(load.run())
    gateways = [initial, start(step.before)]
    for one in gateways:
        await asyncio.to_thread(one.gateway.wait)
    load.members += gateways
    await more(load, events)
    came: list[Member] = []
    for leaving in gateways:
        coming = start(step.after)
        await asyncio.to_thread(coming.gateway.wait)
        load.members.append(coming)
        came.append(coming)
        await more(load, events)
        load.members.remove(leaving)
        leaving.gateway.terminate()
        await eventually(lambda one=leaving: one.gateway.exit_code is not None, 30)
        assert leaving.gateway.exit_code == 0
        await more(load, events)
    load.stop()
    await running
    seen = judge(kafka.bootstrap, topic_name, load.answered)
    assert min(seen["same"], seen["other"]) > events // 50, seen
    last = {key: answers[-1].content for (of, key), answers in load.answered.items() if of == held}

    def is_released() -> bool:
        log = kafka_log.read_log(kafka.bootstrap, held)
        found = {one.key.decode(): one.value for one in log if one.key}
        return all(b'"v": %d}' % last[key] in (found.get(key) or b"") for key in last)

    await eventually(is_released, 30, 0.3)
    assert judge_held(kafka.bootstrap, held, load.answered) < load.count()
    for one in (*gateways, *came):
        assert "Traceback" not in one.gateway.log()


async def more(load: RollingLoad, events: int) -> None:
    """Wait until so many more are answered."""
    wanted = load.count() + events
    await eventually(lambda: load.count() >= wanted, 120)
