"""Kafka metadata as the gateway needs it: with topic ids, and never creating a topic.

aiokafka's own metadata requests know no topic ids, and they ask the broker to create unknown
topics, so a producer that still remembers a deleted topic would bring it back.
"""

import asyncio
import logging
import random
import struct
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from headgate.core.topic import PartitionState
from headgate.core.wire import Reader

log = logging.getLogger(__name__)

# aiokafka asks again at once while a partition has no leader: some 500 requests a second for as
# long as an election takes. Java's retry.backoff.ms is 100.
METADATA_PAUSE_S = 0.1
_BEGIN_PAUSE_S = 1.0
_BEGIN_TIMEOUT_S = 10.0  # meanwhile brokers that are known may be back
_BOOTSTRAP = ("bootstrap", ConnectionGroup.DEFAULT)
_METADATA_KEY = 3
_METADATA_VERSION = 12  # Kafka 3.1 and newer
_AT_ONCE = 100  # topics that are decoded in one turn of the event loop: 1 to 2 ms
_NODE_FIXED = 4
_PARTITION_FIXED = 2 + 4 + 4 + 4  # error, index, leader, leader epoch


class TopicFacts(NamedTuple):
    """What metadata says of a topic. error: Kafka's error code, 0 = none."""

    error: int
    topic_id: bytes
    partitions: int
    replicas: int


class TopicsAnswer(NamedTuple):
    """What metadata says of a cluster."""

    topics: dict[str, TopicFacts]
    cluster_id: str | None = None


class EncodedTopics(NamedTuple):
    """A MetadataResponse version 12, after its header."""

    data: bytes

    @classmethod
    def decode(cls, data: BytesIO) -> "EncodedTopics":
        """Take it as it is: aiokafka decodes in one go, and thousands of topics take longer than
        anybody else on the event loop should wait.
        """
        return cls(data.read())

    async def decoded(self) -> TopicsAnswer:
        """Read org.apache.kafka MetadataResponse.json, version 12, without what nobody needs."""
        reader = Reader(self.data)
        reader.skip(4)  # throttle time
        for _ in range(reader.count()):
            reader.skip(_NODE_FIXED)
            reader.text()
            reader.skip(4)  # port
            reader.text()  # rack
            reader.tags()
        cluster_id = reader.text()
        reader.skip(4)  # controller
        topics = {}
        for number in range(1, reader.count() + 1):
            name, facts = _topic(reader)
            topics[name] = facts
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return TopicsAnswer(topics, cluster_id)


class CorrelationHeader(NamedTuple):
    """A flexible response header (ResponseHeader.json version 1)."""

    correlation_id: int


class AllTopicsRequest:
    """Asks for all topics of a cluster, by what AIOKafkaConnection calls on a request.

    Not a subclass of aiokafka's Request: decoding by hand is several times faster than its
    schemas, and this runs on the event loop every few seconds for all partitions of a cluster.
    """

    API_KEY = _METADATA_KEY
    API_VERSION = _METADATA_VERSION
    RESPONSE_TYPE = EncodedTopics

    def prepare(self, versions: dict[int, tuple[int, int]]) -> "AllTopicsRequest":
        """Raise IncompatibleBrokerVersion when the broker is too old for topic ids."""
        low, high = versions.get(_METADATA_KEY, (0, 0))
        if not low <= _METADATA_VERSION <= high:
            raise IncompatibleBrokerVersion("topic ids need Kafka 3.1 or newer")
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> "_Encoded":
        """Return RequestHeader.json version 2."""
        name = client_id.encode()
        numbers = struct.pack(">hhih", _METADATA_KEY, _METADATA_VERSION, correlation_id, len(name))
        return _Encoded(numbers + name + b"\0")

    def encode(self) -> bytes:
        """Return the body: all topics (null array), create nothing, no operations, no tags."""
        return b"\0\0\0\0"

    def parse_response_header(self, data: BytesIO) -> CorrelationHeader:
        """Read the header; its tags are empty in every known version."""
        (correlation_id,) = struct.unpack(">i", data.read(4))
        data.read(1)
        return CorrelationHeader(correlation_id)


class _Encoded(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


def _topic(reader: Reader) -> tuple[str, TopicFacts]:
    error = reader.int16()
    name = reader.text() or ""
    topic_id = reader.take(16)
    reader.skip(1)  # is internal
    partitions = reader.count()
    replicas = min((_replicas(reader) for _ in range(partitions)), default=0)
    reader.skip(4)  # authorized operations
    reader.tags()
    return name, TopicFacts(error, topic_id, partitions, replicas)


def _replicas(reader: Reader) -> int:
    reader.skip(_PARTITION_FIXED)
    replicas = reader.count()
    reader.skip(_NODE_FIXED * replicas)
    for _ in ("in sync", "offline"):
        reader.skip(_NODE_FIXED * reader.count())
    reader.tags()
    return replicas


async def read_topics(client: AIOKafkaClient, node: int) -> TopicsAnswer:
    """Return all topics of the cluster as one of its nodes sees them. Raises KafkaError."""
    answer: EncodedTopics = await client.send(node, AllTopicsRequest())
    return await answer.decoded()


async def read_partitions(client: AIOKafkaClient, node: int, topic: str) -> list[PartitionState]:
    """Return a topic's partitions with their replicas, by number. Raises KafkaError."""
    answer = await client.send(node, MetadataRequest([topic], allow_auto_topic_creation=False))
    return sorted(
        PartitionState(number, leader, tuple(replicas), tuple(in_sync))
        for _error, _name, _internal, partitions in answer.topics
        for _, number, leader, replicas, in_sync, *_ in partitions
    )


class _Metadata:
    """Replaces `AIOKafkaClient._metadata_update` of aiokafka 0.14: same result, other request.

    And when no broker that it knows answers, it begins anew with the bootstrap servers, as Java's
    clients do (KIP-899): a broker that the controller has fenced, for it stood still, may have
    named no broker at all, and brokers may come back under other addresses.
    """

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._asked_at = self._began_at = 0.0

    async def update(self, cluster: ClusterMetadata, topics: set[str]) -> bool:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._asked_at + METADATA_PAUSE_S - loop.time()))
        self._asked_at = loop.time()
        if await self._ask_all(cluster, topics):
            return True
        if loop.time() - self._began_at < _BEGIN_PAUSE_S:
            return False
        await self._begin()
        self._began_at = loop.time()
        return await self._ask_all(cluster, topics)

    async def _begin(self) -> None:
        self._close_bootstrap()
        try:
            async with asyncio.timeout(_BEGIN_TIMEOUT_S):
                await self._client.bootstrap()
        except (KafkaError, TimeoutError) as error:
            log.warning("no metadata from the bootstrap servers: %r", error)
        self._close_bootstrap()

    def _close_bootstrap(self) -> None:
        # aiokafka keeps this connection when no broker was named.
        kept = self._client._conns.pop(_BOOTSTRAP, None)
        if kept is not None:
            kept.close()

    async def _ask_all(self, cluster: ClusterMetadata, topics: set[str]) -> bool:
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes:
            answer = await self._ask(node, sorted(topics))
            if answer is not None and answer.brokers:
                cluster.update_metadata(answer)
                return True
        return False

    async def _ask(self, node: int, topics: list[str]) -> Any:
        connection = await self._client._get_conn(node)
        if connection is None:
            return None
        try:
            return await connection.send(MetadataRequest(topics, allow_auto_topic_creation=False))
        except (KafkaError, TimeoutError) as error:
            log.warning("no metadata from node %s: %r", node, error)
            return None


def never_create_topics(client: AIOKafkaClient) -> None:
    """Make an aiokafka client's own metadata requests create nothing and keep a pause."""
    client._metadata_update = _Metadata(client).update
