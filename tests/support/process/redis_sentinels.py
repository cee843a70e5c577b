"""A master, its replica and three sentinels, all real."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import RedisPlan, find_redis
from support.process.stack import RunningRedis, free_port

SERVICE = "headgate"
_CONFIG = """
port {port}
bind {host}
dir {folder}
sentinel monitor {service} {host} {master} 2
sentinel down-after-milliseconds {service} 1000
sentinel failover-timeout {service} 3000
sentinel parallel-syncs {service} 1
"""


class Watched:
    """The servers, and the sentinels that watch them. url: of the service."""

    def __init__(self, servers: list[RunningRedis], sentinels: list[int]) -> None:
        self.servers = servers
        hosts = ",".join(f"{LOOPBACK}:{port}" for port in sentinels)
        self.url = f"redis+sentinel://{hosts}/{SERVICE}"
        self._sentinel = sentinels[0]

    @property
    def master(self) -> RunningRedis:
        """Whom the first sentinel names."""
        with Redis(LOOPBACK, self._sentinel, decode_responses=True) as asked:
            _, port = asked.sentinel_get_master_addr_by_name(SERVICE)
        return next(one for one in self.servers if one.port == int(port))

    def knows_all(self) -> bool:
        """Whether the sentinels know each other and the replica, which follows."""
        try:
            with Redis(LOOPBACK, self._sentinel, decode_responses=True) as asked:
                state = asked.sentinel_master(SERVICE)
            with Redis(LOOPBACK, self.servers[1].port, decode_responses=True) as replica:
                follows = replica.info("replication").get("master_link_status") == "up"
        except RedisError:
            return False
        return follows and state["num-other-sentinels"] == 2 and state["num-slaves"] == 1


@contextmanager
def watched_redis(folder: Path) -> Iterator[Watched]:
    """Start all; they may not know each other yet."""
    with ExitStack() as ending:
        servers = []
        for name in ("one", "other"):
            server = RunningRedis(RedisPlan(folder / name, free_port()))
            ending.callback(server.kill)
            servers.append(server)
        with Redis(LOOPBACK, servers[1].port) as replica:
            replica.replicaof(LOOPBACK, servers[0].port)
        ports = [free_port() for _ in range(3)]
        for port in ports:
            home = folder / f"sentinel-{port}"
            home.mkdir()
            config = home / "sentinel.conf"
            names = {"port": port, "host": LOOPBACK, "folder": home, "service": SERVICE}
            config.write_text(_CONFIG.format(master=servers[0].port, **names))
            child = Child(
                f"sentinel on port {port}",
                [str(find_redis()), str(config), "--sentinel"],
                home / "log",
                signal_on_parent_death=signal.SIGTERM,
            )
            ending.callback(child.kill)
        yield Watched(servers, ports)
