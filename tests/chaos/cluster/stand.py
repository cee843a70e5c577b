"""Everything that runs in a round: brokers, Redis, gateways, their clients, and what breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from chaos.cluster import judge
from chaos.cluster.brokers import MIN_IN_SYNC, PROBE, PROBE_PARTITIONS, Brokers
from chaos.cluster.faults import Faults
from chaos.cluster.gateways import (
    BEHIND_BOTH,
    CHUNKED,
    COUNT,
    HELD,
    LARGE_BYTES,
    PLAIN,
    SPLIT,
    SPOOLED,
    SPOOLING,
    STATES,
    Gateways,
)
from chaos.cluster.levels import in_flight
from chaos.cluster.redis_pair import RedisPair
from chaos.cluster.traffic import Traffic
from chaos.coalescer.clients import Clients
from chaos.coalescer.history import Histories
from headgate.devstack.servers import KafkaInstallation
from headgate.model.internal_topics import held_topic
from support.clients.http_client import exchange
from support.kafka import kafka_log
from support.kafka.kafka_log import LogRecord
from support.process.stack import Gateway, RunningRedis, eventually


class Stand:
    """Everything that runs."""

    def __init__(
        self, brokers: Brokers, redis: RedisPair, gateways: Gateways, seed: int, pause_s: float
    ) -> None:
        self.brokers, self.redis, self.gateways = brokers, redis, gateways
        self.faults = Faults(brokers, redis, gateways, seed)
        urls = [one.url for one in gateways.all]
        self.traffic = Traffic(urls[:SPOOLING], urls[SPOOLING], seed, pause_s)
        self.held = Clients(urls[:SPOOLING], HELD, seed)

    async def load(self, seconds: float, happens: Callable[[], object] | None = None) -> None:
        """Traffic for that long, or as long as what happens takes."""
        stop = asyncio.Event()

        async def then_stop() -> None:
            try:
                await (happens() if happens else asyncio.sleep(seconds))  # type: ignore[misc]
            finally:
                stop.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(self.traffic.run(stop))
            group.create_task(self.held.burst(stop, seconds))
            group.create_task(then_stop())

    async def until_calm(self) -> None:
        """Everything is there, nothing under way, spooled or undecided any more."""
        await self.brokers.until_whole([*BEHIND_BOTH, SPOOLED])
        await self.gateways.until_ready()
        for gateway in self.gateways.all:
            await eventually(lambda one=gateway: asyncio.to_thread(_is_idle, one), 60.0, 0.3)
        spooling = self.gateways.all[SPOOLING]
        await eventually(lambda: asyncio.to_thread(_has_drained, spooling), 60.0, 0.3)
        await eventually(lambda: asyncio.to_thread(self._is_decided), 60.0, 0.5)

    def _is_decided(self) -> bool:
        held = held_topic(HELD)
        ends = kafka_log.end_offsets(self.brokers.bootstrap, held)
        reached = kafka_log.group_offsets(self.brokers.bootstrap, "headgate.held", held)
        return all(reached[one] == offset for one, offset in ends.items() if offset)

    async def log(self, topic: str) -> list[LogRecord]:
        return await asyncio.to_thread(kafka_log.read_log, self.brokers.bootstrap, topic)

    async def wrong(self, *, bulk: bool = False) -> list[str]:
        """What the judge finds. bulk: there are events of another client, `bulk-*`."""
        it, log = self.traffic, self.log
        histories = Histories(self.held.sent, await log(held_topic(HELD)), await log(HELD))
        return [
            *it.odd,
            *judge.of_single_records(it.plain, of_traffic(await log(PLAIN), bulk)),
            *judge.of_states(it.states, it.raced, of_traffic(await log(STATES), bulk)),
            *judge.of_split(it.split, await log(SPLIT)),
            *judge.of_chunked(CHUNKED, it.chunked, await log(CHUNKED)),
            *judge.of_spooled(it.spooled, await log(SPOOLED)),
            *histories.violations(),
        ]


def of_traffic(log: list[LogRecord], bulk: bool) -> list[LogRecord]:
    """Without what another client wrote."""
    return [one for one in log if not (bulk and (one.key or b"").startswith(b"bulk-"))]


def _is_idle(gateway: Gateway) -> bool:
    return in_flight(gateway) == 0


def _has_drained(gateway: Gateway) -> bool:
    found = exchange(gateway.management_port, "GET", "/v1/spool").document
    return bool(found["state"] and found["state"]["detail"] == "empty" and not found["events"])


@asynccontextmanager
async def stand(
    installation: KafkaInstallation,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    folder: Path,
    seed: int,
    pause_s: float,
) -> AsyncIterator[Stand]:
    """Start everything. pause_s: see `Traffic`."""
    async with AsyncExitStack() as ending:
        brokers = Brokers(installation, folder / "kafka", COUNT)
        await brokers.start(ending)
        redis = RedisPair(start_redis, COUNT)
        await redis.start(ending)
        await asyncio.to_thread(_create_topics, brokers)
        gateways = Gateways(brokers, redis, folder)
        await asyncio.to_thread(gateways.prepare)
        gateways.start(start_gateway)
        await gateways.until_ready()
        yield Stand(brokers, redis, gateways, seed, pause_s)


def _create_topics(brokers: Brokers) -> None:
    in_sync = {"min_insync_replicas": str(MIN_IN_SYNC)}
    for name in (PLAIN, STATES, HELD, SPOOLED):
        brokers.create_topic(name, 3, **in_sync)
    brokers.create_topic(PROBE, PROBE_PARTITIONS, **in_sync)
    for name in (SPLIT, CHUNKED):
        brokers.create_topic(name, 3, max_message_bytes=str(LARGE_BYTES), **in_sync)
