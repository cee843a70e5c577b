"""Copies of one partition, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import Producer

from headgate.replays.offset_map import MAP_TOPIC
from headgate_spark.copying.reader import BrokerBuckets, Copied, CopyOptions, CopyUnit
from headgate_spark.mirror.copier import Copier
from support.kafka import kafka_log
from support.process.stack import RunningBroker
from support.scenarios import mirror_world
from support.scenarios.mirror_world import Two


async def run(unit: CopyUnit, options: CopyOptions) -> Copied:
    return await Copier(unit, options, BrokerBuckets(options.bytes_per_s)).run()


async def copy(unit: CopyUnit, options: CopyOptions) -> Copied:
    """A copy that must succeed; returns when all of it can be read."""
    copied = await run(unit, options)
    assert copied.trouble is None
    for topic in (unit.address.topic, MAP_TOPIC):
        kafka_log.wait_settled(options.target.bootstrap_servers, topic)
    return copied


def produce(broker: RunningBroker, topic: str, values: list[bytes], **more: object) -> None:
    client = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **more})
    for value in values:
        client.produce(topic, value, partition=0)
    assert client.flush(30) == 0


@asynccontextmanager
async def following(unit: CopyUnit, options: CopyOptions) -> AsyncIterator[asyncio.Task[Copied]]:
    task = asyncio.create_task(run(unit, options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def mapped_end(two: Two, topic: str) -> int:
    found = mirror_world.read_maps(two.target, topic).get((topic, 0))
    return found.table.source_end if found else -1
