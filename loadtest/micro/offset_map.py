"""How long does a map of ten million segments take to load, and how much memory?

A partition that has been mirrored for 19 years with a commit each minute, or 6,944 partitions for a
day. A broker of its own gets the records of the map as the mirror leaves them when the cleaner has
been there; then a fresh process reads them as a gateway does that was asked for this partition.
"""

import argparse
import asyncio
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from headgate.devstack.ports import free_port
from headgate.devstack.servers import prepare_kafka, single_node, start_node, wait_for_node
from headgate.kafka.options import ClusterOptions
from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    Layout,
    MapAddress,
    layout_record,
    map_partition,
    segment_records,
)
from headgate.replays.packed import BLOCK_SEGMENTS
from headgate.replays.segments import Segment
from headgate.replays.tiers import OffsetMaps

PLACE = MapAddress("orders", 0, 1)
SEGMENTS = 10_000_000
LOOKUPS = 100_000
BATCH_RECORDS = 200


def segments(count: int) -> Iterator[Segment]:
    """A busy topic: a commit each minute, of 1 to 5,000 records, and its marker."""
    chance, source, target, time_ms = random.Random(35), 0, 0, 1_500_000_000_000
    for _ in range(count):
        records, last_ms = chance.randint(1, 5_000), time_ms + chance.randint(59_000, 61_000)
        yield Segment(source, target, records, source + records, time_ms, last_ms)
        source, target, time_ms = source + records, target + records + 1, last_ms


def records(count: int) -> Iterator[tuple[bytes, bytes | None]]:
    """What is left of them on the map topic."""
    yield layout_record(PLACE, Layout(1, "source", "target", 0))
    some: list[Segment] = []
    for segment in segments(count):
        some.append(segment)
        if len(some) == BLOCK_SEGMENTS:
            yield from segment_records(PLACE, (), some)[0]
            some = []
    yield from segment_records(PLACE, (), some)[0]


async def fill(bootstrap: str, count: int) -> int:
    """Write the map; the bytes of its keys and values."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    configs = {"cleanup.policy": "compact"}
    await admin.create_topics([NewTopic(MAP_TOPIC, MAP_PARTITIONS, 1, topic_configs=configs)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd")
    await producer.start()
    partition, size = map_partition(*PLACE[:2]), 0
    builder = producer.create_batch()
    for key, value in records(count):
        size += len(key) + len(value or b"")
        if builder.append(timestamp=None, key=key, value=value) is None:
            await (await producer.send_batch(builder, MAP_TOPIC, partition=partition))
            builder = producer.create_batch()
            builder.append(timestamp=None, key=key, value=value)
    await (await producer.send_batch(builder, MAP_TOPIC, partition=partition))
    await producer.stop()
    return size


async def load(bootstrap: str) -> None:
    """As a gateway does it. Prints a row."""
    maps = OffsetMaps(ClusterOptions(bootstrap))
    before, begun = _resident(), time.perf_counter()
    found = (await maps.of(PLACE.topic, [PLACE.partition]))[PLACE.partition]
    elapsed, after = time.perf_counter() - begun, _resident()
    table = found.table
    chance, begun = random.Random(1), time.perf_counter()
    for _ in range(LOOKUPS):
        table.to_target(chance.randrange(table.source_end))
    scattered = (time.perf_counter() - begun) / LOOKUPS
    start, begun = table.source_end // 2, time.perf_counter()
    for offset in range(start, start + LOOKUPS):
        table.to_target(offset)
    near = (time.perf_counter() - begun) / LOOKUPS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        f"| {len(table):,} | {elapsed:.1f} | {after - before:.0f} | {peak:.0f} "
        f"| {table.memory / len(table):.2f} | {scattered * 1e6:.0f} | {near * 1e6:.1f} |\n"
    )


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def main() -> None:
    """Start a broker, fill it, have it read, end it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("segments", nargs="?", type=int, default=SEGMENTS)
    parser.add_argument("--load", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.load is not None:
        asyncio.run(load(chosen.load))
        return
    installation = prepare_kafka(os.environ, say=lambda line: None)
    with tempfile.TemporaryDirectory(prefix="headgate-map-") as folder:
        plan = single_node(Path(folder), free_port())
        node = start_node(installation, plan)
        try:
            wait_for_node(node, plan)
            size = asyncio.run(fill(plan.bootstrap, chosen.segments))
            sys.stdout.write(
                f"{size / chosen.segments:.2f} bytes a segment in keys and values\n\n"
                "| segments | load s | more memory MiB | peak MiB | bytes a segment | lookup us, "
                "anywhere | in a row |\n|---:|---:|---:|---:|---:|---:|---:|\n"
            )
            sys.stdout.flush()
            subprocess.run(
                [sys.executable, __file__, "--load", plan.bootstrap], check=True, timeout=600
            )
        finally:
            node.kill()


if __name__ == "__main__":
    main()
