"""Topics with their ids and partitions: aiokafka's own metadata requests know no ids.

Decoding by hand is several times faster than aiokafka's schemas, and the gateway does it every few
seconds for all partitions of a cluster.
"""

import asyncio
import base64
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, NodeNotReadyError

from headgate.kafka.flexible import NO_TAGS, NULL, FlexibleRequest, array, text
from headgate.kafka.wire import Reader

_METADATA, _VERSION = 3, 12  # Kafka 3.1 and newer
_AT_ONCE = 500  # topics and partitions that are decoded in one turn of the event loop: 1 to 2 ms
_PARTITION = struct.Struct(">hiii")
_CREATE_NOTHING, _NO_OPERATIONS = b"\0", b"\0"


class PartitionMetadata(NamedTuple):
    """leader: a node, -1 = none.  replicas, in_sync: how many."""

    leader: int
    replicas: int
    in_sync: int


class TopicMetadata(NamedTuple):
    """What a node says of a topic. error: Kafka's error code, 0 = none.  partitions: by number."""

    error: int
    topic_id: bytes
    partitions: tuple[PartitionMetadata, ...]

    @property
    def uuid(self) -> str:
        """The id as Kafka's tools show it."""
        return base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=")

    @property
    def leaders(self) -> tuple[int, ...]:
        """The node of each partition, by number."""
        return tuple(partition.leader for partition in self.partitions)

    @property
    def replication_factor(self) -> int:
        """Of the partition that has the fewest replicas."""
        return min((partition.replicas for partition in self.partitions), default=0)


class Metadata(NamedTuple):
    """What a node says of its cluster. nodes: those that live."""

    nodes: tuple[int, ...]
    cluster_id: str | None
    topics: Mapping[str, TopicMetadata]

    def leader(self, topic: str, partition: int) -> int:
        """The node that serves a partition; -1 where none does."""
        leaders = self.topics[topic].leaders if topic in self.topics else ()
        return leaders[partition] if partition < len(leaders) else -1


def any_node(client: AIOKafkaClient) -> int:
    """Return one of the nodes that a client knows. Raises NodeNotReadyError."""
    node: int | None = client.get_random_node()
    if node is None:
        raise NodeNotReadyError("no broker is known")
    return node


async def read_metadata(
    client: AIOKafkaClient, node: int, topics: Iterable[str] | None = None
) -> Metadata:
    """Ask one node for topics, or for all. Creates none. Raises KafkaError.

    A topic of that name which is not there comes with an error and no id.
    """
    named = NULL if topics is None else array(bytes(16) + text(topic) + NO_TAGS for topic in topics)
    body = named + _CREATE_NOTHING + _NO_OPERATIONS
    # The answer comes undecoded: all topics of a large cluster take longer than anybody else on
    # the event loop should wait.
    request = FlexibleRequest(
        _METADATA, (_VERSION, _VERSION), lambda _: body, lambda reader, _: reader
    )
    try:
        answer: Reader = await client.send(node, request)
    except IncompatibleBrokerVersion as error:
        raise IncompatibleBrokerVersion("topic ids need Kafka 3.1 or newer") from error
    return await decoded(answer)


async def decoded(reader: Reader) -> Metadata:
    """Read MetadataResponse.json, version 12, in several turns of the event loop."""
    reader.skip(4)  # throttle time
    nodes = tuple(_node(reader) for _ in range(reader.count()))
    cluster_id = reader.text()
    reader.skip(4)  # controller
    topics, seen = {}, 0
    for _ in range(reader.count()):
        name, topic = _topic(reader)
        topics[name] = topic
        seen += 1 + len(topic.partitions)
        if seen >= _AT_ONCE:
            await asyncio.sleep(0)
            seen = 0
    return Metadata(nodes, cluster_id, topics)


def _node(reader: Reader) -> int:
    number = reader.int32()
    reader.text()
    reader.skip(4)  # port
    reader.text()  # rack
    reader.tags()
    return number


def _topic(reader: Reader) -> tuple[str, TopicMetadata]:
    error, name, topic_id = reader.int16(), reader.text() or "", reader.take(16)
    reader.skip(1)  # is internal
    by_number = dict(_partition(reader) for _ in range(reader.count()))
    reader.skip(4)  # authorized operations
    reader.tags()
    return name, TopicMetadata(error, topic_id, tuple(by_number[one] for one in sorted(by_number)))


def _partition(reader: Reader) -> tuple[int, PartitionMetadata]:
    _error, number, leader, _epoch = reader.unpack(_PARTITION)
    replicas = reader.count()
    reader.skip(4 * replicas)
    in_sync = reader.count()
    reader.skip(4 * in_sync)
    reader.skip(4 * reader.count())  # offline
    reader.tags()
    return number, PartitionMetadata(leader, replicas, in_sync)
