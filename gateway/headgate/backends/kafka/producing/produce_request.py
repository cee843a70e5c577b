"""Produce requests that name topics by id, from Kafka 4.1 on, and by name before.

A topic that was deleted and created again has the name of the former one, and another id. A batch
is made for one id. Addressed by name, it would land in the new topic, in a partition that its keys
may not have there. Addressed by id, the broker refuses it before it appends anything: such a batch
goes back to its lane, which ends with the former topic.

aiokafka's requests end with version 7. This is version 13 of ProduceRequest.json and
ProduceResponse.json. Not compiled: a subclass of a foreign class cannot be.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest

from headgate.backends.kafka.producing.refusals import NOT_NOW
from headgate.kafka.flexible import NO_TAGS, NULL, FlexibleRequest, varint
from headgate.kafka.wire import Reader

_PRODUCE: Final = 0
_VERSION: Final = 13
_ALL_REPLICAS: Final = -1
_PARTITION = struct.Struct(">ihqqq")  # number, error, base offset, append time, log start


class Produced(NamedTuple):
    """An answer in the shape of aiokafka's version 8, which its handler reads."""

    topics: list[tuple[str, list[tuple[Any, ...]]]]
    API_VERSION: int = 8


class ProduceById:
    """One request, by the calls of AIOKafkaConnection and of aiokafka's handler.

    by_name: aiokafka's request with the same batches, for brokers before Kafka 4.1.
    """

    required_acks = _ALL_REPLICAS

    def __init__(
        self,
        by_name: ProduceRequest,
        topics: Mapping[bytes, dict[int, bytes]],
        names: Mapping[bytes, str],
    ) -> None:
        self._by_name = by_name
        self._topics = topics
        self._names = names

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Any:
        """Choose the version that the connection's broker takes."""
        if versions.get(_PRODUCE, (0, -1))[1] < _VERSION:
            return self._by_name.prepare(versions)
        bounds = (_VERSION, _VERSION)
        return FlexibleRequest(_PRODUCE, bounds, self._encoded, self._read).prepare(versions)

    def _encoded(self, _version: int) -> bytes:
        timeout_ms = self._by_name._timeout
        parts = [NULL, struct.pack(">hi", _ALL_REPLICAS, timeout_ms), varint(len(self._topics) + 1)]
        for topic_id, batches in self._topics.items():
            parts += [topic_id, varint(len(batches) + 1)]
            for partition, batch in batches.items():
                parts += [struct.pack(">i", partition), varint(len(batch) + 1), batch, NO_TAGS]
            parts.append(NO_TAGS)
        return b"".join(parts)

    def _read(self, reader: Reader, _version: int) -> Produced:
        topics = list[tuple[str, list[tuple[Any, ...]]]]()
        for _ in range(reader.count()):
            name = self._names.get(reader.take(16), "")
            topics.append((name, [_partition(reader) for _ in range(reader.count())]))
            reader.tags()
        return Produced(topics)


class BatchSender(SendProduceReqHandler):  # type: ignore[misc]
    """aiokafka's handler of one request, with two changes: batches that know their topic's id are
    addressed by it, and batches that their lanes send again (`Fate.LATER`) are not sent again here.
    """

    def create_request(self) -> Any:
        """Address topics by id if all batches have one."""
        by_name = super().create_request()
        topics, names = dict[bytes, dict[int, bytes]](), dict[bytes, str]()
        for place, batch in self._batches.items():
            topic_id = topic_id_of(batch)
            if not any(topic_id):
                return by_name
            topics.setdefault(topic_id, {})[place.partition] = batch.get_data_buffer()
            names[topic_id] = place.topic
        return ProduceById(by_name, topics, names)

    def _can_retry(self, error: BaseException, batch: MessageBatch) -> bool:
        if batch.retry_count == 1 and isinstance(error, NOT_NOW):
            return False
        return bool(super()._can_retry(error, batch))


def address(batch: MessageBatch, topic_id: bytes) -> None:
    """Note the id of the topic that a batch is for. 16 zeros, or nothing: it is not known."""
    batch.topic_id = topic_id


def topic_id_of(batch: MessageBatch) -> bytes:
    """Return the id that `address` noted."""
    return getattr(batch, "topic_id", b"")


def _partition(reader: Reader) -> tuple[Any, ...]:
    numbers = reader.unpack(_PARTITION)
    for _ in range(reader.count()):  # records that are to blame
        reader.skip(4)
        reader.text()
        reader.tags()
    message = reader.text()
    reader.tags()
    return (*numbers, (), message)
