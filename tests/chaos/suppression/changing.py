"""Two gateways of two workers whose configuration changes at random, and what else happens."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from chaos.suppression.stand import wait_until_ready
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

CONFIG = """
[http]
request_timeout_ms = 2000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 2000
lane_stall_ms = 2000
metadata_refresh_ms = {refresh_ms}
[redis]
url = "{redis}"
namespace = "{topic}"
timeout_ms = 400
quarantine_ms = 1500
[producers.shop]
[topics."{topic}"]
redis_loss = "refuse"
{policy}
"""
RAW = 'suppress = "raw"\nkey = ["/id"]'
OTHERS = [
    'suppress = "off"\nkey = ["/id"]',
    'suppress = "canonical"\nkey = ["/id"]',
    'suppress = "canonical"\nkey = ["/id"]\nignore = ["/note"]',
    'suppress = "raw"\nkey = ["/id", "/id"]',
    RAW + '\noversize = ["compress"]',
    RAW + '\ncloudevents = "structured"',
]


class ChangingStand:
    """What runs, and what can happen to it. The gateways learn of new partitions at other times."""

    def __init__(
        self, broker: RunningBroker, redis: RunningRedis, topic: str, seed: int, partitions: int
    ) -> None:
        self.broker, self.redis, self.topic = broker, redis, topic
        self.chance = random.Random(seed)
        self.partitions = partitions
        self.happened: Counter[str] = Counter()
        self.gateways: list[Gateway] = []
        self._texts: list[str] = []
        self._told: list[list[str]] = []  # of each gateway, the policies that it had so far

    def start(self, start_gateway: Callable[..., Gateway]) -> None:
        for refresh_ms in (3000, 1300):
            text = CONFIG.format(
                bootstrap=self.broker.bootstrap,
                redis=self.redis.url,
                topic=self.topic,
                refresh_ms=refresh_ms,
                policy="{policy}",
            )
            self._texts.append(text)
            self._told.append([RAW])
            started = start_gateway(text.format(policy=RAW), "--workers", "2", wait=False)
            self.gateways.append(started)

    async def wait_until_ready(self) -> None:
        for gateway in self.gateways:
            await wait_until_ready(gateway)

    def _report(self, number: int, policy: str) -> None:
        self.gateways[number].config.write_text(self._texts[number].format(policy=policy))
        self._told[number].append(policy)

    def reload(self, number: int, policy: str) -> None:
        """SIGHUP with another policy."""
        self._report(number, policy)
        self.gateways[number].reload()
        self.happened["reload"] += 1

    def kill_worker(self, number: int) -> None:
        """kill -9 of one of its workers; the parent starts another."""
        workers = self.gateways[number].pids[1:]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(workers), signal.SIGKILL)
            self.happened["worker killed"] += 1

    async def restart_with_an_old_file(self, number: int) -> None:
        """Stop it, or kill all of it; it comes back with what it was told once."""
        gateway = self.gateways[number]
        if self.chance.random() < 0.5:
            for pid in gateway.pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            gateway.kill()
        else:
            await asyncio.to_thread(gateway.stop)
        self._report(number, self.chance.choice(self._told[number]))
        gateway.restart(wait=False)
        await wait_until_ready(gateway)
        self.happened["restart with an old file"] += 1

    async def grow(self) -> None:
        self.partitions *= 2
        await asyncio.to_thread(
            kafka_log.add_partitions, self.broker.bootstrap, self.topic, self.partitions
        )
        self.happened["growth"] += 1

    async def kill_redis(self) -> None:
        """kill -9; it comes back empty."""
        self.redis.kill()
        await asyncio.sleep(0.5 * self.chance.random())
        await asyncio.to_thread(self.redis.restart)
        self.happened["Redis killed"] += 1

    async def log(self) -> list[kafka_log.LogRecord]:
        return await asyncio.to_thread(kafka_log.read_log, self.broker.bootstrap, self.topic)

    async def calm(self) -> None:
        """The same policy everywhere, so that there is something to suppress."""
        for number in range(len(self.gateways)):
            self.reload(number, RAW)

    async def happenings(
        self,
        rounds: int,
        growths: set[int],
        redis_kills: set[int],
        saved: Callable[[], int],
    ) -> None:
        """growths, redis_kills: in which rounds.  saved: how many events were `unchanged` so far.

        Each round ends with one policy everywhere, and goes on until suppression works again.
        """
        for turn in range(rounds):
            policy = self.chance.choice(OTHERS)
            first = self.chance.randrange(2)
            self.reload(first, policy)
            await self._some_time(1.0)
            events = [self._other_things(turn, 1 - first)]
            if turn in growths:
                events.append(self.grow())
            if turn in redis_kills:
                events.append(self.kill_redis())
            await asyncio.gather(*events)
            if self.chance.random() < 0.5:
                self.reload(1 - first, self.chance.choice([policy, *OTHERS]))
            await self._some_time(1.0)
            self.reload(first, RAW)
            await self._some_time(0.5)
            await self.calm()
            enough = saved() + 100
            await eventually(lambda enough=enough: saved() > enough, 30.0)
            await self._some_time(1.0)

    async def _other_things(self, turn: int, number: int) -> None:
        if turn % 3 == 1:
            await self.restart_with_an_old_file(number)
        elif turn % 3 == 2:
            self.kill_worker(self.chance.randrange(2))

    async def _some_time(self, max_s: float) -> None:
        await asyncio.sleep(max_s * (0.4 + 0.6 * self.chance.random()))
