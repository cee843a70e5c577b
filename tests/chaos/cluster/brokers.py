"""Three brokers, each with a listener of its own for every gateway, behind a relay."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import BrokerPlan, KafkaInstallation, new_id
from support.kafka import kafka_log
from support.network.tcp_proxy import TcpProxy
from support.process.stack import RunningBroker, eventually, free_port

SIZE, MIN_IN_SYNC = 3, 2
PROBE, PROBE_PARTITIONS = "probe", 3  # where the judge sees whether Kafka takes anything
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class Brokers:
    """nodes: the brokers, as the judge sees them.  ways: of each gateway, a relay to each."""

    def __init__(self, installation: KafkaInstallation, folder: Path, gateways: int) -> None:
        self._installation, self._folder = installation, folder
        self.ways: list[list[TcpProxy]] = []
        plans = _plans(folder, gateways, self.ways)
        self.nodes = [RunningBroker(installation, plan) for plan in plans]

    async def start(self, ending: AsyncExitStack) -> None:
        """Wait for the brokers, and open the relays."""
        for node in self.nodes:
            ending.callback(node.kill)
        for way in (way for ways in self.ways for way in ways):
            await ending.enter_async_context(way)
        await asyncio.gather(*(asyncio.to_thread(node.wait) for node in self.nodes))

    @property
    def bootstrap(self) -> str:
        """Of the judge: past the relays."""
        return ",".join(node.bootstrap for node in self.nodes)

    def bootstrap_of(self, gateway: int) -> list[str]:
        return [f"{LOOPBACK}:{way.port}" for way in self.ways[gateway]]

    def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        named = {option.replace("_", "."): value for option, value in configs.items()}
        kafka_log.create_topic(self.bootstrap, name, partitions, named, SIZE)

    async def until_whole(self, topics: Sequence[str], in_sync: int = SIZE) -> float:
        """Wait until every partition has a leader and so many in-sync replicas; say when."""
        await eventually(
            lambda: asyncio.to_thread(self._is_whole, topics, in_sync), 120.0, interval_s=0.2
        )
        return time.monotonic()

    def _is_whole(self, topics: Sequence[str], in_sync: int) -> bool:
        try:
            found = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2}).list_topics(
                timeout=5.0
            )
        except KafkaException:
            return False
        partitions = [one for name in topics for one in found.topics[name].partitions.values()]
        return all(one.leader >= 0 and len(one.isrs) >= in_sync for one in partitions)

    async def until_it_takes(self) -> float:
        """Wait until each partition of PROBE acknowledges a record; say when.

        Metadata does not tell: a broker that was left alone goes on saying what was.
        """
        await eventually(lambda: asyncio.to_thread(self._takes), 120.0, interval_s=0.0)
        return time.monotonic()

    def _takes(self) -> bool:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "message.timeout.ms": 1500,
                "log_level": 2,
            }
        )
        landed: list[bool] = []
        for partition in range(PROBE_PARTITIONS):
            producer.produce(
                PROBE,
                b"",
                partition=partition,
                on_delivery=lambda error, _: landed.append(not error),
            )
        producer.flush(5.0)
        return len(landed) == PROBE_PARTITIONS and all(landed)

    async def restart(self, node: RunningBroker) -> None:
        """Start it again, without waiting for what it follows."""
        await asyncio.to_thread(node.restart, wait=False)

    async def move_replicas(self, topic: str, chance: random.Random) -> None:
        """Take a replica from every partition, give it back in another order, elect the first."""
        count = await asyncio.to_thread(kafka_log.partition_count, self.bootstrap, topic)
        orders = [chance.sample(range(1, SIZE + 1), SIZE) for _ in range(count)]
        for size in (SIZE - 1, SIZE):
            await self._reassign(topic, [order[:size] for order in orders])
            await self.until_whole([topic], size)
        await asyncio.to_thread(self._elect, [TopicPartition(topic, n) for n in range(count)])

    async def _reassign(self, topic: str, replicas: list[list[int]]) -> None:
        plan = {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": those}
                for number, those in enumerate(replicas)
            ],
        }
        file = self._folder / "reassignment.json"
        file.write_text(json.dumps(plan))
        command = [*self._installation.command(_REASSIGN), "--bootstrap-server", self.bootstrap]
        command += ["--reassignment-json-file", str(file), "--execute"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _elect(self, places: list[TopicPartition]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.elect_leaders(ElectionType.PREFERRED, places).result(kafka_log.DEADLINE_S)


def fill_disk(node: RunningBroker, spare_bytes: int) -> None:
    """Let none of its files grow beyond its largest segment now: the next write fails as on a full
    disk, and the broker ends itself."""
    sizes = [file.stat().st_size for file in node.log_dir.glob("*/*.log")]
    process = psutil.Process(node.pid)
    _, hard = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (max(sizes) + spare_bytes, hard))


def _plans(folder: Path, gateways: int, ways: list[list[TcpProxy]]) -> list[BrokerPlan]:
    """Plan the nodes; `ways` gets the relays."""
    ways += [[] for _ in range(gateways)]
    ports = [(free_port(), free_port()) for _ in range(SIZE)]
    voters = ",".join(f"{n}@{LOOPBACK}:{ports[n - 1][1]}" for n in range(1, SIZE + 1))
    cluster_id = new_id()
    plans = []
    for number, (port, controller_port) in enumerate(ports, start=1):
        for each in ways:
            each.append(TcpProxy(free_port(), free_port()))
        mine = [each[-1] for each in ways]
        options = _listeners(port, controller_port, mine)
        directory = folder / f"node-{number}"
        plan = BrokerPlan(
            directory, cluster_id, number, port, controller_port, voters,
            cluster_size=SIZE, options=options,
        )  # fmt: skip
        plans.append(plan)
    return plans


def _listeners(port: int, controller_port: int, ways: Sequence[TcpProxy]) -> Mapping[str, str]:
    """The judge and the other brokers come on PLAINTEXT, each gateway through its relay."""
    names = [f"GATEWAY{number}" for number in range(len(ways))]
    own = f"PLAINTEXT://{LOOPBACK}:{port}"
    there = [f"{name}://{LOOPBACK}:{way.target}" for name, way in zip(names, ways, strict=True)]
    told = [f"{name}://{LOOPBACK}:{way.port}" for name, way in zip(names, ways, strict=True)]
    controller = f"CONTROLLER://{LOOPBACK}:{controller_port}"
    return {
        "listeners": ",".join([own, controller, *there]),
        "advertised.listeners": ",".join([own, *told]),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)
        ),
    }
