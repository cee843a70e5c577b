"""Two gateways of two workers, and one that spools; each behind relays of its own."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.cluster.brokers import Brokers
from chaos.cluster.redis_pair import RedisPair
from chaos.suppression.stand import wait_until_ready
from support.gateway.coalescing_gateway import run_init
from support.process.fake_time import FakeTime
from support.process.stack import Gateway

PLAIN, STATES, HELD, SPLIT, CHUNKED, SPOOLED = (
    "orders", "states", "held", "deals", "documents", "spooled",
)  # fmt: skip
BEHIND_BOTH = (PLAIN, STATES, HELD, SPLIT, CHUNKED)
SPOOLING = 2  # the number of the gateway that spools
COUNT = 3
REQUEST_TIMEOUT_S, LANE_STALL_S = 8.0, 5.0
LARGE_BYTES = 60_000  # max.message.bytes of what is split or chunked
_COMMON = """
[http]
request_timeout_ms = {timeout_ms:.0f}
[clusters.main]
bootstrap_servers = {bootstrap}
metadata_refresh_ms = 1000
lane_stall_ms = {stall_ms:.0f}
delivery_timeout_ms = 20000
[redis]
url = "{redis}"
timeout_ms = 300
quarantine_ms = 1500
idempotency_ttl_ms = 300000
"""
_TOPICS = """
[coalescer]
session_timeout_ms = 6000
[topics.orders]
key = ["/id"]
[topics.states]
kind = "state"
key = ["/id"]
suppress = "{suppress}"
redis_loss = "refuse"
[topics.held]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = 1500
coalesce_max_delay_ms = 4000
coalesce_partitions = 4
[topics.deals]
key = ["/id"]
oversize = ["split"]
split = {{ pointer = "/options", key = "/id" }}
[topics.documents]
key = ["/id"]
oversize = ["chunk"]
"""
_SPOOL = """
[spool]
path = "{folder}"
drain_events_per_s = 500
[topics.spooled]
kind = "state"
key = ["/id"]
suppress = "raw"
spool = true
spool_after_ms = 1000
"""


class Gateways:
    """all: `all[SPOOLING]` spools, the others have every other topic."""

    def __init__(self, brokers: Brokers, redis: RedisPair, folder: Path) -> None:
        self._brokers, self._redis, self._folder = brokers, redis, folder
        self.times: list[FakeTime] = []  # of each gateway, where there is libfaketime
        self.all: list[Gateway] = []

    def start(self, start_gateway: Callable[..., Gateway]) -> None:
        """Start all, without waiting. The topics must exist."""
        for number in range(COUNT):
            time = FakeTime.found(self._folder / f"time-{number}")
            if time is not None:
                self.times.append(time)
            self.all.append(
                start_gateway(
                    self._text(number, "raw"),
                    "--workers", "1" if number == SPOOLING else "2",
                    environment=time.environment if time else {},
                    wait=False,
                )
            )  # fmt: skip

    def prepare(self) -> None:
        """Create what held events are held in."""
        file = self._folder / "init.toml"
        file.write_text(self._text(0, "raw"))
        done = run_init(file)
        assert done.returncode == 0, done.stdout + done.stderr

    def _text(self, number: int, comparison: str) -> str:
        common = _COMMON.format(
            timeout_ms=REQUEST_TIMEOUT_S * 1000,
            stall_ms=LANE_STALL_S * 1000,
            bootstrap=self._brokers.bootstrap_of(number),
            redis=self._redis.url_of(number),
        )
        if number == SPOOLING:
            return common + _SPOOL.format(folder=self._folder / "spool")
        return common + _TOPICS.format(suppress=comparison)

    async def until_ready(self) -> None:
        for gateway in self.all:
            await wait_until_ready(gateway)

    def kill_worker(self, number: int, chance: random.Random) -> None:
        """kill -9; the parent starts another."""
        workers = self._workers(number)
        if workers:
            _signal(chance.choice(workers), signal.SIGKILL)

    async def freeze_worker(self, number: int, spell_s: float, chance: random.Random) -> None:
        """SIGSTOP for a spell."""
        workers = self._workers(number)
        if not workers:
            return
        pid = chance.choice(workers)
        _signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(spell_s)
        finally:
            _signal(pid, signal.SIGCONT)

    async def kill(self, number: int) -> None:
        """kill -9 of all its processes; it is started again at once."""
        gateway = self.all[number]
        for pid in gateway.pids:
            _signal(pid, signal.SIGKILL)
        gateway.kill()
        await self._start_again(gateway)

    async def kill_parent(self, number: int) -> None:
        """kill -9 of the parent alone: its workers end by themselves; it is started again."""
        gateway = self.all[number]
        _signal(gateway.pid, signal.SIGKILL)
        await self._start_again(gateway)

    async def drain(self, number: int) -> None:
        """SIGTERM, and start it again."""
        gateway = self.all[number]
        await asyncio.to_thread(gateway.stop)
        await self._start_again(gateway)

    async def _start_again(self, gateway: Gateway) -> None:
        gateway.restart(wait=False)
        await wait_until_ready(gateway)

    async def reload(self, number: int, spell_s: float) -> None:
        """SIGHUP with another comparison, and back after a spell."""
        for comparison in ("canonical", "raw"):
            self.all[number].config.write_text(self._text(number, comparison))
            self.all[number].reload()
            await asyncio.sleep(spell_s)

    async def fill_spool(self, spell_s: float) -> None:
        """No file of the gateway that spools can grow for a spell, as on a full disk."""
        found = [psutil.Process(pid) for pid in self._workers(SPOOLING)]
        for process in found:
            _, hard = process.rlimit(resource.RLIMIT_FSIZE)
            process.rlimit(resource.RLIMIT_FSIZE, (4096, hard))
        await asyncio.sleep(spell_s)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    def _workers(self, number: int) -> list[int]:
        try:
            return [one.pid for one in psutil.Process(self.all[number].pid).children()]
        except psutil.NoSuchProcess:
            return []


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
