"""What a replay to a topic of its own has copied, seen by an independent client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.kafka import kafka_log
from support.kafka.kafka_log import LogRecord
from support.process.stack import RunningBroker
from support.scenarios.replay_world import Api, Two, until

OTHER = b"of another topic"
UNFINISHED = ("pending", "planned", "copying")


def wanted(two: Two, topic: str, is_taken: Callable[[LogRecord], bool]) -> list[Any]:
    """What an independent client finds on the ingest tier, as a replay must have it."""
    return [
        _shown(one, one.headers)
        for one in kafka_log.read_log(two.ingest.bootstrap, topic)
        if is_taken(one)
    ]


def replayed(two: Two, page: Any) -> list[Any]:
    """What is in a replay's topic, without the header that it adds."""
    found = []
    for one in kafka_log.read_log(two.backfill.bootstrap, f"replay.{page['id']}"):
        assert one.headers[-1] == ("hg-replay-id", page["id"].encode())
        found.append(_shown(one, one.headers[:-1]))
    return found


def _shown(one: LogRecord, headers: Iterable[Any]) -> Any:
    return (one.partition, one.key, one.value, [*headers], one.timestamp_ms)


def remake(broker: RunningBroker, topic: str) -> None:
    """Under the same name, and at least as long as it was, as far as these tests go."""
    kafka_log.delete_topic(broker.bootstrap, topic)
    until(lambda: topic in kafka_log.topic_names(broker.bootstrap), (False).__eq__)
    broker.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(600):
        producer.produce(topic, OTHER, partition=number % 2)
    assert producer.flush(30) == 0


def topics_of(two: Two) -> set[str]:
    admin = AdminClient({"bootstrap.servers": two.backfill.bootstrap})
    return set(admin.list_topics(timeout=10).topics)


def state_of(api: Api, page: Any) -> str:
    return str(api.get(f"/v1/replays/{page['id']}")["state"])


def until_ready(api: Api, page: Any) -> Any:
    path = f"/v1/replays/{page['id']}"
    found = until(lambda: api.get(path), lambda now: now["state"] not in UNFINISHED, 90)
    assert found["state"] == "ready", found
    return found
