"""An owner that is stopped in the middle of a transaction, and goes on when another one owns."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient

from chaos.coalescer.coalescer_process import STEPS
from chaos.coalescer.history import Sent
from chaos.coalescer.stand import GROUP, Logs, prepare
from headgate.devstack.child import Child
from headgate.model.internal_topics import held_topic
from headgate.model.record import EVENT_ID, PRODUCER, RECEIVED_AT
from support.process.stack import RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(900)]
SCRIPT = Path(__file__).with_name("coalescer_process.py")


class Writer:
    """Holds events as a gateway does."""

    def __init__(self, kafka: RunningBroker, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "enable.idempotence": True}
        )
        self._held = held_topic(topic)
        self.sent: list[Sent] = []

    def hold(self, key: str, content: str) -> None:
        event_id, value = f"{key}-{len(self.sent)}", content.encode()
        headers: list[tuple[str, str | bytes | None]] = [
            (EVENT_ID, event_id.encode()),
            (PRODUCER, b"tests"),
            (RECEIVED_AT, b"%d" % (time.time_ns() // 1_000_000)),
        ]
        self._producer.produce(self._held, value, key.encode(), partition=0, headers=headers)
        assert self._producer.flush(60) == 0
        self.sent.append(Sent(event_id, key, value, "held"))


class Zombies:
    """One held partition, its owner and a successor."""

    def __init__(
        self, kafka: RunningBroker, config: Path, topic: str, start: Callable[..., Child]
    ) -> None:
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 5})
        self._config, self._start = config, start
        self.logs, self.writer = Logs(kafka, topic), Writer(kafka, topic)

    async def play(self, step: str, broken: str = "") -> list[str]:
        """Stop the owner at this step of "A"; the other decides "B"; then the owner goes on.

        Returns the violations.
        """
        owner = self._start(self._config, step, broken)
        self.writer.hold("warm", "A")
        await self.logs.until_decided()
        self.writer.hold("stop", "A")
        await eventually(lambda: psutil.Process(owner.pid).status() == psutil.STATUS_STOPPED, 30)
        self._start(self._config, "never", broken)
        self.writer.hold("stop", "B")
        await self.logs.until_decided()
        owner.signal(signal.SIGCONT)
        # As a member of the new generation it has ended all that it did in its old term.
        await eventually(lambda: asyncio.to_thread(self._are_members, 2), 60, 0.2)
        self.writer.hold("stop", "A")
        await self.logs.until_decided()
        return (await self.logs.histories(self.writer.sent)).violations()

    def _are_members(self, count: int) -> bool:
        found = self._admin.describe_consumer_groups([GROUP])[GROUP].result(60)
        return found.state is ConsumerGroupState.STABLE and len(found.members) == count


@pytest.fixture
def zombies(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    topic_name: str,
    tmp_path: Path,
) -> Iterator[Zombies]:
    with ExitStack() as ending:

        def start(*arguments: object) -> Child:
            command = [sys.executable, str(SCRIPT), *map(str, arguments)]
            child = Child("coalescer", command, tmp_path / "coalescer.log")
            ending.callback(child.kill)
            return child

        config = prepare(kafka, start_redis().url, topic_name, tmp_path, held_partitions=1)
        yield Zombies(kafka, config, topic_name, start)


async def test_a_zombie_is_fenced_by_kafka_alone(zombies: Zombies) -> None:
    assert await zombies.play("after append", "guard") == []


@pytest.mark.full
@pytest.mark.parametrize("broken", ["", "guard"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_zombie_is_fenced_at_every_step(zombies: Zombies, step: str, broken: str) -> None:
    assert await zombies.play(step, broken) == []


@pytest.mark.full
async def test_the_harness_sees_what_a_zombie_does_that_nobody_fences(zombies: Zombies) -> None:
    violations = await zombies.play("before append", "guard fencing")
    assert any("O has the event of H" in one for one in violations), violations
