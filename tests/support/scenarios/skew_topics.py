"""Writes generated topics to real Kafka, as a foreign client with a partitioner of its own."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer

from support.process.stack import RunningBroker
from support.scenarios import skew_world


def produce(
    broker: RunningBroker,
    topic: str,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    producers: Sequence[str | None],
    partitions: Sequence[int] | None = None,
    times_ms: Sequence[int] | None = None,
) -> None:
    """Write with librdkafka, which chooses partition and time itself unless they are named."""
    client = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 20,
            "message.max.bytes": 12_000_000,
            "enable.idempotence": True,
        }
    )
    for number, key in enumerate(keys):
        who = producers[number]
        headers = [("hg-producer", who.encode())] if who is not None else []
        place = {} if partitions is None else {"partition": int(partitions[number])}
        if times_ms is not None:
            place["timestamp"] = times_ms[number]
        while True:
            try:
                client.produce(topic, values[number], key, headers=headers, **place)
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(60) == 0


def produce_world(broker: RunningBroker, topic: str, world: skew_world.Dataset) -> None:
    values = [b"x" * int(size) for size in world.sizes]
    produce(broker, topic, world.keys, values, world.producers, world.partition.tolist())
