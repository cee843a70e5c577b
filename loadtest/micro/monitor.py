"""Processor time and memory of one poll of the monitor, against a real broker.

    python loadtest/micro/monitor.py [--groups 500] [--topics 100] [--polls 20]

Topics of 12 partitions, and groups that have committed in each partition of one of them. Processor
seconds are of this process alone, from the first request to the judged state. Memory is what Python
holds for what is known after 5 polls, and after so many more with a commit of every partition
before each. Prints Markdown.
"""

import argparse
import gc
import os
import struct
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import uvloop
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # stack.py starts real brokers

from headgate.devstack.ports import free_port  # noqa: E402
from headgate.devstack.servers import prepare_kafka, single_node  # noqa: E402
from headgate.kafka.groups import (  # noqa: E402
    CommittedOffset,
    Partition,
    read_record,
)
from headgate.kafka.options import ClusterOptions  # noqa: E402
from headgate.monitor.cluster_monitor import ClusterMonitor, take  # noqa: E402
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions  # noqa: E402
from support.process.stack import RunningBroker  # noqa: E402

PARTITIONS = 12
MEBIBYTE = 1_048_576
_COMMITS = 50_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create(bootstrap: str, groups: int, topics: int) -> None:
    """Topics, and a commit of each group in every partition of one of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    fresh = [NewTopic(f"topic-{number}", PARTITIONS, 1) for number in range(topics)]
    for future in admin.create_topics(fresh, operation_timeout=120).values():
        future.result()
    _wait_for_coordinator(bootstrap)
    for number in range(groups):
        offsets = [TopicPartition(f"topic-{number % topics}", one, 0) for one in range(PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions(f"group-{number}", offsets)]
        for future in admin.alter_consumer_group_offsets(asked).values():
            future.result()


def _wait_for_coordinator(bootstrap: str) -> None:
    """Have Kafka create its topic of offsets, and wait until it answers for it."""
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": "group-0"})
    end = time.monotonic() + 60
    while True:
        try:
            asking.committed([TopicPartition("topic-0", 0)], timeout=10)
        except KafkaException:
            if time.monotonic() > end:
                raise
        else:
            asking.close()
            return


async def measure(bootstrap: str, polls: int) -> Sequence[str]:
    """Lines of the table."""
    monitor = ClusterMonitor("main", ClusterOptions(bootstrap), WatchOptions(), 10.0, {}, now_ms)
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(polls):
        begun = (time.process_time(), time.perf_counter())
        await monitor._poll()
        cpu.append(time.process_time() - begun[0])
        wall.append(time.perf_counter() - begun[1])
    tracks = sum(len(one.tracks) for one in monitor.watch.groups.values())
    held = await _memory(monitor, polls)
    await monitor._reader.close()
    stream_us = _stream_us(monitor.watch)
    found = (
        f"| {len(monitor.watch.groups)} | {tracks} | {len(monitor.watch.logs)} | {cpu[0]:.3f} "
        f"| {sorted(cpu)[len(cpu) // 2]:.3f} | {max(cpu[1:]):.3f} | {max(wall[1:]):.2f} "
        f"| {held[0] / MEBIBYTE:.1f} | {held[1] / MEBIBYTE:.1f} | {held[1] / tracks:.0f} "
        f"| {stream_us:.1f} |"
    )
    return (
        "| groups | group-partitions | logs | CPU s, first poll | median | worst | wall s, worst "
        "| MiB held | MiB after all commits | bytes a group-partition "
        "| us a commit of the commit stream |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        found,
    )


def _stream_us(watch: ClusterWatch) -> float:
    """Microseconds to decode and judge one commit of the stream, without reading it."""
    group, place = "group-0", Partition("topic-0", 0)
    names = b"".join(struct.pack(">h", len(one)) + one.encode() for one in (group, place.topic))
    key = struct.pack(">h", 1) + names + struct.pack(">i", 0)
    signed = b'{"member":"m-0f1e2d3c","client":"billing","term":3}'
    texts = struct.pack(">h", len(signed)) + signed
    values = [
        struct.pack(">hqi", 3, one, 5) + texts + struct.pack(">q", now_ms())
        for one in range(_COMMITS)
    ]
    begun = time.process_time()
    for value in values:
        record = read_record(key, value)
        assert record is not None
        take(watch, record, 0)
    return (time.process_time() - begun) / _COMMITS * 1e6


async def _memory(monitor: ClusterMonitor, polls: int) -> tuple[int, int]:
    """What is held, seen from an empty watch: after 5 polls, and after many commits."""
    fresh = ClusterMonitor("main", monitor._options, WatchOptions(), 10.0, {}, now_ms)
    tracemalloc.start()
    gc.collect()
    empty = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        await fresh._poll()
    fresh._has_commit_stream = True  # commits are told here, not by what a poll finds
    gc.collect()
    first = tracemalloc.get_traced_memory()[0] - empty
    signed = '{"member":"m-0f1e2d3c","client":"billing","term":3}'
    places = [(name, place) for name, one in fresh.watch.groups.items() for place in one.tracks]
    for number in range(polls):
        for name, place in places:
            stored = CommittedOffset(number, signed)
            fresh.watch.committed(name, Partition(*place), stored, now_ms(), now_ms())
        await fresh._poll()
    gc.collect()
    last = tracemalloc.get_traced_memory()[0] - empty
    tracemalloc.stop()
    await fresh._reader.close()
    return first, last


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--polls", type=int, default=20)
    chosen = parser.parse_args()
    installation = prepare_kafka(os.environ, say=lambda line: None)
    with tempfile.TemporaryDirectory() as folder:
        broker = RunningBroker(installation, single_node(Path(folder), free_port()))
        try:
            broker.wait()
            create(broker.bootstrap, chosen.groups, chosen.topics)
            lines = uvloop.run(measure(broker.bootstrap, chosen.polls))
        finally:
            broker.kill()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
