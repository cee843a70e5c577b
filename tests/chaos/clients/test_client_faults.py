"""The Python client's producers against a real gateway while everything around them breaks.

The log must hold every event that the client calls published, at the place that it names; each key
in the order in which it was sent; and no event twice, unless an attempt of it had no known end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

from chaos.clients.judge import BETWEEN, DEADLINE_S, Stand, lost, out_of_order, repeated
from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    Buffering,
    Client,
    Event,
)
from support.clients.recording import AsyncRecordingTransport, RecordingTransport
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
[redis]
url = "{redis}"
claim_ms = 3000
timeout_ms = 1000
[topics."{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
"""
SENDERS = 3
PACE_S = 0.003  # of a sender: what is written has to be read again
BUFFERING = Buffering(max_events=2000, in_flight=3)


class World(NamedTuple):
    """What can break."""

    stand: Stand
    gateways: list[Gateway]
    kafka: RunningBroker
    redis: RunningRedis


def lane_of(topic: str, event: object) -> str:
    assert isinstance(event, Event)
    assert isinstance(event.value, dict)
    return str(event.value["id"])


def send_from_threads(stand: Stand) -> bool:
    """Send until told to stop; return whether everything ended by itself."""
    transport = RecordingTransport(stand.record)
    with Client(stand.urls, transport=transport, **stand.options) as client:
        producer = BufferedProducer(client, buffering=BUFFERING, lane_of=lane_of)

        def send(sender: int) -> None:
            for number in count():
                if stand.stop.wait(PACE_S):
                    return
                producer.send(stand.topic, stand.new(sender, number))

        with ThreadPoolExecutor(SENDERS) as pool:
            for running in [pool.submit(send, number) for number in range(SENDERS)]:
                running.result(DEADLINE_S * 2)
        return producer.close(DEADLINE_S)


def send_from_a_loop(stand: Stand) -> bool:
    """Do the same with asyncio."""

    async def work() -> bool:
        transport = AsyncRecordingTransport(stand.record)
        async with AsyncClient(stand.urls, transport=transport, **stand.options) as client:
            producer = AsyncBufferedProducer(client, buffering=BUFFERING, lane_of=lane_of)

            async def send(sender: int) -> None:
                for number in count():
                    if stand.stop.is_set():
                        return
                    await producer.send(stand.topic, stand.new(sender, number))
                    await asyncio.sleep(PACE_S)

            await asyncio.gather(*(send(number) for number in range(SENDERS)))
            return await producer.close(DEADLINE_S)

    return asyncio.run(work())


def kill(world: World) -> None:
    """kill -9 of all processes of a gateway, and start it again."""
    gateway = world.gateways[0]
    for pid in gateway.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gateway.kill()
    gateway.restart()


def drain(world: World) -> None:
    """SIGTERM to one gateway after the other; each comes back before the next one goes."""
    for gateway in world.gateways:
        gateway.restart()


def lose_kafka(world: World) -> None:
    """Kafka stands still until requests fail, then goes on."""
    before = world.stand.record.failed
    world.kafka.pause()
    world.stand.wait_until(lambda: world.stand.record.failed > before, "a request fails")
    world.kafka.resume()
    world.kafka.wait()


def lose_redis(world: World) -> None:
    """Redis ends with everything it knew, and comes back empty."""
    world.redis.kill()
    world.redis.restart()


Fault = Callable[[World], None]
SHELLS = {"threads": send_from_threads, "loop": send_from_a_loop}
SCALED, FULL = 1, 15  # rounds
SHOWN: dict[str, tuple[Fault, int, str]] = {  # how many gateways there are, and who sends
    "kill-1-threads": (kill, 1, "threads"),
    "kill-2-loop": (kill, 2, "loop"),
    "drain-2-threads": (drain, 2, "threads"),
    "drain-1-loop": (drain, 1, "loop"),
    "lose_kafka-1-threads": (lose_kafka, 1, "threads"),
    "lose_redis-1-loop": (lose_redis, 1, "loop"),
}
# The longest: a drain alone, and another address alone, are among the others.
FULL_ALONE = {"drain-2-threads"}


def cases() -> Iterator[ParameterSet]:
    for name, case in SHOWN.items():
        if name not in FULL_ALONE:
            yield pytest.param(*case, SCALED, id=f"{name}-scaled")
        yield pytest.param(*case, FULL, id=f"{name}-full", marks=pytest.mark.full)


@pytest.mark.timeout(1200)  # fifteen rounds of two gateways that start, beside other work
@pytest.mark.parametrize(("fault", "gateways", "shell", "rounds"), [*cases()])
def test_nothing_is_lost_and_each_key_keeps_its_order(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    fault: Fault,
    gateways: int,
    shell: str,
    rounds: int,
) -> None:
    kafka, redis = pausable, start_redis()
    kafka.create_topic(topic_name, 3)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    started = [start_gateway(text, wait=False) for _ in range(gateways)]
    for gateway in started:
        gateway.wait()
    stand = Stand([one.url for one in started], topic_name)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(SHELLS[shell], stand)
        try:
            stand.wait_for_more()
            for _ in range(rounds):
                fault(World(stand, started, kafka, redis))
                stand.wait_for_more()
        finally:
            stand.stop.set()
        assert running.result(DEADLINE_S * 2)
    log = read_log(kafka.bootstrap, topic_name)
    assert len(stand.sent) > BETWEEN * rounds
    figures = f"{len(stand.sent)} events, {stand.record.failed} failed attempts, {len(log)} records"
    sys.stderr.write(f"CLIENT_CHAOS {fault.__name__}-{gateways}-{shell}: {figures}\n")
    assert lost(stand, log) == []
    assert out_of_order(stand, log) == []
    assert repeated(stand, log) == []
    if fault is drain:  # who drains knows how everything ended
        assert len(log) == len(stand.sent)
