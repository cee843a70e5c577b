"""Topics with their ids, asked with a request of our own: aiokafka's metadata knows no ids."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.core.wire import Reader

_METADATA, _VERSION = 3, 12  # MetadataRequest.json; version 12: Kafka 3.1 and newer
_INT32 = struct.Struct(">i")


class TopicFacts(NamedTuple):
    """What metadata says of a topic. leaders: a node for each partition, -1 = it has none.

    error: Kafka's error code, 0 = none.
    """

    error: int
    topic_id: str
    leaders: tuple[int, ...]


class ClusterFacts(NamedTuple):
    """A cluster's nodes and topics."""

    nodes: tuple[int, ...]
    topics: Mapping[str, TopicFacts]

    def has_leader(self, tp: TopicPartition) -> bool:
        """Whether the partition is there, and a node serves it."""
        topic, number = self.topics.get(tp.topic), int(tp.partition)
        return topic is not None and number < len(topic.leaders) and topic.leaders[number] >= 0

    @classmethod
    def decode(cls, data: BytesIO) -> ClusterFacts:
        """MetadataResponse.json, version 12, as far as it is needed."""
        reader = Reader(data.read())
        reader.skip(4)  # throttle time
        nodes = tuple(_node(reader) for _ in range(reader.count()))
        reader.text()  # cluster id
        reader.skip(4)  # controller
        return cls(nodes, dict(_topic(reader) for _ in range(reader.count())))


def _node(reader: Reader) -> int:
    number = _int32(reader)
    reader.text()
    reader.skip(4)  # port
    reader.text()  # rack
    reader.tags()
    return number


def _topic(reader: Reader) -> tuple[str, TopicFacts]:
    error = reader.int16()
    name = reader.text() or ""
    uuid = base64.urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    reader.skip(1)  # is internal
    leaders = dict(_partition(reader) for _ in range(reader.count()))
    reader.skip(4)  # authorized operations
    reader.tags()
    return name, TopicFacts(error, uuid, tuple(leaders[one] for one in sorted(leaders)))


def _partition(reader: Reader) -> tuple[int, int]:
    reader.skip(2)  # error
    number, leader = _int32(reader), _int32(reader)
    reader.skip(4)  # leader epoch
    for _ in ("replicas", "in sync", "offline"):
        reader.skip(4 * reader.count())
    reader.tags()
    return number, leader


def _int32(reader: Reader) -> int:
    number: int = _INT32.unpack(reader.take(4))[0]
    return number


async def topic_id(client: AIOKafkaClient, tp: TopicPartition) -> str:
    """Kafka's id of the topic, as the partition's leader knows it. Raises KafkaError.

    A topic that was deleted and made anew has another one. The leader learns of that before it
    serves the new partition, so records that were read before an answer with the old id are the
    old topic's.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:
        raise NodeNotReadyError(f"partition {tp.partition} of {tp.topic} has no leader")
    answer: ClusterFacts = await client.send(node, _MetadataRequest(tp.topic))
    facts = answer.topics[tp.topic]
    if facts.error:
        raise for_code(facts.error)(tp.topic)
    return facts.topic_id


async def id_of(client: AIOKafkaClient, topic: str) -> str | None:
    """The same as one of the nodes knows it; None: it has no such topic. Raises KafkaError."""
    answer: ClusterFacts = await client.send(client.get_random_node(), _MetadataRequest(topic))
    facts = answer.topics.get(topic)
    is_there = facts is not None and facts.error != UnknownTopicOrPartitionError.errno
    return facts.topic_id if facts is not None and is_there else None


async def cluster_facts(client: AIOKafkaClient) -> ClusterFacts:
    """All nodes and topics, as one of the nodes knows them. Raises KafkaError."""
    answer: ClusterFacts = await client.send(client.get_random_node(), _MetadataRequest(None))
    return answer


class _Encoded(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


class _Header(NamedTuple):
    correlation_id: int


class _MetadataRequest:
    """Metadata of one topic or all, by what AIOKafkaConnection calls on a request."""

    API_KEY = _METADATA
    API_VERSION = _VERSION
    RESPONSE_TYPE = ClusterFacts

    def __init__(self, topic: str | None) -> None:
        self._topic = None if topic is None else topic.encode()

    def prepare(self, versions: dict[int, tuple[int, int]]) -> _MetadataRequest:
        """Raise NodeNotReadyError when the broker is too old for topic ids."""
        low, high = versions.get(_METADATA, (0, 0))
        if not low <= _VERSION <= high:
            raise NodeNotReadyError("topic ids need Kafka 3.1 or newer")
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """RequestHeader.json, version 2."""
        name = client_id.encode()
        numbers = struct.pack(">hhih", _METADATA, _VERSION, correlation_id, len(name))
        return _Encoded(numbers + name + b"\0")

    def encode(self) -> bytes:
        """One topic by its name, or all; creates nothing."""
        if self._topic is None:
            return b"\0\0\0\0"
        length = len(self._topic) + 1
        size = bytes([length]) if length < 0x80 else bytes([length & 0x7F | 0x80, length >> 7])
        return b"\x02" + bytes(16) + size + self._topic + b"\0" + b"\0\0\0"

    def parse_response_header(self, data: BytesIO) -> _Header:
        """The header; its tags are empty in every known version."""
        (correlation_id,) = struct.unpack(">i", data.read(4))
        data.read(1)
        return _Header(correlation_id)
