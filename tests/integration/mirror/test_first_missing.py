"""The age of the first record that a mirror lacks, on a real broker."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate.replays.packed import NO_TIMESTAMP
from headgate_spark.job.options import Connection
from headgate_spark.mirror.lag import Missing, first_timestamps
from support.kafka import kafka_log
from support.process.stack import RunningBroker
from support.scenarios.replay_world import BASE_MS

pytestmark = pytest.mark.kafka

PARTITIONS = 4


def write(broker: RunningBroker, topic: str, partition: int, *, commit: bool) -> None:
    """Ten records a second apart, and a marker."""
    name = f"{topic}-{partition}"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, b"v", partition=partition, timestamp=BASE_MS + number * 1000)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


async def test_the_first_record_that_is_missing_tells_its_age(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, PARTITIONS)
    for partition, commit in enumerate((True, True, False)):
        write(kafka, topic_name, partition, commit=commit)
    kafka_log.wait_settled(kafka.bootstrap, topic_name)
    kafka_log.delete_records(kafka.bootstrap, topic_name, {1: 6})
    tps = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
    missing = {
        tps[0]: Missing(3, 11),
        tps[1]: Missing(2, 11),  # retention has taken what was before 6
        tps[2]: Missing(0, 11),  # it was aborted
    }
    connection = Connection(kafka.bootstrap, name="main")
    assert await first_timestamps(connection, missing) == {
        tps[0]: BASE_MS + 3_000, tps[1]: BASE_MS + 6_000, tps[2]: NO_TIMESTAMP,
    }  # fmt: skip
    assert await first_timestamps(connection, {tps[0]: Missing(10, 11)}) == {tps[0]: NO_TIMESTAMP}
    assert await first_timestamps(connection, {}) == {}


async def test_what_cannot_be_read_is_left_out(kafka: RunningBroker, topic_name: str) -> None:
    nowhere = Connection("127.0.0.1:9", name="main")
    assert await first_timestamps(nowhere, {TopicPartition(topic_name, 0): Missing(0, 1)}) == {}
