"""The cost and the errors of confluent-kafka's asyncio clients, beside aiokafka and the lanes.

    python loadtest/micro/confluent_asyncio.py [--seconds 1.5] [--rounds 5]

Closed loops on a real broker: each client sends one record, or fifty, and waits for all of them.
Records have no headers, because AIOProducer refuses them. The rounds of all ways are interleaved;
the table has the best round of each, in microseconds of this process a record (its threads and
those of librdkafka included) and milliseconds until the acknowledgement. Then three experiments:
errors of records that were sent and of records that were not, a purge, and a group of the new
protocol (KIP-848). Prints Markdown.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.aio import AIOConsumer, AIOProducer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "loadtest"))
sys.path.insert(0, str(ROOT / "tests"))  # stack.py starts real brokers

from headgate.devstack.ports import free_port  # noqa: E402
from headgate.devstack.servers import prepare_kafka, single_node  # noqa: E402
from headgate.kafka.lanes import KafkaLanes  # noqa: E402
from headgate.kafka.options import ClusterOptions, LaneLimits  # noqa: E402
from headgate.kafka.topics import KafkaTopics  # noqa: E402
from headgate.metrics.meter import Labels, Meter  # noqa: E402
from headgate.model.keys import partition_for  # noqa: E402
from headgate.model.outcome import Failure  # noqa: E402
from headgate.model.publish import Publish, Record  # noqa: E402
from headgate.model.record import size_of  # noqa: E402
from support.process.stack import RunningBroker  # noqa: E402
from targets import BROKER_SETTINGS, PARTITIONS, TOPIC_SETTINGS  # noqa: E402
from workload import Shape, events  # noqa: E402

TOPIC = "micro-confluent"
POLL_S = 0.05
TIMEOUT_MS = 3_000
READ = 30_000  # records for the consumers

Event = tuple[int, bytes, bytes]  # partition, key, value
Send = Callable[[Event], Awaitable["asyncio.Future[Any]"]]


class Case(NamedTuple):
    """A closed loop."""

    name: str
    clients: int
    records: int  # that a client sends at once


class Sample(NamedTuple):
    """One round."""

    us: float
    rate: float
    half_ms: float
    late_ms: float


CASES = (Case("single", 64, 1), Case("batches of 50", 16, 50))


# ---- ways to send


class Futures:
    """Listener of lanes that resolves a future for each event."""

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Nothing to do."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        for publish in batch:
            publish.common.set_result(None)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        raise RuntimeError(f"{len(batch)} records ended as {failure}")


@asynccontextmanager
async def lanes(bootstrap: str, case: Case) -> AsyncIterator[Send]:
    clusters = {"main": ClusterOptions(bootstrap)}
    topics, futures = KafkaTopics(clusters, 60_000), Futures()
    meter = Meter(Labels((), lambda topic: True), time.time)
    through = KafkaLanes(clusters, topics, futures, {"main": LaneLimits()}, meter)
    loop = asyncio.get_running_loop()

    async def send(event: Event) -> asyncio.Future[Any]:
        partition, key, value = event
        record = Record(TOPIC, partition, key, value, [], int(time.time() * 1000))
        publish = Publish(record, size_of(key, value, []), None, 0, "id")
        publish.common = future = loop.create_future()
        through.put(publish)
        return future

    try:
        await topics.start(lambda name: "main" if name == TOPIC else None)
        await through.start()
        yield send
    finally:
        await through.close()
        await topics.close()


@asynccontextmanager
async def aiokafka(bootstrap: str, case: Case) -> AsyncIterator[Send]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        compression_type="zstd",
        linger_ms=2,
        max_batch_size=262_144,
    ) as producer:

        async def send(event: Event) -> asyncio.Future[Any]:
            partition, key, value = event
            future: asyncio.Future[Any] = await producer.send(TOPIC, value, key, partition)
            return future

        yield send


def confluent(
    calls: int, in_flight: int
) -> Callable[[str, Case], AbstractAsyncContextManager[Send]]:
    """Return a way with AIOProducer.

    Args:
        calls: The number of a client's calls that fill the producer's buffer.
        in_flight: max.in.flight.requests.per.connection.
    """

    @asynccontextmanager
    async def way(bootstrap: str, case: Case) -> AsyncIterator[Send]:
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 2,
            "batch.size": 262_144,
            "max.in.flight.requests.per.connection": in_flight,
        }
        # The buffer is flushed when it is full, or 0.1 s after the last record.
        producer = AIOProducer(settings, batch_size=calls * case.records, buffer_timeout=0.1)

        async def poll() -> None:
            while True:  # otherwise callbacks wait for the next flush
                await producer.poll(POLL_S)

        async def send(event: Event) -> asyncio.Future[Any]:
            partition, key, value = event
            future: asyncio.Future[Any]
            future = await producer.produce(TOPIC, value, key, partition=partition)
            return future

        polling = asyncio.create_task(poll())
        try:
            yield send
        finally:
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling
            await producer.close()

    return way


WAYS = {
    "lanes": lanes,
    "aiokafka `send`": aiokafka,
    "AIOProducer, buffer of 1 call": confluent(1, 5),
    "AIOProducer, buffer of 8 calls": confluent(8, 5),
    "AIOProducer, 8 calls, 1 in flight": confluent(8, 1),
}


def made() -> list[Event]:
    values = list(islice(events(Shape()), 2_000))
    keys = [orjson.loads(value)["id"].encode() for value in values]
    return [
        (partition_for(key, PARTITIONS), key, value)
        for key, value in zip(keys, values, strict=True)
    ]


async def sample(
    bootstrap: str,
    way: Callable[[str, Case], AbstractAsyncContextManager[Send]],
    case: Case,
    seconds: float,
) -> Sample:
    every, waits = made(), list[float]()
    is_over = False

    async def client(number: int, send: Send) -> None:
        at = number * 31
        while not is_over:
            began = time.perf_counter()
            some = [every[(at + step) % len(every)] for step in range(case.records)]
            at += case.records
            for future in [await send(event) for event in some]:
                await future
            waits.append(time.perf_counter() - began)

    async with way(bootstrap, case) as send:
        clients = [asyncio.create_task(client(each, send)) for each in range(case.clients)]
        await asyncio.sleep(0.5)
        waits.clear()
        spent, began = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        spent, took = time.process_time() - spent, time.perf_counter() - began
        ends = sorted(waits)
        is_over = True
        await asyncio.gather(*clients)
    count = len(ends) * case.records
    half, late = (ends[int(len(ends) * part)] * 1e3 for part in (0.5, 0.99))
    return Sample(spent / count * 1e6, count / took, half, late)


def compare(bootstrap: str, arguments: argparse.Namespace) -> None:
    show("| case | way | us/record | records/s | p50 ms | p99 ms |")
    show("| --- | --- | --- | --- | --- | --- |")
    for case in CASES:
        samples: dict[str, list[Sample]] = {name: [] for name in WAYS}
        for _ in range(arguments.rounds):
            for name, way in WAYS.items():
                samples[name].append(uvloop.run(sample(bootstrap, way, case, arguments.seconds)))
        for name, some in samples.items():
            best = min(some)
            cells = " | ".join(f"{figure:,.1f}" for figure in best)
            show(f"| {case.name} | {name} | {cells} |")


# ---- reading


async def read_with_aiokafka(bootstrap: str) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    tps = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    consumer.assign(tps)
    await consumer.start()
    await consumer.seek_to_beginning(*tps)
    count = 0
    while count < READ:
        batches = await consumer.getmany(timeout_ms=500, max_records=500)
        count += sum(map(len, batches.values()))
    await consumer.stop()
    return count


async def read_with_confluent(bootstrap: str) -> int:
    consumer = AIOConsumer({"bootstrap.servers": bootstrap, "group.id": "none"}, max_workers=2)
    tps = [confluent_kafka.TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)]
    await consumer.assign([confluent_kafka.TopicPartition(*_earliest(tp)) for tp in tps])
    count = 0
    while count < READ:
        count += len(await consumer.consume(500, 0.5))
    await consumer.close()
    return count


def _earliest(tp: Any) -> tuple[str, int, int]:
    return tp.topic, tp.partition, confluent_kafka.OFFSET_BEGINNING


def compare_reading(bootstrap: str, arguments: argparse.Namespace) -> None:
    show("\n| consumer | us/record |\n| --- | --- |")
    ways = {"aiokafka, getmany(500)": read_with_aiokafka, "AIOConsumer": read_with_confluent}
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            began = time.process_time()
            count = uvloop.run(way(bootstrap))
            figures[name].append((time.process_time() - began) / count * 1e6)
    for name, some in figures.items():
        show(f"| {name} | {min(some):.1f} |")


# ---- experiments


def code_of(error: object) -> str:
    inner = error.args[0] if isinstance(error, BaseException) and error.args else error
    return inner.name() if isinstance(inner, confluent_kafka.KafkaError) else repr(error)


async def end_of(future: Awaitable[Any]) -> str:
    try:
        await asyncio.wait_for(future, 30)
    except (Exception, asyncio.CancelledError) as error:
        return code_of(error)
    return "acknowledged"


async def sent_or_not(broker: RunningBroker) -> None:
    """The errors of a record that was never sent, and of one in a request without a response."""
    settings = {
        "message.timeout.ms": TIMEOUT_MS,
        "enable.idempotence": True,
        "log_level": 0,
        "linger.ms": 0,
    }
    nowhere = AIOProducer(
        {**settings, "bootstrap.servers": f"127.0.0.1:{free_port()}"}, batch_size=1
    )
    future = await nowhere.produce(TOPIC, b"never sent", partition=0)
    await nowhere.flush(10)
    show(f"- never sent, no broker: {await end_of(future)}")

    producer = AIOProducer({**settings, "bootstrap.servers": broker.bootstrap}, batch_size=1)
    first = await producer.produce(TOPIC, b"first", partition=0)
    await producer.flush(10)
    show(f"- while the broker answers: {await end_of(first)}")
    broker.pause()
    try:
        future = await producer.produce(TOPIC, b"sent", partition=0)
        await producer.flush(10)
        show(f"- sent to a broker that hangs: {await end_of(future)}")
        purged = await producer.produce(TOPIC, b"in a queue or sent", partition=0)
        await producer.purge(in_queue=True, in_flight=True)
        await producer.poll(1)
        show(f"- purged with AIOProducer: {await end_of(purged)}")
    finally:
        broker.resume()
    plain = confluent_kafka.Producer({**settings, "bootstrap.servers": "127.0.0.1:1"})
    ends = list[str]()
    plain.produce(TOPIC, b"x", on_delivery=lambda error, _: ends.append(code_of(error)))
    plain.purge(in_queue=True, in_flight=True)
    plain.poll(1)
    show(f"- purged with Producer, never sent: {ends}")
    try:
        await producer.produce(TOPIC, b"x", headers=[("a", b"b")])
    except NotImplementedError as error:
        show(f"- with headers: NotImplementedError: {error}")
    status = [name for name in dir(confluent_kafka.Message) if "status" in name]
    show(f"- attributes of Message about its status: {status}")


async def new_group(bootstrap: str) -> None:
    """A group of the new protocol, with a second member."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "kip848",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    first, second = AIOConsumer(dict(settings)), AIOConsumer(dict(settings))
    await first.subscribe([TOPIC])
    count = len(await first.consume(500, 10))
    await first.commit(asynchronous=False)
    await second.subscribe([TOPIC])
    for _ in range(20):
        await asyncio.gather(first.consume(100, 0.5), second.consume(100, 0.5))
        parts = [len(await each.assignment()) for each in (first, second)]
        if min(parts):
            break
    admin = AdminClient({"bootstrap.servers": bootstrap})
    group = admin.describe_consumer_groups(["kip848"])["kip848"].result()
    show(
        f"- read {count} records; type {group.type.name}, state {group.state.name}, "
        f"partitions of the members {parts}, assignor {group.partition_assignor}"
    )
    await first.close()
    await second.close()


def show(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as directory:
        plan = single_node(Path(directory), free_port(), BROKER_SETTINGS)
        broker = RunningBroker(prepare_kafka(os.environ, say=lambda line: None), plan)
        try:
            broker.wait()
            broker.create_topic(TOPIC, PARTITIONS, TOPIC_SETTINGS)
            show(
                f"confluent-kafka {confluent_kafka.version()}, {confluent_kafka.libversion()[0]}\n"
            )
            compare(broker.bootstrap, arguments)
            compare_reading(broker.bootstrap, arguments)
            show("\nErrors:\n")
            asyncio.run(sent_or_not(broker))
            show("\nKIP-848:\n")
            asyncio.run(new_group(broker.bootstrap))
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
