"""What a real broker writes to `__consumer_offsets`, read with `kafka.groups`."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as RdPartition

from headgate.kafka.groups import (
    ClassicGroup,
    CommitRecord,
    CommittedOffset,
    ConsumerMember,
    MemberAssignment,
    OffsetsRecord,
    Partition,
    read_record,
)
from support.process.stack import RunningBroker
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka


def records_of(bootstrap: str, group: str) -> list[OffsetsRecord]:
    """All records of a group, oldest first."""
    reader = RdConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"r-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,  # the log may end with a transaction's marker
            "isolation.level": "read_uncommitted",  # others may have left transactions open
        }
    )
    topic, found = "__consumer_offsets", []
    try:
        for number in reader.list_topics(topic, timeout=20).topics[topic].partitions:
            reader.assign([RdPartition(topic, number, 0)])
            while (record := reader.poll(60)) is not None and record.error() is None:
                one = read_record(record.key(), record.value())
                if one is not None and one.group == group:
                    found.append(one)
            assert record is not None
            assert record.error().code() == KafkaError._PARTITION_EOF
            assert record.partition() == number
    finally:
        reader.close()
    return found


async def test_a_classic_group(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    fill(kafka.bootstrap, topic_name, 3, 5)
    group = f"classic-{topic_name}"
    consumer = AIOKafkaConsumer(
        topic_name, bootstrap_servers=kafka.bootstrap, group_id=group, client_id="till",
        enable_auto_commit=False, auto_offset_reset="earliest",
    )  # fmt: skip
    await consumer.start()
    try:
        await consumer.commit({TopicPartition(topic_name, 1): OffsetAndMetadata(4, "who")})
    finally:
        await consumer.stop()
    found = await asyncio.to_thread(records_of, kafka.bootstrap, group)
    (commit,) = [one for one in found if isinstance(one, CommitRecord)]
    assert (commit.partition, commit.stored) == (
        Partition(topic_name, 1),
        CommittedOffset(4, "who"),
    )
    assert commit.at_ms > 1_700_000_000_000
    groups = [one for one in found if isinstance(one, ClassicGroup) and one.members]
    (member,) = groups[-1].members
    assert member.client_id == "till"
    assert member.member_id.startswith("till-")
    assert member.host.startswith("/")
    assert member.assigned == {Partition(topic_name, number) for number in range(3)}


async def test_a_group_of_the_new_protocol(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    fill(kafka.bootstrap, topic_name, 3, 5)
    group = f"new-{topic_name}"

    def consume() -> None:
        consumer = RdConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": group, "client.id": "till",
             "group.protocol": "consumer", "auto.offset.reset": "earliest",
             "enable.auto.commit": False}
        )  # fmt: skip
        try:
            consumer.subscribe([topic_name])
            while consumer.poll(10) is None:
                pass
            consumer.commit(offsets=[RdPartition(topic_name, 2, 3)], asynchronous=False)
        finally:
            consumer.close()

    await asyncio.to_thread(consume)
    found = await asyncio.to_thread(records_of, kafka.bootstrap, group)
    (commit,) = [one for one in found if isinstance(one, CommitRecord)]
    assert (commit.partition, commit.stored) == (Partition(topic_name, 2), CommittedOffset(3, ""))
    members = [one for one in found if isinstance(one, ConsumerMember)]
    assert members[0].client_id == "till"
    assert members[-1].client_id is None, "it left"
    owned = [one for one in found if isinstance(one, MemberAssignment) and one.partitions]
    ((_topic_id, partitions),) = owned[-1].partitions.items()
    assert set(partitions) == {0, 1, 2}
    assert owned[-1].member_id == members[0].member_id
