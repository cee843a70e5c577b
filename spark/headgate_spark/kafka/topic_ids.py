"""Kafka's ids of topics: one that was deleted and recreated has another one."""

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.kafka.wire import Metadata, any_node, read_metadata


async def topic_id(client: AIOKafkaClient, tp: TopicPartition) -> str:
    """The id of a topic, as the partition's leader knows it. Raises KafkaError.

    The leader learns of a topic that was recreated before it serves the new partition, so records
    that were read before an answer with the old id are the old topic's.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:  # that may only mean that the client has not heard of it yet
        node = (await _metadata(client, any_node(client), tp.topic)).leader(*tp)
    if node < 0:
        raise NodeNotReadyError(f"partition {tp.partition} of {tp.topic} has no leader")
    return (await _metadata(client, node, tp.topic)).topics[tp.topic].uuid


async def id_of(client: AIOKafkaClient, topic: str) -> str | None:
    """The same as one of the nodes knows it; None: it has no such topic. Raises KafkaError."""
    answer = await read_metadata(client, any_node(client), [topic])
    found = answer.topics.get(topic)
    is_there = found is not None and found.error != UnknownTopicOrPartitionError.errno
    return found.uuid if found is not None and is_there else None


async def _metadata(client: AIOKafkaClient, node: int, topic: str) -> Metadata:
    """What a node says of a topic that is there. Raises KafkaError."""
    found = await read_metadata(client, node, [topic])
    if found.topics[topic].error:
        raise for_code(found.topics[topic].error)(topic)
    return found
