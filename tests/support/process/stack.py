"""Real brokers, Redis servers and gateways for tests. The fixtures in conftest.py end them all."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TypeVar

import psutil

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from headgate.devstack.ports import free_port as any_free_port
from headgate.devstack.servers import (
    BrokerPlan,
    KafkaInstallation,
    RedisPlan,
    new_id,
    start_node,
    start_redis,
    wait_for_node,
    wait_for_redis,
)
from support.kafka import kafka_log

__all__ = [
    "LASTING",
    "Gateway",
    "RunningBroker",
    "RunningCluster",
    "RunningRedis",
    "eventually",
    "free_port",
    "running_broker",
    "single_node",
]

T = TypeVar("T")
# Deadlines are written for an idle machine. A test that is green never waits for them, so a busy
# one gets more time: what fails then did not happen, rather than not yet.
PATIENCE = 3.0
STANDING = "TtZX"  # states of proc(5): stopped, traced, zombie, dead
START_S = 90.0  # of a gateway; PATIENCE is in it
# Each worker of pytest-xdist has ports of its own, see `free_port`.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_given: set[int] = set()


def free_port(taken: Collection[int] = ()) -> int:
    """Return a free port that is given to nobody else, here or in another worker of pytest-xdist.

    Its server listens only later, and one that is killed comes back to its port: meanwhile it
    would look free.
    """
    while True:
        port = any_free_port({*taken, *_given})
        if port % _WORKERS == _WORKER % _WORKERS:
            _given.add(port)
            return port


def single_node(
    folder: Path, port: int | None = None, options: Mapping[str, str] | None = None
) -> BrokerPlan:
    """Plan a cluster of one node, on ports of its own."""
    port, controller_port = port or free_port(), free_port()
    voters = f"1@{LOOPBACK}:{controller_port}"
    return BrokerPlan(folder, new_id(), 1, port, controller_port, voters, options=options or {})


async def eventually(
    predicate: Callable[[], T | Awaitable[T]], deadline_s: float = 10.0, interval_s: float = 0.05
) -> T:
    """Poll `predicate` (plain or async) until it is true; return its value, else fail.

    `deadline_s` is for an idle machine, see `PATIENCE`.
    """
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while True:
        answer = predicate()
        value: T = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        assert time.monotonic() < end, f"not true within {deadline_s} s, last value {value!r}"
        await asyncio.sleep(interval_s)


def stands_still(pid: int) -> bool:
    """Tell whether no thread of a process runs, because it was stopped or has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):  # a thread, or all of it, ended just now
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            if stat.read_text().rpartition(")")[2].split()[0] not in STANDING:
                return False
        return True
    return not psutil.pid_exists(pid)


class _Restartable:
    """What brokers, Redis servers and gateways have in common: one child, startable again."""

    child: Child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def exit_code(self) -> int | None:
        return self.child.exit_code

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.child.signal(signal.SIGCONT)
        self.child.kill()

    def stop(self, grace_s: float = 30.0) -> None:
        """SIGTERM, and wait for the end."""
        self.child.stop(grace_s)

    def pause(self) -> None:
        """SIGSTOP: sockets stay open, nothing answers. Returns when all its threads stand still.

        On a busy machine that takes up to 50 ms, enough for a broker to acknowledge a record that
        comes after the signal.
        """
        self.child.signal(signal.SIGSTOP)
        end = time.monotonic() + 10
        while not stands_still(self.pid):
            assert time.monotonic() < end, "SIGSTOP does not stop it"
            time.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT."""
        self.child.signal(signal.SIGCONT)

    def log(self) -> str:
        """Return everything it has written so far."""
        return self.child.log.read_text(errors="replace")


# Some tests date their records in the past. Every five minutes a broker looks for records that
# retention has passed, and one that is shared by tests lives for longer.
#
# An idle broker uses 2.3 % of a core, half of it for heartbeats, empty records in its own log and
# idle threads. Each worker of pytest-xdist keeps one or two for the whole run.
OF_ALL_TESTS = {
    "log.retention.check.interval.ms": str(24 * 3_600_000),
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
# For brokers that no test kills: a killed broker registers again after its session has expired.
# They have a thousand partitions in the end, whose high watermarks a broker else notes every 5 s.
LASTING = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "replica.high.watermark.checkpoint.interval.ms": "300000",
}


class RunningBroker(_Restartable):
    """One Kafka node, reachable at `bootstrap`."""

    def __init__(self, installation: KafkaInstallation, plan: BrokerPlan) -> None:
        self._installation = installation
        self.plan = replace(plan, options={**OF_ALL_TESTS, **plan.options})
        self.child = start_node(installation, self.plan)

    @property
    def bootstrap(self) -> str:
        return self.plan.bootstrap

    @property
    def log_dir(self) -> Path:
        """The folder with the partitions' segments."""
        return self.plan.data

    def wait(self) -> None:
        """Wait until the whole cluster is in its metadata."""
        wait_for_node(self.child, self.plan)

    def restart(self, *, wait: bool = True) -> None:
        """Start again (after `kill` or `stop`, else after a SIGTERM) on the same port and data."""
        if self.exit_code is None:
            self.stop()
        self.child = start_node(self._installation, self.plan)
        if wait:
            self.wait()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> str:
        """Create a topic, wait until it has leaders, and return its name."""
        kafka_log.create_topic(self.bootstrap, name, partitions, configs or {}, replication_factor)
        return name

    def set_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Change some settings of a topic; the others stay."""
        kafka_log.set_topic_configs(self.bootstrap, name, configs)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        kafka_log.delete_topic(self.bootstrap, name)


@contextmanager
def running_broker(
    installation: KafkaInstallation, folder: Path, options: Mapping[str, str] | None = None
) -> Iterator[RunningBroker]:
    """One broker with its data in `folder`, ended with the block."""
    broker = RunningBroker(installation, single_node(folder, options=options))
    try:
        broker.wait()
        yield broker
    finally:
        broker.kill()


class RunningCluster:
    """Several nodes of one cluster; `nodes[i]` can be killed and restarted."""

    def __init__(self, nodes: list[RunningBroker]) -> None:
        self.nodes = nodes

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic on all nodes."""
        return self.nodes[0].create_topic(name, partitions, configs, min(3, len(self.nodes)))


class RunningRedis(_Restartable):
    """One Redis server; `plan.save` keeps snapshots when it is not empty."""

    def __init__(self, plan: RedisPlan) -> None:
        self.plan = plan
        self.child = start_redis(plan)
        wait_for_redis(self.child, plan)

    @property
    def url(self) -> str:
        return self.plan.url

    @property
    def port(self) -> int:
        return self.plan.port

    def restart(self) -> None:
        """Start again on the same port and folder."""
        if self.exit_code is None:
            self.stop()
        self.child = start_redis(self.plan)
        wait_for_redis(self.child, self.plan)


class Gateway(_Restartable):
    """`headgate serve` as a process tree on free ports (set through the environment)."""

    def __init__(
        self,
        directory: Path,
        config_text: str,
        args: tuple[str, ...],
        environment: Mapping[str, str],
        python: str = sys.executable,
    ) -> None:
        self.port, self.management_port = free_port(), free_port()
        self.config = directory / "headgate.toml"
        directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(config_text)
        self._command = [python, "-m", "headgate", "serve", "--config", str(self.config)]
        self._command += args
        ports = {
            "HEADGATE_HTTP__HOST": LOOPBACK,
            "HEADGATE_HTTP__PORT": str(self.port),
            "HEADGATE_HTTP__MANAGEMENT_PORT": str(self.management_port),
            "HEADGATE_HTTP__SHUTDOWN_DELAY_MS": "0",  # nothing is behind a load balancer
            # aiohttp reads all public authorities when it is imported, which takes 70 ms in each
            # process. Tests name those that they use.
            "SSL_CERT_FILE": os.devnull,
        }
        self._environment = {**os.environ, **ports, **environment}
        self._log = directory / "gateway.log"
        self.child = self._start()

    def _start(self) -> Child:
        return Child("gateway", self._command, self._log, environment=self._environment)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def management_url(self) -> str:
        return f"http://{LOOPBACK}:{self.management_port}"

    @property
    def pids(self) -> list[int]:
        """The parent's pid and those of its descendants."""
        try:
            parent = psutil.Process(self.pid)
            return [self.pid, *(one.pid for one in parent.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def wait(self, deadline_s: float = START_S) -> None:
        """Wait until GET /ready answers 200."""
        self.child.wait_until(self.is_ready, deadline_s)

    def is_ready(self) -> bool:
        """Ask GET /ready once."""
        connection = HTTPConnection(LOOPBACK, self.port, timeout=10.0)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def terminate(self) -> None:
        """SIGTERM to the parent, without waiting: `exit_code` tells when it has ended."""
        self.child.signal(signal.SIGTERM)

    def reload(self) -> None:
        """SIGHUP to the parent."""
        self.child.signal(signal.SIGHUP)

    def restart(self, *, wait: bool = True) -> None:
        """Start again on the same ports and configuration."""
        if self.exit_code is None:
            self.stop()
        self.child = self._start()
        if wait:
            self.wait()
