"""Every partition of a cluster with its leader and its replicas, as the cluster's metadata say."""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient

from headgate.backends.kafka.flexible import NO_TAGS, NULL, FlexibleRequest, array, text
from headgate.core.wire import Reader

_METADATA, _VERSION = 3, 12  # Kafka 3.1 and newer
_PARTITION = struct.Struct(">hiii")


class PartitionFact(NamedTuple):
    """leader: -1 = none.  replicas, in_sync: how many."""

    leader: int
    replicas: int
    in_sync: int


class PartitionFacts(NamedTuple):
    """A topic's. partitions: by number."""

    topic_id: bytes
    partitions: tuple[PartitionFact, ...]


async def read_partition_facts(client: AIOKafkaClient, node: int) -> dict[str, PartitionFacts]:
    """Ask one node for all topics. Raises KafkaError."""
    # all topics, create nothing, no authorized operations
    request = FlexibleRequest(_METADATA, (_VERSION, _VERSION), lambda _: NULL + b"\0\0", _read)
    found: dict[str, PartitionFacts] = await client.send(node, request)
    return found


async def read_topic_ids(
    client: AIOKafkaClient, node: int, topics: Iterable[str]
) -> dict[str, str]:
    """Ask one node for the ids, in hex, of those of these topics that are there.

    Raises KafkaError.
    """
    asked = array(bytes(16) + text(topic) + NO_TAGS for topic in topics) + b"\0\0"
    request = FlexibleRequest(_METADATA, (_VERSION, _VERSION), lambda _: asked, _read)
    found: dict[str, PartitionFacts] = await client.send(node, request)
    return {name: one.topic_id.hex() for name, one in found.items() if any(one.topic_id)}


def _read(reader: Reader, _version: int) -> dict[str, PartitionFacts]:
    reader.skip(4)  # throttle time
    for _ in range(reader.count()):  # brokers
        reader.skip(4)
        reader.text()
        reader.skip(4)
        reader.text()
        reader.tags()
    reader.text()  # cluster id
    reader.skip(4)  # controller
    return dict(_topic(reader) for _ in range(reader.count()))


def _topic(reader: Reader) -> tuple[str, PartitionFacts]:
    reader.skip(2)  # error
    name, topic_id = reader.text() or "", reader.take(16)
    reader.skip(1)  # is internal
    by_number = dict(_partition(reader) for _ in range(reader.count()))
    reader.skip(4)  # authorized operations
    reader.tags()
    return name, PartitionFacts(topic_id, tuple(by_number[each] for each in sorted(by_number)))


def _partition(reader: Reader) -> tuple[int, PartitionFact]:
    _error, number, leader, _epoch = reader.unpack(_PARTITION)
    replicas = reader.count()
    reader.skip(4 * replicas)
    in_sync = reader.count()
    reader.skip(4 * in_sync)
    reader.skip(4 * reader.count())  # offline
    reader.tags()
    return number, PartitionFact(leader, replicas, in_sync)
