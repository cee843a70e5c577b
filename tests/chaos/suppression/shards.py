"""Two gateways, three Redis servers whose list changes, and what happens to them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from chaos.suppression.stand import QUARANTINE_S, wait_until_ready
from chaos.suppression.writers import Writers
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
metadata_refresh_ms = 1000
[redis]
{servers}
timeout_ms = 300
quarantine_ms = {quarantine_ms:.0f}
[producers.shop]
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
SPELL_S = 3.0


class CarelessGateway(Gateway):
    """The gateway that agrees with nobody on the servers."""

    def __init__(self, directory: Path, config_text: str) -> None:
        super().__init__(directory, config_text, (), {})

    def _start(self):  # type: ignore[no-untyped-def]
        script = Path(__file__).with_name("careless_gateway.py")
        self._command = [sys.executable, str(script), str(self.config)]
        return super()._start()


class Shards:
    """What runs, and what can happen to it. A list of servers is a list of their places."""

    def __init__(
        self, broker: RunningBroker, redis: Sequence[RunningRedis], topic: str, seed: int
    ) -> None:
        self.broker, self.redis, self.topic = broker, redis, topic
        self.chance = random.Random(seed)
        self.gateways: list[Gateway] = []
        self.kills = 0

    def text(self, servers: Sequence[int]) -> str:
        urls = [f'"{self.redis[place].url}"' for place in servers]
        option = f"url = {urls[0]}" if len(urls) == 1 else f"urls = [{', '.join(urls)}]"
        return CONFIG.format(
            bootstrap=self.broker.bootstrap,
            servers=option,
            topic=self.topic,
            quarantine_ms=QUARANTINE_S * 1000,
        )

    async def start(self, start: Callable[[str], Gateway], servers: Sequence[int]) -> None:
        self.gateways = [start(self.text(servers)) for _ in range(2)]
        for gateway in self.gateways:
            await wait_until_ready(gateway)

    @property
    def urls(self) -> list[str]:
        return [gateway.url for gateway in self.gateways]

    async def log(self) -> list[kafka_log.LogRecord]:
        return await asyncio.to_thread(kafka_log.read_log, self.broker.bootstrap, self.topic)

    async def kill_redis(self, place: int, *, snapshot: bool) -> None:
        """kill -9 and start again, empty or with what it knew some moments ago."""
        redis = self.redis[place]
        dump = redis.plan.directory / "dump.rdb"
        dump.unlink(missing_ok=True)
        if snapshot:
            reader, writer = await asyncio.open_connection("127.0.0.1", redis.port)
            writer.write(b"SAVE\r\n")
            assert (await reader.readline()).startswith(b"+OK")
            writer.close()
            await asyncio.sleep(0.5)
        redis.kill()
        self.kills += 1
        await asyncio.sleep(self.chance.random())
        assert dump.exists() == snapshot
        await asyncio.to_thread(redis.restart)

    async def change(self, servers: Sequence[int]) -> None:
        """Restart one gateway after the other with another list."""
        for gateway in self.gateways:
            if self.chance.random() < 0.5:
                for pid in gateway.pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                gateway.kill()
            else:
                await asyncio.to_thread(gateway.stop)
            gateway.config.write_text(self.text(servers))
            gateway.restart(wait=False)
            await wait_until_ready(gateway)
            await asyncio.sleep(SPELL_S * self.chance.random())

    async def until_saved(self, writers: Writers, more: int = 100) -> float:
        """Go on until so many events more were `unchanged`; returns how long that took, s."""
        enough, began = writers.count("unchanged") + more, time.monotonic()
        await eventually(lambda: writers.count("unchanged") >= enough, 60.0)
        return time.monotonic() - began
