"""Processor time that `headgate-client` adds to plain httpx, with a real gateway, Kafka and Redis.

    python loadtest/micro/python_client.py [--events 20000] [--rounds 5]

Sends the same 648-byte documents in turn: one by one, and in requests of 500, with httpx alone
(JSON made, posted, the answer's JSON read, nothing repeated, no Idempotency-Key) and with the
client. Microseconds of this process an event, median and range of the rounds. Prints Markdown.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import httpx
import orjson

ROOT = Path(__file__).resolve().parents[2]
for folder in ("loadtest", "tests", "clients/python/src"):  # stack.py starts real servers
    sys.path.insert(0, str(ROOT / folder))

from headgate.devstack.ports import free_port  # noqa: E402
from headgate.devstack.servers import (  # noqa: E402
    RedisPlan,
    prepare_kafka,
    single_node,
)
from headgate_client import (  # noqa: E402
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    Client,
    Outcome,
)
from support.process.stack import Gateway, RunningBroker, RunningRedis  # noqa: E402
from targets import BROKER_SETTINGS, PARTITIONS, TOPIC_SETTINGS  # noqa: E402
from workload import Shape, events  # noqa: E402

TOPIC = "micro-client"
BATCH = 500
SINGLE_SHARE = 20  # one event by itself for so many in batches
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."micro-client"]
key = ["/id"]
"""
Documents = list[dict[str, object]]


def in_batches(documents: Documents) -> Iterator[Documents]:
    for first in range(0, len(documents), BATCH):
        yield documents[first : first + BATCH]


def ordering_key(topic: str, value: object) -> str:
    assert isinstance(value, dict)
    return str(value["id"])


def written(outcomes: Iterable[Outcome]) -> int:
    return sum(one.is_written is True for one in outcomes)


def plain_single(url: str, documents: Documents) -> int:
    with httpx.Client(timeout=45) as client:
        answers = [client.post(f"{url}/v1/topics/{TOPIC}/events", json=one) for one in documents]
        return sum(one.json()["outcome"] == "published" for one in answers)


def client_single(url: str, documents: Documents) -> int:
    with Client(url) as client:
        return written([client.send(TOPIC, one) for one in documents])


def plain_batches(url: str, documents: Documents) -> int:
    good = 0
    with httpx.Client(timeout=45) as client:
        for batch in in_batches(documents):
            answer = client.post(f"{url}/v1/topics/{TOPIC}/events", json=batch).json()
            good += sum(one["outcome"] == "published" for one in answer["outcomes"])
    return good


def client_batches(url: str, documents: Documents) -> int:
    with Client(url) as client:
        return sum(written(client.send_batch(TOPIC, one)) for one in in_batches(documents))


def producer(url: str, documents: Documents) -> int:
    with Client(url) as client, BufferedProducer(client, ordering_key=ordering_key) as sender:
        pending = [sender.send(TOPIC, one) for one in documents]
        return written(one.result() for one in pending)


def producer_with_orjson(url: str, documents: Documents) -> int:
    with (
        Client(url, dumps=orjson.dumps) as client,
        BufferedProducer(client, ordering_key=ordering_key) as sender,
    ):
        pending = [sender.send(TOPIC, one) for one in documents]
        return written(one.result() for one in pending)


def async_producer(url: str, documents: Documents) -> int:
    async def send() -> int:
        async with (
            AsyncClient(url) as client,
            AsyncBufferedProducer(client, ordering_key=ordering_key) as it,
        ):
            pending = [await it.send(TOPIC, one) for one in documents]
            return written([await one for one in pending])

    return asyncio.run(send())


# Each way beside the one that it is compared with.
WAYS: dict[str, tuple[Callable[[str, Documents], int], str]] = {
    "httpx, one by one": (plain_single, "httpx, one by one"),
    "Client.send": (client_single, "httpx, one by one"),
    "httpx, arrays of 500": (plain_batches, "httpx, arrays of 500"),
    "Client.send_batch, 500": (client_batches, "httpx, arrays of 500"),
    "BufferedProducer": (producer, "httpx, arrays of 500"),
    "BufferedProducer, orjson": (producer_with_orjson, "httpx, arrays of 500"),
    "AsyncBufferedProducer": (async_producer, "httpx, arrays of 500"),
}


def cost(way: str, url: str, documents: Documents) -> float:
    """Microseconds of processor time an event."""
    send, _ = WAYS[way]
    if send in (plain_single, client_single):
        documents = documents[: len(documents) // SINGLE_SHARE]
    before = time.process_time()
    good = send(url, documents)
    spent = time.process_time() - before
    if good != len(documents):
        raise SystemExit(f"{way}: {good} of {len(documents)} events were written")
    return spent / len(documents) * 1e6


def measure(url: str, documents: Documents, rounds: int) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for way in WAYS:
            us = cost(way, url, documents)
            if number:  # the first round opens what is opened once
                found[way].append(us)
    print("| way | us/event | of plain httpx |\n| --- | --- | --- |")  # noqa: T201
    for way, samples in found.items():
        base = statistics.median(found[WAYS[way][1]])
        us, spread = statistics.median(samples), f"({min(samples):.1f}..{max(samples):.1f})"
        print(f"| {way} | {us:.1f} {spread} | {us / base:.2f} |")  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    documents = [json.loads(one) for one in islice(events(Shape()), options.events)]
    installation = prepare_kafka({}, say=lambda line: None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = single_node(folder / "kafka", free_port(), BROKER_SETTINGS)
        broker = RunningBroker(installation, plan)
        redis = RunningRedis(RedisPlan(folder / "redis", free_port()))
        try:
            broker.wait()
            broker.create_topic(TOPIC, PARTITIONS, TOPIC_SETTINGS)
            text = CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url)
            gateway = Gateway(folder / "gateway", text, (), {})
            try:
                gateway.wait()
                measure(gateway.url, documents, options.rounds)
            finally:
                gateway.kill()
        finally:
            redis.kill()
            broker.kill()


if __name__ == "__main__":
    main()
