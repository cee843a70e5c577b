"""Two gateways of two workers, each a coalescer, on real Kafka and Redis; their faults."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.coalescer.history import Clocks, Histories, Sent
from headgate.devstack.ports import LOOPBACK
from headgate.model.internal_topics import held_topic
from support.gateway.coalescing_gateway import run_init
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

GROUP = "headgate.held"
CLOCKS = Clocks(quiet_ms=1500, max_delay_ms=4000)
SESSION_S = 6.0
PARTITIONS, HELD_PARTITIONS = 3, 4
# No quarantine: fewer `unchanged` would be decided with it, so without is the harder case.
CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
metadata_refresh_ms = 500
[redis]
url = "{redis}"
namespace = "{topic}"
timeout_ms = 200
quarantine_ms = 1
[coalescer]
session_timeout_ms = {session_ms:.0f}
{more}
[topics."{topic}"]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = {clocks.quiet_ms}
coalesce_max_delay_ms = {clocks.max_delay_ms}
coalesce_partitions = {held}
"""


def prepare(
    kafka: RunningBroker,
    redis_url: str,
    topic: str,
    directory: Path,
    *,
    more: str = "",
    held_partitions: int = HELD_PARTITIONS,
) -> Path:
    """Create the topic and what it is held in; return the configuration's path."""
    kafka.create_topic(topic, PARTITIONS)
    text = CONFIG.format(
        bootstrap=kafka.bootstrap,
        redis=redis_url,
        topic=topic,
        session_ms=SESSION_S * 1000,
        clocks=CLOCKS,
        held=held_partitions,
        more=more,
    )
    config = directory / "coalescing.toml"
    config.write_text(text)
    done = run_init(config)
    assert done.returncode == 0, done.stdout + done.stderr
    return config


class Logs:
    """H and O of one topic."""

    def __init__(self, kafka: RunningBroker, topic: str) -> None:
        self._bootstrap, self.topic = kafka.bootstrap, topic

    def is_decided(self) -> bool:
        """Whether the coalescer's group has committed H's end."""
        held = held_topic(self.topic)
        ends = kafka_log.end_offsets(self._bootstrap, held)
        reached = kafka_log.group_offsets(self._bootstrap, GROUP, held)
        return all(reached[one] == offset for one, offset in ends.items() if offset)

    async def until_decided(self, deadline_s: float = 60.0) -> None:
        await eventually(lambda: asyncio.to_thread(self.is_decided), deadline_s, 0.3)

    async def histories(self, sent: list[Sent]) -> Histories:
        """Read both with a client that is not the gateway's."""
        held = await asyncio.to_thread(kafka_log.read_log, self._bootstrap, held_topic(self.topic))
        topic = await asyncio.to_thread(kafka_log.read_log, self._bootstrap, self.topic)
        return Histories(sent, held, topic)


class Stand:
    """What runs, and what can happen to it. faults: by name, each draws what it needs."""

    def __init__(self, redis: RunningRedis, gateways: list[Gateway], logs: Logs, seed: int) -> None:
        self.redis, self.gateways, self.logs = redis, gateways, logs
        self.random = random.Random(seed)
        self.faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill a worker": self._kill_worker,
            "kill a gateway": self._kill_gateway,
            "stop a worker": self._stop_worker,
            "stop a worker for a moment": self._stop_worker_briefly,
            "kill Redis": self._kill_redis,
        }
        self._whole = asyncio.Lock()  # a gateway that starts would die of SIGHUP

    async def change_file(self) -> None:
        """Coalescing goes from one gateway's file, or comes back, by SIGHUP."""
        gateway = self.random.choice(self.gateways)
        async with self._whole:
            text = gateway.config.read_text()
            for option in ("quiet_ms", "max_delay_ms"):
                on, off = f"\ncoalesce_{option} =", f"\n#coalesce_{option} ="
                text = text.replace(on, off) if on in text else text.replace(off, on)
            gateway.config.write_text(text)
            gateway.reload()

    async def _worker(self) -> int:
        """The process id of any worker; each owns partitions once the group has settled."""
        workers = await eventually(self._workers, 30.0)
        return self.random.choice(workers)

    def _workers(self) -> list[int]:
        found = []
        for gateway in self.gateways:
            with suppress(psutil.NoSuchProcess):
                found += [one.pid for one in psutil.Process(gateway.pid).children()]
        return found

    async def _kill_worker(self) -> None:
        """kill -9 of an owner; its parent starts another worker."""
        _signal(await self._worker(), signal.SIGKILL)

    async def _kill_gateway(self) -> None:
        """kill -9 of all its processes; it is started again at once."""
        gateway = self.random.choice(self.gateways)
        async with self._whole:
            for pid in gateway.pids:
                _signal(pid, signal.SIGKILL)
            gateway.kill()
            gateway.restart(wait=False)
            await eventually(lambda: asyncio.to_thread(gateway.is_ready), 60.0)

    async def _stop_worker(self) -> None:
        """SIGSTOP for longer than its session: it goes on as a zombie."""
        await self._stop(SESSION_S + 1.5 + 2 * self.random.random())

    async def _stop_worker_briefly(self) -> None:
        """SIGSTOP: it is the owner all the time, and late."""
        await self._stop(0.5 + 2 * self.random.random())

    async def _stop(self, spell_s: float) -> None:
        pid = await self._worker()
        _signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(spell_s)
        finally:
            _signal(pid, signal.SIGCONT)

    async def _kill_redis(self) -> None:
        """kill -9, and start again: empty, or with a snapshot that is a moment old."""
        dump = self.redis.plan.directory / "dump.rdb"
        dump.unlink(missing_ok=True)
        if self.random.random() < 0.5:
            with socket.create_connection((LOOPBACK, self.redis.port), timeout=30.0) as connection:
                connection.sendall(b"SAVE\r\n")
                assert connection.recv(64).startswith(b"+OK")
            await asyncio.sleep(0.5)
        self.redis.kill()
        await asyncio.sleep(1.5 * self.random.random())
        self.redis.restart()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
