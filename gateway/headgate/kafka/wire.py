"""Kafka's flexible encoding (KIP-482), and requests that use it."""

import asyncio
import base64
import struct
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any, Generic, NamedTuple, Self, TypeVar

from aiokafka.errors import IncompatibleBrokerVersion, NodeNotReadyError

from headgate.kafka.aiokafka_internals import AIOKafkaClient, DescribeConfigsRequest
from headgate.kafka.groups import PartitionSeen

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Reader:
    """Cursor over a response. Raises struct.error or IndexError if the response is truncated."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        self._position += count

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        start = self._position
        self._position += count
        return self._data[start : self._position]

    def int16(self) -> int:
        """Return a big-endian signed 16-bit number."""
        number: int = _INT16.unpack_from(self._data, self._position)[0]
        self._position += 2
        return number

    def int32(self) -> int:
        """Return a big-endian signed 32-bit number."""
        number: int = _INT32.unpack_from(self._data, self._position)[0]
        self._position += 4
        return number

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Return several numbers at once."""
        numbers = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return numbers

    def varint(self) -> int:
        """Return an unsigned varint."""
        number = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def count(self) -> int:
        """Return the length of a compact array; a null array counts as empty."""
        return max(0, self.varint() - 1)

    def text(self) -> str | None:
        """Return a compact nullable string."""
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode()

    def tags(self) -> None:
        """Pass over tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


# ---- requests for which aiokafka has no class, or only an older version
#
# Decoding by hand is several times faster than aiokafka's schemas, and all groups of a cluster may
# have about ten thousand partitions.


NO_TAGS = b"\0"
NULL = b"\0"  # a null compact text or array

_Answer = TypeVar("_Answer")


def varint(number: int) -> bytes:
    """Encode an unsigned varint."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def text(value: str) -> bytes:
    """Encode a compact string."""
    raw = value.encode()
    return varint(len(raw) + 1) + raw


def array(items: Iterable[bytes]) -> bytes:
    """Encode a compact array of encoded items."""
    every = list(items)
    return varint(len(every) + 1) + b"".join(every)


class _Header(NamedTuple):
    correlation_id: int


class _Encoded(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


class _Answers(NamedTuple):
    """Decoder of a response, for aiokafka."""

    read: Callable[[Reader], Any]

    def decode(self, data: BytesIO) -> Any:
        return self.read(Reader(data.read()))


class FlexibleRequest(Generic[_Answer]):
    """A request with the interface that AIOKafkaConnection uses.

    Args:
        api_key: The number of the API.
        versions: The lowest and the highest version of the API.
        body: Encodes the body for the chosen version.
        read: Decodes the response for the chosen version.
    """

    def __init__(
        self,
        api_key: int,
        versions: tuple[int, int],
        body: Callable[[int], bytes],
        read: Callable[[Reader, int], _Answer],
    ) -> None:
        self.API_KEY = api_key
        self.API_VERSION = versions[1]
        self._versions = versions
        self._body = body
        self._read = read

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Self:
        """Choose the version. Raises IncompatibleBrokerVersion."""
        low, high = versions.get(self.API_KEY, (0, -1))
        lowest, highest = max(low, self._versions[0]), min(high, self._versions[1])
        if lowest > highest:
            raise IncompatibleBrokerVersion(f"the broker does not take request {self.API_KEY}")
        self.API_VERSION = highest
        return self

    @property
    def RESPONSE_TYPE(self) -> _Answers:
        version = self.API_VERSION
        return _Answers(lambda reader: self._read(reader, version))

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """Encode RequestHeader.json, version 2."""
        name = client_id.encode()
        head = struct.pack(">hhih", self.API_KEY, self.API_VERSION, correlation_id, len(name))
        return _Encoded(head + name + NO_TAGS)

    def encode(self) -> bytes:
        """Encode the body."""
        return self._body(self.API_VERSION) + NO_TAGS

    def parse_response_header(self, data: BytesIO) -> _Header:
        """Decode ResponseHeader.json, version 1, which has no tags in any known version."""
        (correlation_id,) = struct.unpack(">i", data.read(4))
        data.read(1)
        return _Header(correlation_id)


# ---- metadata of topics with their ids, which aiokafka's own metadata requests lack
#
# Decoding by hand is several times faster than aiokafka's schemas, and the gateway decodes all
# partitions of a cluster every few seconds.


_METADATA, _VERSION = 3, 12  # Kafka 3.1 and newer
_TOPIC_RESOURCE = 2  # org.apache.kafka ConfigResource.Type.TOPIC
_TOPICS_AT_ONCE = 50  # in a request for settings: decoding takes 0.1 ms for each
_AT_ONCE = 500  # topics and partitions decoded in one turn of the event loop, 1 to 2 ms
_PARTITION = struct.Struct(">hiii")
_CREATE_NOTHING, _NO_OPERATIONS = b"\0", b"\0"


class TopicMetadata(NamedTuple):
    """A node's metadata of a topic.

    Attributes:
        error: Kafka's error code; 0 for none.
        topic_id: Kafka's id.
        partitions: The partitions by number.
    """

    error: int
    topic_id: bytes
    partitions: tuple[PartitionSeen, ...]

    @property
    def uuid(self) -> str:
        """Return the id in the form of Kafka's tools."""
        return base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=")

    @property
    def leaders(self) -> tuple[int, ...]:
        """Return the leader of each partition, by number."""
        return tuple(partition.leader for partition in self.partitions)

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the partition that has the fewest."""
        return min((partition.replicas for partition in self.partitions), default=0)


class Metadata(NamedTuple):
    """A node's metadata of its cluster; `nodes` are the live nodes."""

    nodes: tuple[int, ...]
    cluster_id: str | None
    topics: Mapping[str, TopicMetadata]

    def leader(self, topic: str, partition: int) -> int:
        """Return the leader of a partition; -1 if there is none."""
        leaders = self.topics[topic].leaders if topic in self.topics else ()
        return leaders[partition] if partition < len(leaders) else -1


def nodes_of(client: AIOKafkaClient) -> list[int]:
    """Return the nodes that a client knows. Raises NodeNotReadyError."""
    nodes = [broker.nodeId for broker in client.cluster.brokers()]
    if not nodes:
        raise NodeNotReadyError("no broker is known")
    return nodes


async def read_settings(
    client: AIOKafkaClient, node: int, topics: Iterable[str], names: Iterable[str]
) -> tuple[dict[str, dict[str, str]], dict[str, int]]:
    """Read settings of topics, in several requests.

    Args:
        client: The client.
        node: The node that answers.
        topics: The topics.
        names: The settings.

    Returns:
        The settings by topic, and Kafka's error codes of the other topics.
    """
    settings, errors = dict[str, dict[str, str]](), dict[str, int]()
    resources = [(_TOPIC_RESOURCE, topic, list(names)) for topic in topics]
    for start in range(0, len(resources), _TOPICS_AT_ONCE):
        request = DescribeConfigsRequest(resources[start : start + _TOPICS_AT_ONCE])
        answer: Any = await client.send(node, request)
        for error, _text, _kind, topic, entries in answer.resources:
            if error:
                errors[topic] = error
            else:
                settings[topic] = {name: value for name, value, *_ in entries}
    return settings, errors


def any_node(client: AIOKafkaClient) -> int:
    """Return one of the nodes that a client knows. Raises NodeNotReadyError."""
    node: int | None = client.get_random_node()
    if node is None:
        raise NodeNotReadyError("no broker is known")
    return node


async def read_metadata(
    client: AIOKafkaClient, node: int, topics: Iterable[str] | None = None
) -> Metadata:
    """Read metadata of these topics, or of all topics, from one node, without creating any.

    A topic that does not exist has an error and no id.

    Raises:
        KafkaError: The node does not answer.
    """
    named = NULL if topics is None else array(bytes(16) + text(topic) + NO_TAGS for topic in topics)
    body = named + _CREATE_NOTHING + _NO_OPERATIONS
    # The response is decoded later in several turns, because decoding all topics of a large cluster
    # would block the event loop for too long.
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
    return name, TopicMetadata(
        error, topic_id, tuple(by_number[number] for number in sorted(by_number))
    )


def _partition(reader: Reader) -> tuple[int, PartitionSeen]:
    _error, number, leader, _epoch = reader.unpack(_PARTITION)
    replicas = reader.count()
    reader.skip(4 * replicas)
    in_sync = reader.count()
    reader.skip(4 * in_sync)
    reader.skip(4 * reader.count())  # offline
    reader.tags()
    return number, PartitionSeen(leader, replicas, in_sync)
