"""Processor time of mirroring a record, beside a bare loop over the same client library.

    python loadtest/micro/mirror.py [records] [--rounds N]
    python loadtest/micro/mirror.py [records of a partition] --tasks 1,2,4

Two brokers of its own, one partition of 648-byte records with the gateway's headers, copied by
`headgate_spark.mirror.copier` and by a bare aiokafka `getmany` and transactional `send_batch` loop
with chunks of the same size, in turns, in this process. Beside them their limit: the bare loop's
`getmany` alone, nothing written. Microseconds of this process a record, the best of several
rounds, and the ratios within each round. Prints Markdown. With --tasks the same copier in Spark's
tasks: see mirror_tasks.py.
"""

import argparse
import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition

from headgate.devstack.ports import free_port
from headgate.devstack.servers import prepare_kafka, single_node, start_node, wait_for_node
from headgate.replays.offset_map import MAP_TOPIC, Layout, MapAddress
from headgate_spark.copying.cluster import cluster_admin
from headgate_spark.copying.reader import (
    CHUNK_RECORDS,
    MAX_FETCH_BYTES,
    BrokerBuckets,
    CopyOptions,
    CopyUnit,
)
from headgate_spark.job.options import Connection
from headgate_spark.mirror.copier import Copier
from headgate_spark.mirror.plan import prepare_map

ROUNDS, RECORDS, VALUE = 5, 100_000, 648
TOPIC = "orders"
HEADERS = [
    ("hg-producer", b"checkout"),
    ("hg-received-at", b"1795000000000"),
    ("hg-event-id", b"01933f5e-7a8c-7cc0-8000-0123456789ab"),
    ("content-type", b"application/json"),
]


async def recreate(target: Connection, topic: str, partitions: int = 1) -> None:
    """Empty the target: in a layout of its own a copier takes what is there for that of others,
    and reads all of it."""
    async with cluster_admin(target) as here:
        await here.delete(topic)
        await create(target.bootstrap_servers, [topic], partitions)
        await here.settled({topic: partitions})


async def id_of(source: Connection, topic: str) -> str:
    """What tells a topic from later ones of its name."""
    async with cluster_admin(source) as there:
        return (await there.metadata()).topics[topic].uuid


async def fill(bootstrap: str, topic: str, partition: int, records: int) -> None:
    """Write the source."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=262_144)
    await producer.start()
    waiting, number = [], 0
    while number < records:
        builder = producer.create_batch()
        while number < records and builder.append(
            timestamp=1_795_000_000_000 + number,
            key=b"%d" % (number % 5000),
            value=os.urandom(VALUE // 2).hex().encode(),
            headers=HEADERS,
        ):
            number += 1
        waiting.append(await producer.send_batch(builder, topic, partition=partition))
    for one in waiting:
        await one
    await producer.stop()


async def chunks(options: CopyOptions, records: int) -> AsyncIterator[list[ConsumerRecord]]:
    """The source as plain `getmany` gives it, a transaction's worth at a time."""
    fetcher.MemoryRecords = MemoryRecords  # the copier's way of decoding is set for the process
    tp = TopicPartition(TOPIC, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.source.bootstrap_servers,
        isolation_level="read_committed",
        max_partition_fetch_bytes=MAX_FETCH_BYTES,
    )
    await consumer.start()
    consumer.assign([tp])
    consumer.seek(tp, 0)
    done = 0
    while done < records:
        chunk: list[ConsumerRecord] = []
        while len(chunk) < CHUNK_RECORDS and done + len(chunk) < records:
            found = await consumer.getmany(
                tp, timeout_ms=200, max_records=CHUNK_RECORDS - len(chunk)
            )
            chunk += found.get(tp, [])
        yield chunk
        done += len(chunk)
    await consumer.stop()


async def reading(options: CopyOptions, records: int, _name: str) -> None:
    """The limit: whoever copies has to read. Nothing is written."""
    async with aclosing(chunks(options, records)) as source:
        assert sum([len(chunk) async for chunk in source]) == records


async def bare(options: CopyOptions, records: int, name: str) -> None:
    """What a copier costs at least: read, write in transactions, nothing else."""
    codec = options.target.compression
    producer = AIOKafkaProducer(
        bootstrap_servers=options.target.bootstrap_servers,
        transactional_id=name,
        max_batch_size=1_048_576,
        compression_type=None if codec == "none" else codec,
    )
    await producer.start()
    async with aclosing(chunks(options, records)) as source:
        async for chunk in source:
            await write(producer, chunk, name)
    await producer.stop()


async def write(producer: AIOKafkaProducer, chunk: Sequence[ConsumerRecord], topic: str) -> None:
    """One transaction."""
    await producer.begin_transaction()
    builder, waiting = producer.create_batch(), []
    for record in chunk:
        while builder.append(
            timestamp=record.timestamp, key=record.key, value=record.value,
            headers=list(record.headers),
        ) is None:  # fmt: skip
            waiting.append(await producer.send_batch(builder, topic, partition=0))
            builder = producer.create_batch()
    waiting.append(await producer.send_batch(builder, topic, partition=0))
    for one in waiting:
        await one
    await producer.commit_transaction()


async def copied(source_id: str, options: CopyOptions, records: int, name: str) -> None:
    """The mirror's copier. Every round is a layout of its own, and so copies the whole topic."""
    number = int(name.rpartition("-")[2])
    unit = CopyUnit(MapAddress(TOPIC, 0, number), Layout(1, source_id, name, 0), records)
    found = await Copier(unit, options, BrokerBuckets(None)).run()
    assert (found.trouble, found.records, found.foreign) == (None, records, 0), found


async def create(bootstrap: str, names: list[str], partitions: int = 1) -> None:
    """Topics."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    kept = {"retention.ms": "-1"}  # records have times of their own
    await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=kept) for name in names])
    await admin.close()


class Cost(NamedTuple):
    """us: of processor time a record.  rate: records a second."""

    us: float
    rate: float


class Round(NamedTuple):
    """What each way cost, one after the other."""

    reading: Cost
    bare: Cost
    copier: Cost


async def measured(work: Callable[[], Awaitable[None]], records: int) -> Cost:
    """Do it once."""
    begun, used = time.perf_counter(), time.process_time()
    await work()
    return Cost(
        (time.process_time() - used) / records * 1e6,
        records / (time.perf_counter() - begun),
    )


async def one_round(options: CopyOptions, records: int, number: int) -> Round:
    """All three ways; every second time the last one first, as what ran before may be felt."""
    name = f"bare-{number}"
    await create(options.target.bootstrap_servers, [name])
    await recreate(options.target, TOPIC)
    ways = (reading, bare, partial(copied, await id_of(options.source, TOPIC)))
    turn = 1 if number % 2 else -1
    costs = [await measured(partial(way, options, records, name), records) for way in ways[::turn]]
    return Round(*costs[::turn])


def row(codec: str, rounds: Sequence[Round]) -> str:
    """Of the table. The best of each way is what the machine's other work disturbed least."""
    read, plain, ours = (min(one.us for one in way) for way in zip(*rounds, strict=True))
    ratios = sorted(one.copier.us / one.bare.us for one in rounds)
    spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
    return (
        f"| {codec} | {read:.1f} | {plain:.1f} | {ours:.1f} | {ours / plain:.2f} | {spread} "
        f"| {ours / read:.2f} | {max(one.copier.rate for one in rounds):,.0f} |\n"
    )


async def run(source: str, target: str, records: int, count: int) -> None:
    """Measure all in turns, without compression and with the backfill tier's default."""
    await create(source, [TOPIC])
    await fill(source, TOPIC, 0, records)
    sys.stdout.write(
        "| compression | reading alone us | bare us | copier us | copier / bare | in each round "
        "| copier / reading | copier records/s |\n|---|---|---|---|---|---|---|---|\n"
    )
    for at, codec in enumerate(("none", "zstd")):
        options = CopyOptions(
            Connection(source, name="main"), Connection(target, name="backfill", compression=codec)
        )
        async with cluster_admin(options.target) as here:
            await prepare_map(here)
        numbers = range(at * count + 1, (at + 1) * count + 1)
        rounds = [await one_round(options, records, number) for number in numbers]
        sys.stdout.write(row(codec, rounds))
        sys.stdout.flush()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"\nPeak memory of this process: {peak:.0f} MB. Map: {MAP_TOPIC}.\n")


def run_on_spark(
    source: str, target: str, records: int, counts: Sequence[int], brokers: Sequence[int]
) -> None:
    """As many tasks as partitions, and one task for all of the most partitions."""
    from mirror_tasks import Shape, table  # slow to import

    options = CopyOptions(Connection(source, name="main"), Connection(target, name="backfill"))
    limit = max(counts)
    shapes = [Shape(one, one) for one in counts] + [
        Shape(limit, one) for one in (1, 2) if one < limit
    ]

    def prepared(shape: Shape) -> tuple[str, str]:
        return asyncio.run(_prepared(options, shape.partitions, records))

    def emptied(topic: str, partitions: int) -> None:
        asyncio.run(recreate(options.target, topic, partitions))

    table(list(dict.fromkeys(shapes)), options, brokers, records, prepared, emptied)


async def _prepared(options: CopyOptions, partitions: int, records: int) -> tuple[str, str]:
    topic = f"{TOPIC}-{partitions}"
    source, target = options.source, options.target
    await create(source.bootstrap_servers, [topic], partitions)
    await create(target.bootstrap_servers, [topic], partitions)
    for one in range(partitions):
        await fill(source.bootstrap_servers, topic, one, records)
    async with cluster_admin(target) as here:
        await prepare_map(here)
    return topic, await id_of(source, topic)


def main() -> None:
    """Start two brokers, measure, end them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="?", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", metavar="N,N", help="Spark's tasks, instead of a bare loop")
    chosen = parser.parse_args()
    records = chosen.records
    installation = prepare_kafka(os.environ, say=lambda line: None)
    with tempfile.TemporaryDirectory(prefix="headgate-mirror-") as folder:
        plans = [single_node(Path(folder) / name, free_port()) for name in ("ingest", "backfill")]
        nodes = [start_node(installation, plan) for plan in plans]
        try:
            for node, plan in zip(nodes, plans, strict=True):
                wait_for_node(node, plan)
            ends = plans[0].bootstrap, plans[1].bootstrap
            if chosen.tasks is None:
                asyncio.run(run(*ends, records, chosen.rounds))
            else:
                counts = [int(one) for one in chosen.tasks.split(",")]
                run_on_spark(*ends, records, counts, [node.pid for node in nodes])
        finally:
            for node in nodes:
                node.kill()


if __name__ == "__main__":
    main()
