"""Processor time that `headgate.consumer` adds to aiokafka's, on a real broker.

    python loadtest/micro/consumer.py [--records 100000] [--rounds 5]

Reads the same topic (6 partitions, 648-byte keyed records with three headers) in turn with plain
aiokafka (`getmany` of at most 500 records, committed every second) and with `Consumer`, iterated
(one task) and with `run` (16 tasks). Handlers do nothing. Microseconds of this process a record,
median of the rounds. Prints Markdown.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from uuid import uuid4

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "loadtest"))
sys.path.insert(0, str(ROOT / "tests"))  # stack.py starts real brokers

from headgate.consumer import Consumer, Received  # noqa: E402
from headgate.devstack.ports import free_port  # noqa: E402
from headgate.devstack.servers import prepare_kafka, single_node  # noqa: E402
from support.process.stack import RunningBroker  # noqa: E402
from targets import BROKER_SETTINGS, PARTITIONS, TOPIC_SETTINGS  # noqa: E402
from workload import Shape, events  # noqa: E402

TOPIC = "micro-consumer"
HEADERS = [("hg-producer", b"checkout"), ("hg-received-at", b"1750000200000"), ("hg-event-id", b"")]


def fill(bootstrap: str, records: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2 * records,
            "partitioner": "murmur2_random",
        }
    )
    for number, value in enumerate(islice(events(Shape()), records)):
        producer.produce(TOPIC, value, orjson.loads(value)["id"].encode(), headers=HEADERS)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise SystemExit("the topic could not be filled")


async def plain(bootstrap: str, records: int) -> None:
    """What one writes with aiokafka alone."""
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=f"plain-{uuid4()}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    seen, committed_at = 0, time.monotonic()
    while seen < records:
        for found in (await consumer.getmany(timeout_ms=500, max_records=500)).values():
            for _ in found:
                seen += 1
        if time.monotonic() - committed_at > 1:
            await consumer.commit()
            committed_at = time.monotonic()
    await consumer.stop()


async def iterated(bootstrap: str, records: int) -> None:
    seen = 0
    async with Consumer(TOPIC, group=f"iterated-{uuid4()}", bootstrap=bootstrap) as consumer:
        async for event in consumer:
            seen += 1
            event.done()
            if seen == records:
                break


async def run(bootstrap: str, records: int) -> None:
    seen = 0
    consumer = Consumer(TOPIC, group=f"run-{uuid4()}", bootstrap=bootstrap)

    async def handle(event: Received) -> None:
        nonlocal seen
        seen += 1
        if seen == records:
            consumer.stop()

    async with consumer:
        await consumer.run(handle)


WAYS: dict[str, Callable[[str, int], Awaitable[None]]] = {
    "aiokafka, getmany": plain,
    "Consumer, iterated": iterated,
    "Consumer, run": run,
}


async def cost(way: str, bootstrap: str, records: int) -> float:
    """Microseconds of processor time a record."""
    before = time.process_time()
    await WAYS[way](bootstrap, records)
    return (time.process_time() - before) / records * 1e6


async def measure(bootstrap: str, records: int, rounds: int) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for way in WAYS:
            us = await cost(way, bootstrap, records)
            if number:  # the first round fills caches
                found[way].append(us)
    base = statistics.median(found["aiokafka, getmany"])
    print("| way | us/record | more than aiokafka |\n| --- | --- | --- |")  # noqa: T201
    for way, samples in found.items():
        us, spread = statistics.median(samples), f"({min(samples):.1f}..{max(samples):.1f})"
        print(f"| {way} | {us:.1f} {spread} | {us - base:+.1f} |")  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    installation = prepare_kafka({}, say=lambda line: None)
    with tempfile.TemporaryDirectory() as folder:
        plan = single_node(Path(folder) / "kafka", free_port(), BROKER_SETTINGS)
        broker = RunningBroker(installation, plan)
        try:
            broker.wait()
            broker.create_topic(TOPIC, PARTITIONS, TOPIC_SETTINGS)
            fill(broker.bootstrap, options.records)
            uvloop.run(measure(broker.bootstrap, options.records, options.rounds))
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
