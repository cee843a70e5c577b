"""Processor time of the lanes: from `put` to `acknowledged`, against a real broker.

    python loadtest/micro/lanes.py [--seconds 1.5] [--rounds 5]

A closed loop of so many clients over six partitions. A client whose record was acknowledged puts
its next one when its turn has come: one client at a time, WORK_S of other work apart, as a gateway
does that reads and checks a request before each record. Without that all records of a round would
be there at once and every batch would be as full as it can be. The other work is a busy wait and is
taken off the result. Best of the rounds, in microseconds of this process a record. Prints Markdown.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import orjson
import uvloop

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

TOPIC = "micro-lanes"
WORK_S = 60e-6  # of everything else that a gateway does for an event
CONCURRENCIES = (64, 800)
CODECS = ("none", "zstd")


class Sample(NamedTuple):
    """One round. us: of this process a record.  per_batch, per_request: records."""

    us: float
    rate: float
    per_batch: float
    per_request: float
    half_ms: float
    late_ms: float


class Clients:
    """The closed loop; it listens as `Deliveries`."""

    def __init__(self, concurrency: int) -> None:
        values = list(islice(events(Shape()), 2_000))
        keys = [orjson.loads(value)["id"].encode() for value in values]
        self._events = [
            (partition_for(key, PARTITIONS), key, value)
            for key, value in zip(keys, values, strict=True)
        ]
        self._waiting: deque[None] = deque([None] * concurrency)
        self._loop = asyncio.get_running_loop()
        self._is_pumping = False
        self._is_ending = False
        self._open = 0
        self._next = 0
        self.idle = asyncio.Event()
        self.worked_s = 0.0
        self.records = 0
        self.batches = 0
        self.waits: list[float] = []
        self._put_s: dict[int, float] = {}  # by the index of the publish

    def run(self, lanes: KafkaLanes) -> None:
        self._lanes = lanes
        self._pump_soon()

    def end(self) -> None:
        self._is_ending = True

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Nothing to do."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        now = time.perf_counter()
        self.waits += [now - self._put_s.pop(publish.index) for publish in batch]
        self._waiting.extend([None] * len(batch))
        self.records += len(batch)
        self.batches += 1
        self._open -= len(batch)
        self._pump_soon()

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        raise RuntimeError(f"{len(batch)} records ended as {failure}")

    def _pump_soon(self) -> None:
        if not self._is_pumping and not self._is_ending:
            self._is_pumping = True
            self._loop.call_soon(self._pump)
        elif self._is_ending and not self._open:
            self.idle.set()

    def _pump(self) -> None:
        self._is_pumping = False
        if self._is_ending:
            return
        begin = time.process_time()
        self._waiting.popleft()
        publish = self._made()
        while (worked_s := time.process_time() - begin) < WORK_S:
            pass
        self.worked_s += worked_s
        self._put_s[publish.index] = time.perf_counter()
        self._open += 1
        self._lanes.put(publish)
        if self._waiting:
            self._pump_soon()

    def _made(self) -> Publish:
        partition, key, value = self._events[self._next % len(self._events)]
        self._next += 1
        headers = [("hg-event-id", b"01JD7Y5V0G8Q4Z6W3N1T2R9XKC"), ("hg-producer", b"shop")]
        headers.append(("hg-received-at", b"2026-11-21T10:00:00.000Z"))
        record = Record(TOPIC, partition, key, value, headers, int(time.time() * 1000))
        return Publish(record, size_of(key, value, headers), None, self._next, "id")


async def sample(bootstrap: str, concurrency: int, options: ClusterOptions, s: float) -> Sample:
    clusters = {"main": options}
    topics = KafkaTopics(clusters, 60_000)
    clients = Clients(concurrency)
    limits = dict.fromkeys(clusters, LaneLimits())
    meter = Meter(Labels((), lambda topic: True), time.time)
    lanes = KafkaLanes(clusters, topics, clients, limits, meter)
    try:
        await topics.start(lambda name: "main" if name == TOPIC else None)
        await lanes.start()
        clients.run(lanes)
        await asyncio.sleep(0.3)
        requests = _requests_counted(lanes)
        begin, clients.worked_s, clients.records, clients.batches = (time.process_time(), 0.0, 0, 0)
        clients.waits, began = [], time.perf_counter()
        await asyncio.sleep(s)
        spent, took = time.process_time() - begin - clients.worked_s, time.perf_counter() - began
        waits, count = sorted(clients.waits), clients.records
        per_batch, per_request = count / clients.batches, count / len(requests)
        clients.end()
        await asyncio.wait_for(clients.idle.wait(), 5)
    finally:
        await lanes.close()
        await topics.close()
    half, late = (waits[int(len(waits) * part)] * 1e3 for part in (0.5, 0.99))
    return Sample(spent / count * 1e6, count / took, per_batch, per_request, half, late)


def _requests_counted(lanes: KafkaLanes) -> list[int]:
    producer = lanes._clusters["main"].producer
    assert producer is not None
    sender, numbers = producer._inner._sender, list[int]()
    inner = sender._send_produce_req

    async def counted(node: int, batches: object) -> None:
        numbers.append(node)
        await inner(node, batches)

    sender._send_produce_req = counted
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--linger-ms", type=float, default=ClusterOptions("").linger_ms)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        plan = single_node(Path(directory), free_port(), BROKER_SETTINGS)
        broker = RunningBroker(prepare_kafka(os.environ, say=lambda line: None), plan)
        try:
            broker.wait()
            broker.create_topic(TOPIC, PARTITIONS, TOPIC_SETTINGS)
            report(broker.bootstrap, arguments)
        finally:
            broker.kill()


def report(bootstrap: str, arguments: argparse.Namespace) -> None:
    sys.stdout.write(
        "| codec | clients | us/record | records/s | a batch | a request | p50 ms | p99 ms |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    warm = ClusterOptions(bootstrap)
    uvloop.run(sample(bootstrap, CONCURRENCIES[0], warm, arguments.seconds))
    for codec in CODECS:
        for concurrency in CONCURRENCIES:
            options = ClusterOptions(bootstrap, compression=codec, linger_ms=arguments.linger_ms)
            best = min(
                uvloop.run(sample(bootstrap, concurrency, options, arguments.seconds))
                for _ in range(arguments.rounds)
            )
            cells = (f"{one:.1f}" for one in best)
            sys.stdout.write(f"| {codec} | {concurrency} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
