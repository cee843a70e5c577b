"""The reader of a source partition: what its client has yet to learn is not taken for a fault."""

from __future__ import annotations

import pytest
from aiokafka.errors import NodeNotReadyError, UnknownTopicOrPartitionError
from aiokafka.structs import TopicPartition

from headgate_spark.copying.cluster import topic_id
from headgate_spark.copying.reader import (
    BrokerBuckets,
    CopyOptions,
    ReadError,
    RecreatedError,
    SourceReader,
)
from headgate_spark.job.options import Connection
from support.kafka import kafka_log
from support.process.stack import RunningBroker

pytestmark = pytest.mark.kafka


def reader_of(broker: RunningBroker, topic: str) -> SourceReader:
    connection = Connection(broker.bootstrap, name="main")
    options = CopyOptions(connection, connection)
    return SourceReader(TopicPartition(topic, 0), options, BrokerBuckets(None))


async def test_a_leader_that_is_not_known_yet_is_no_lack_of_one(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    wanted = kafka_log.topic_id(kafka.bootstrap, topic_name)
    reader = reader_of(kafka, topic_name)
    try:
        await reader.start()  # metadata of the topic is still on its way
        reader.seek(0)
        assert (
            reader.consumer._client.cluster.leader_for_partition(TopicPartition(topic_name, 0))
            is None
        )
        await reader.check(wanted)
        with pytest.raises(RecreatedError):
            await reader.check("AAAAAAAAAAAAAAAAAAAAAA")
    finally:
        await reader.drop()


async def test_a_topic_that_is_not_there_is_said_to_be_unknown(
    kafka: RunningBroker, topic_name: str
) -> None:
    reader = reader_of(kafka, topic_name)
    try:
        await reader.start()
        with pytest.raises(UnknownTopicOrPartitionError):
            await topic_id(reader.consumer._client, TopicPartition(topic_name, 0))
        with pytest.raises(ReadError, match=f"cluster main: partition 0 of {topic_name}: "):
            await reader.check("any")
    finally:
        await reader.drop()


async def test_a_partition_that_is_not_there_has_no_leader(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    reader = reader_of(kafka, topic_name)
    try:
        await reader.start()
        with pytest.raises(NodeNotReadyError, match="no leader"):
            await topic_id(reader.consumer._client, TopicPartition(topic_name, 7))
    finally:
        await reader.drop()
