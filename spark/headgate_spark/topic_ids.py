"""A topic's id, asked with a request of our own: aiokafka's metadata requests know none."""

from __future__ import annotations

import base64
import struct
from io import BytesIO
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError, for_code
from aiokafka.structs import TopicPartition

from headgate.core.wire import Reader

_METADATA, _VERSION = 3, 12  # MetadataRequest.json; version 12: Kafka 3.1 and newer


async def topic_id(client: AIOKafkaClient, tp: TopicPartition) -> str:
    """Kafka's id of the topic, as the partition's leader knows it. Raises KafkaError.

    A topic that was deleted and made anew has another one. The leader learns of that before it
    serves the new partition, so records that were read before an answer with the old id are the
    old topic's.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:
        raise NodeNotReadyError(f"partition {tp.partition} of {tp.topic} has no leader")
    answer: _TopicAnswer = await client.send(node, _TopicRequest(tp.topic))
    if answer.error:
        raise for_code(answer.error)(tp.topic)
    return base64.urlsafe_b64encode(answer.topic_id).decode().rstrip("=")


class _TopicAnswer(NamedTuple):
    error: int
    topic_id: bytes

    @classmethod
    def decode(cls, data: BytesIO) -> _TopicAnswer:
        """MetadataResponse.json, version 12, of one topic, as far as it is needed."""
        reader = Reader(data.read())
        reader.skip(4)  # throttle time
        for _ in range(reader.count()):
            reader.skip(4)
            reader.text()
            reader.skip(4)  # port
            reader.text()  # rack
            reader.tags()
        reader.text()  # cluster id
        reader.skip(4)  # controller
        reader.count()
        error = reader.int16()
        reader.text()
        return cls(error, reader.take(16))


class _Encoded(NamedTuple):
    data: bytes

    def encode(self) -> bytes:
        return self.data


class _Header(NamedTuple):
    correlation_id: int


class _TopicRequest:
    """Metadata of one topic, by what AIOKafkaConnection calls on a request."""

    API_KEY = _METADATA
    API_VERSION = _VERSION
    RESPONSE_TYPE = _TopicAnswer

    def __init__(self, topic: str) -> None:
        self._topic = topic.encode()

    def prepare(self, versions: dict[int, tuple[int, int]]) -> _TopicRequest:
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
        """One topic by its name; creates nothing."""
        length = len(self._topic) + 1
        size = bytes([length]) if length < 0x80 else bytes([length & 0x7F | 0x80, length >> 7])
        return b"\x02" + bytes(16) + size + self._topic + b"\0" + b"\0\0\0"

    def parse_response_header(self, data: BytesIO) -> _Header:
        """The header; its tags are empty in every known version."""
        (correlation_id,) = struct.unpack(">i", data.read(4))
        data.read(1)
        return _Header(correlation_id)
