"""A real broker behind a proxy that delays, real Redis, two gateways, what happens to them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from headgate.devstack.ports import LOOPBACK
from support.kafka import kafka_log
from support.network.tcp_proxy import TcpProxy
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port

QUARANTINE_S = 1.5
CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
metadata_refresh_ms = 1000
[redis]
url = "{redis}"
timeout_ms = {redis_timeout_ms}
quarantine_ms = {quarantine_ms:.0f}
[producers.shop]
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""


class EpochGateway(Gateway):
    """The gateway with the protocol that is known to be wrong."""

    def __init__(self, directory: Path, config_text: str) -> None:
        super().__init__(directory, config_text, (), {})

    def _start(self):  # type: ignore[no-untyped-def]
        script = Path(__file__).with_name("epoch_gateway.py")
        self._command = [sys.executable, str(script), str(self.config)]
        return super()._start()


class Stand:
    """What runs, and what can happen to it."""

    def __init__(
        self, broker: RunningBroker, redis: RunningRedis, gateways: list[Gateway], topic: str
    ) -> None:
        self.broker, self.redis, self.gateways, self.topic = broker, redis, gateways, topic
        self.kills = 0

    @property
    def urls(self) -> list[str]:
        return [gateway.url for gateway in self.gateways]

    async def log(self) -> list[kafka_log.LogRecord]:
        """Read the topic with a client that is not the gateway's."""
        return await asyncio.to_thread(kafka_log.read_log, self.broker.bootstrap, self.topic)

    async def wait_until_ready(self) -> None:
        for gateway in self.gateways:
            await wait_until_ready(gateway)

    async def kill_redis(self, away_s: float, *, snapshot: bool) -> None:
        """kill -9 and start again, empty or with a snapshot that is some seconds old."""
        dump = self.redis.plan.directory / "dump.rdb"
        if snapshot:
            self._ask_redis("SAVE")
            await asyncio.sleep(0.3)
        else:
            dump.unlink(missing_ok=True)
        self.redis.kill()
        self.kills += 1
        await asyncio.sleep(away_s)
        assert dump.exists() == snapshot
        self.redis.restart()

    def _ask_redis(self, command: str) -> None:
        with socket.create_connection((LOOPBACK, self.redis.port), timeout=30.0) as connection:
            connection.sendall(command.encode() + b"\r\n")
            assert connection.recv(64).startswith(b"+OK")

    async def stop_broker(self, spell_s: float) -> None:
        """SIGSTOP for a spell."""
        self.broker.pause()
        try:
            await asyncio.sleep(spell_s)
        finally:
            self.broker.resume()

    async def kill_gateway(self, number: int) -> None:
        """kill -9 of all its processes; it is started again at once."""
        gateway = self.gateways[number]
        for pid in gateway.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        gateway.kill()
        gateway.restart(wait=False)
        await wait_until_ready(gateway)


async def wait_until_ready(gateway: Gateway) -> None:
    """Poll GET /ready without holding up the proxy, which runs in this event loop."""

    def is_ready() -> bool:
        assert gateway.exit_code is None, gateway.child.log_tail()
        return gateway.is_ready()

    await eventually(lambda: asyncio.to_thread(is_ready), 60.0)


@asynccontextmanager
async def stand(
    start_broker: Callable[..., RunningBroker],
    redis: RunningRedis,
    start: Callable[[str], Gateway],
    topic: str,
    delay_s: tuple[float, float],
    seed: int,
    redis_timeout_ms: int = 200,
) -> AsyncIterator[Stand]:
    """Start everything. delay_s: shortest and longest wait of a piece on its way."""
    port, chance = free_port(), random.Random(seed)
    advertised = {"advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}"}
    broker = start_broker(options=advertised)
    shortest, longest = delay_s

    def delay() -> float:
        # Mostly short, sometimes long: what overtakes what differs from one piece to the next.
        return longest * chance.random() if chance.random() < 0.2 else shortest

    async with TcpProxy(port, broker.plan.port) as proxy:
        proxy.request_delay = proxy.answer_delay = delay
        await asyncio.to_thread(broker.create_topic, topic, 6)
        text = CONFIG.format(
            bootstrap=f"{LOOPBACK}:{port}",
            redis=redis.url,
            topic=topic,
            quarantine_ms=QUARANTINE_S * 1000,
            redis_timeout_ms=redis_timeout_ms,
        )
        it = Stand(broker, redis, [start(text), start(text)], topic)
        await it.wait_until_ready()
        yield it
