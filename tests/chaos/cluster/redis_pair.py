"""A Redis server and its replica behind relays, and a failover by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from redis import Redis

from headgate.devstack.ports import LOOPBACK
from support.network.tcp_proxy import TcpProxy
from support.process.stack import RunningRedis, eventually, free_port


class RedisPair:
    """ways: of each gateway. All lead to the master."""

    def __init__(self, start_redis: Callable[[], RunningRedis], gateways: int) -> None:
        self.master, self.replica = start_redis(), start_redis()
        self.ways = [TcpProxy(free_port(), self.master.port) for _ in range(gateways)]
        self._link = TcpProxy(free_port(), self.master.port)

    async def start(self, ending: AsyncExitStack) -> None:
        """Open the relays; the replica begins to follow."""
        for way in (*self.ways, self._link):
            await ending.enter_async_context(way)
        await self._follow()

    def url_of(self, gateway: int) -> str:
        return f"redis://{LOOPBACK}:{self.ways[gateway].port}"

    async def _follow(self) -> None:
        await asyncio.to_thread(self._replica_of, LOOPBACK, self._link.port)
        await eventually(lambda: asyncio.to_thread(self._is_followed), 30.0)

    def _replica_of(self, host: str, port: int | str) -> None:
        with Redis(LOOPBACK, self.replica.port) as replica:
            replica.replicaof(host, port)

    def _is_followed(self) -> bool:
        with Redis(LOOPBACK, self.replica.port, decode_responses=True) as replica:
            return replica.info("replication").get("master_link_status") == "up"

    async def kill(self, away_s: float) -> None:
        """kill -9 of the master; it comes back empty, and its replica becomes empty with it."""
        (self.master.plan.directory / "dump.rdb").unlink(missing_ok=True)
        self.master.kill()
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self.master.restart)

    async def flush(self) -> None:
        """FLUSHALL: the server's run id stays."""
        with Redis(LOOPBACK, self.master.port) as master:
            await asyncio.to_thread(master.flushall)

    async def fail_over(self, behind_s: float) -> None:
        """The replica falls behind, the master dies, the replica is promoted; ways follow it."""
        self._link.hold(new_too=True)
        await asyncio.sleep(behind_s)
        self.master.kill()
        self._link.cut()
        await asyncio.to_thread(self._replica_of, "NO", "ONE")
        self.master, self.replica = self.replica, self.master
        for way in (*self.ways, self._link):
            way.target = self.master.port
            way.reset()
        (self.replica.plan.directory / "dump.rdb").unlink(missing_ok=True)
        await asyncio.to_thread(self.replica.restart)
        self._link.mend()
        await self._follow()
