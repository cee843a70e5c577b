"""Kafka seen by an independent client (librdkafka): topic administration and a log reader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

CREATED_AT_ONCE = 100  # Kafka refuses a call that needs 10,000 changes of its metadata
DEADLINE_S = 90.0  # a green test does not wait for it
ASK_S = 30.0  # one question
_NO_COORDINATOR = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class LogRecord(NamedTuple):
    """One visible record of a topic's log."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int

    def header(self, name: str) -> bytes | None:
        """Return the last header of that name."""
        return dict(self.headers).get(name)


def create_topic(
    bootstrap: str, name: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
) -> None:
    """Create a topic and wait until every partition has a leader."""
    create_topics(bootstrap, {name: partitions}, configs, replicas)


def create_topics(
    bootstrap: str, partitions: Mapping[str, int], configs: Mapping[str, str], replicas: int = 1
) -> None:
    """Create topics, by name, and wait until every partition has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, n, replicas, config=dict(configs)) for name, n in partitions.items()]
    for first in range(0, len(topics), CREATED_AT_ONCE):
        some = topics[first : first + CREATED_AT_ONCE]
        for made in admin.create_topics(some, request_timeout=DEADLINE_S).values():
            made.result(DEADLINE_S)
    end = time.monotonic() + DEADLINE_S
    for name, count in partitions.items():
        while not _has_leaders(admin, name, count):
            assert time.monotonic() < end, f"{name} has no leaders"
            time.sleep(0.02)


def _has_leaders(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=ASK_S).topics[name].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())


def add_partitions(bootstrap: str, name: str, total: int) -> None:
    """Give a topic more partitions, and wait until each has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, total)])[name].result(DEADLINE_S)
    end = time.monotonic() + DEADLINE_S
    while not _has_leaders(admin, name, total):
        assert time.monotonic() < end, f"{name} has no leaders"
        time.sleep(0.02)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a name: it must outlive its call
    admin.delete_topics([name])[name].result(DEADLINE_S)


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int] | None = None) -> None:
    """Delete all records that a topic has now, or those before some offsets; offsets go on."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 5})  # 6 tells of its end
    ends = end_offsets(bootstrap, topic) if before is None else before
    places = [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]
    for done in admin.delete_records(places).values():
        done.result(DEADLINE_S)


def set_topic_configs(bootstrap: str, name: str, configs: Mapping[str, str]) -> None:
    """Set some of a topic's settings, and wait until the broker has them; the others stay."""
    entries = [
        ConfigEntry(option, value, incremental_operation=AlterConfigOpType.SET)
        for option, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    end = time.monotonic() + DEADLINE_S
    while not configs.items() <= topic_configs(bootstrap, name).items():
        assert time.monotonic() < end, f"{name} does not take {configs}"
        time.sleep(0.02)


def partition_count(bootstrap: str, topic: str) -> int:
    """Return how many partitions a topic has."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions)


def leader(bootstrap: str, topic: str, partition: int) -> int:
    """Return the node that leads a partition, -1 = none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions
    return int(found[partition].leader)


def topic_configs(bootstrap: str, name: str) -> dict[str, str]:
    """Return all settings of a topic that are in force."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    return {option: entry.value for option, entry in found.items()}


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the end offset (high watermark) of each partition."""
    consumer = _consumer(bootstrap)
    try:
        return {
            partition: _end_offset(consumer, TopicPartition(topic, partition))
            for partition in _partitions(consumer, topic)
        }
    finally:
        consumer.close()


def _end_offset(consumer: Consumer, place: TopicPartition) -> int:
    """A broker may have told of a new topic before it leads its partitions."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, ASK_S)[1])
        except KafkaException as error:
            is_early = error.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION
            if not is_early or time.monotonic() > end:
                raise
        time.sleep(0.1)


def stable_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the last stable offset of each partition: where committed records end."""
    return _ends(bootstrap, topic, IsolationLevel.READ_COMMITTED)


def _ends(
    bootstrap: str, topic: str, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions
    wanted = {TopicPartition(topic, one): OffsetSpec.latest() for one in sorted(partitions)}
    asked = admin.list_offsets(wanted, isolation_level=isolation)
    return {tp.partition: done.result(DEADLINE_S).offset for tp, done in asked.items()}


def wait_settled(bootstrap: str, topic: str) -> None:
    """Wait until no transaction is open in a topic.

    A commit is answered once it is decided; its markers, which let others see the records, are
    written after that.
    """
    end = time.monotonic() + DEADLINE_S
    while stable_offsets(bootstrap, topic) != _ends(bootstrap, topic):
        assert time.monotonic() < end, f"{topic} has an open transaction"
        time.sleep(0.02)


def topic_names(bootstrap: str) -> set[str]:
    """Return the names of all topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return set(admin.list_topics(timeout=ASK_S).topics)


def topic_id(bootstrap: str, topic: str) -> str:
    """Return Kafka's id of a topic as Kafka's own tools show it, in url-safe base64."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.describe_topics(TopicCollection([topic]))
    return str(asked[topic].result(DEADLINE_S).topic_id).replace("/", "_").replace("+", "-")


def read_log(bootstrap: str, topic: str, deadline_s: float = DEADLINE_S) -> list[LogRecord]:
    """Read all committed records of a topic, from the beginning to the end as of now.

    Sorted by partition and offset.
    """
    consumer = _consumer(bootstrap)
    try:
        waiting = _partitions(consumer, topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        return sorted(_read_to_end(consumer, set(waiting), deadline_s), key=lambda one: one[:2])
    finally:
        consumer.close()


def read_from(
    bootstrap: str, topic: str, starts: Mapping[int, int], deadline_s: float = DEADLINE_S
) -> Iterator[LogRecord]:
    """Yield the committed records from these offsets on, few at a time: they may be large.

    In order within each partition.
    """
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, one, offset) for one, offset in starts.items()])
        yield from _read_to_end(consumer, set(starts), deadline_s, at_once=20)
    finally:
        consumer.close()


def group_offsets(
    bootstrap: str, group: str, topic: str, deadline_s: float = DEADLINE_S
) -> dict[int, int]:
    """Return the offsets that a group has committed, without becoming its member (-1: none)."""
    consumer, end = _consumer(bootstrap, group), time.monotonic() + deadline_s
    try:
        tps = [TopicPartition(topic, partition) for partition in _partitions(consumer, topic)]
        while True:
            try:
                found = consumer.committed(tps, timeout=ASK_S)
                return {one.partition: max(one.offset, -1) for one in found}
            except KafkaException as error:  # a new broker's first group has no coordinator yet
                if error.args[0].code() not in _NO_COORDINATOR or time.monotonic() > end:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


def _read_to_end(
    consumer: Consumer, waiting: set[int], deadline_s: float, at_once: int = 1000
) -> Iterator[LogRecord]:
    end = time.monotonic() + deadline_s
    while waiting:
        assert time.monotonic() < end, f"partitions {waiting} not read to their end"
        for polled in consumer.consume(at_once, timeout=0.2):
            error = polled.error()
            if error is None:
                yield _record(polled)
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(polled.partition())
            else:
                raise KafkaException(error)


def _record(polled) -> LogRecord:  # type: ignore[no-untyped-def]
    return LogRecord(
        polled.partition(),
        polled.offset(),
        polled.key(),
        polled.value(),
        polled.headers() or [],
        polled.timestamp()[1],
    )


def _consumer(bootstrap: str, group: str = "log-reader") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,  # required by the library; nothing is ever committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, timeout=ASK_S).topics[topic].partitions)
