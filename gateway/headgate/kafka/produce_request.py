"""Produce requests that address topics by id, and the meaning of a broker's refusals."""

import logging
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from aiokafka import errors

from headgate.kafka.aiokafka_internals import AddressedBatch
from headgate.kafka.topics import kafka_name
from headgate.kafka.wire import NO_TAGS, NULL, FlexibleRequest, Reader, varint
from headgate.model.outcome import Failure, Reason
from headgate.model.route import too_large_for_kafka

# ---- meaning of a failed batch: certainly not written, or not known


INVALID_RECORD = 87
UNSUPPORTED_COMPRESSION_TYPE = 76
_UNNAMED = {
    INVALID_RECORD: ("InvalidRecordError", "INVALID_RECORD"),
    UNSUPPORTED_COMPRESSION_TYPE: (
        "UnsupportedCompressionTypeError",
        "UNSUPPORTED_COMPRESSION_TYPE",
    ),
}


class UnknownTopicIdError(errors.BrokerResponseError):  # type: ignore[misc]
    """Kafka's error for an unknown topic id: the topic was deleted or is new to this broker."""

    errno = 100
    message = "UNKNOWN_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class InconsistentTopicIdError(errors.BrokerResponseError):  # type: ignore[misc]
    """Kafka's error for a partition that now belongs to another topic of this name."""

    errno = 103
    message = "INCONSISTENT_TOPIC_ID"
    retriable = True
    invalid_metadata = True


def learn_error_codes() -> None:
    """Register error codes that aiokafka would report as the ambiguous UNKNOWN_SERVER_ERROR."""
    for topic_error in (UnknownTopicIdError, InconsistentTopicIdError):
        errors.kafka_errors[topic_error.errno] = topic_error
    for code, (name, message) in _UNNAMED.items():
        if code not in errors.kafka_errors:
            error = type(name, (errors.BrokerResponseError,), {"errno": code, "message": message})
            errors.kafka_errors[code] = error


class Fate(IntEnum):
    """Consequence of a failed batch for its records."""

    REFUSED = 1  # certainly not written: the broker validated and refused it
    RESEND = 2  # certainly not written, because the producer's sequence is broken
    UNDECIDED = 3
    LATER = 4  # certainly not written: the topic accepts nothing now, other topics do


class Refusal(NamedTuple):
    """The judgement of a failed batch.

    Attributes:
        fate: The consequence.
        reason: The reason for the client.
        label: The metric label of a producer rebuild.
        one_is_guilty: Whether only some records caused the refusal, and others may be valid.
        name: Kafka's name of the error, for clients.
    """

    fate: Fate
    reason: Reason
    label: str
    one_is_guilty: bool = False
    name: str = ""

    @property
    def log_level(self) -> int:
        """Return the level of the log line for each batch.

        Refused timestamps may affect every batch, and callers that know the producer log them. The
        lane logs once that a topic accepts nothing.
        """
        if self.reason is Reason.TIMESTAMP_OUT_OF_RANGE or self.fate is Fate.LATER:
            return logging.DEBUG
        return logging.WARNING

    @property
    def in_words(self) -> str:
        """Describe the consequence for the log."""
        return _CONSEQUENCES[self.fate]


_CONSEQUENCES: Mapping[Fate, str] = {
    Fate.REFUSED: "the broker refused it",
    Fate.RESEND: "it was not written and is sent again with another producer",
    Fate.UNDECIDED: "it may or may not be written",
    Fate.LATER: "it was not written and is sent again later",
}
# The broker checks these before it appends (ReplicaManager.appendRecords, LogValidator,
# ProducerAppendInfo in org.apache.kafka), so with a single attempt nothing was written.
# Numbers: org.apache.kafka.common.protocol.Errors.
_REFUSALS: dict[int, Reason] = {
    2: Reason.BROKER_REFUSED,  # CORRUPT_MESSAGE
    10: Reason.TOO_LARGE,  # MESSAGE_TOO_LARGE
    17: Reason.UNKNOWN_TOPIC,  # INVALID_TOPIC_EXCEPTION
    18: Reason.TOO_LARGE,  # RECORD_LIST_TOO_LARGE
    29: Reason.BROKER_REFUSED,  # TOPIC_AUTHORIZATION_FAILED
    31: Reason.BROKER_REFUSED,  # CLUSTER_AUTHORIZATION_FAILED
    32: Reason.TIMESTAMP_OUT_OF_RANGE,  # INVALID_TIMESTAMP
    35: Reason.BROKER_REFUSED,  # UNSUPPORTED_VERSION
    42: Reason.BROKER_REFUSED,  # INVALID_REQUEST
    43: Reason.BROKER_REFUSED,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    44: Reason.BROKER_REFUSED,  # POLICY_VIOLATION
    UNSUPPORTED_COMPRESSION_TYPE: Reason.BROKER_REFUSED,
    INVALID_RECORD: Reason.BROKER_REFUSED,
}
# Errors of one topic, checked before the append: the topic may be new to this broker, deleted, or
# without enough replicas. Its lane retries, so that the broker's other topics do not wait.
NOT_NOW = (
    errors.UnknownTopicOrPartitionError,
    errors.NotEnoughReplicasError,
    UnknownTopicIdError,
    InconsistentTopicIdError,
)
_ONE_IS_GUILTY = (2, 10, 18, 32, INVALID_RECORD)
_BROKEN_SEQUENCE = (
    errors.OutOfOrderSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.ProducerFenced,
    errors.UnknownProducerId,
)


def classify(error: BaseException, attempts: int) -> Refusal:
    """Judge a failed batch.

    Args:
        error: The error of the last attempt.
        attempts: The number of times the batch was sent. After a second attempt, the error says
            nothing about the first one, whose response was lost.
    """
    label = type(error).__name__
    if attempts == 0:
        return Refusal(Fate.RESEND, Reason.KAFKA_UNAVAILABLE, label)
    if attempts == 1:
        code = getattr(error, "errno", -1)
        if code in _REFUSALS:
            guilty, name = code in _ONE_IS_GUILTY, kafka_name(error) or ""
            return Refusal(Fate.REFUSED, _REFUSALS[code], label, guilty, name)
        if isinstance(error, NOT_NOW):
            return Refusal(
                Fate.LATER, Reason.KAFKA_UNAVAILABLE, label, name=kafka_name(error) or ""
            )
        if isinstance(error, _BROKEN_SEQUENCE):
            return Refusal(Fate.RESEND, Reason.BROKER_REFUSED, label)
    return Refusal(Fate.UNDECIDED, Reason.UNKNOWN, label)


_DETAILS = {
    Reason.TIMESTAMP_OUT_OF_RANGE: "Kafka refused the record's timestamp",
    Reason.UNKNOWN_TOPIC: "the topic does not exist in Kafka",
}


def refusal(verdict: Refusal, size_bytes: int, limit_bytes: int) -> Failure:
    """Return the failure for the client of a refused record."""
    if verdict.reason is Reason.TOO_LARGE:
        return too_large_for_kafka(size_bytes, limit_bytes)
    detail = _DETAILS.get(verdict.reason, f"Kafka refused the record: {verdict.name}")
    return Failure(verdict.reason, detail)


# ---- produce requests that address topics by id, from Kafka 4.1 on
#
# A topic that was deleted and created again has the same name and another id. Each batch is made
# for one id. Addressed by name, it would go into the new topic, perhaps into a wrong partition for
# its keys. Addressed by id, the broker refuses it before the append. The batch then goes back to
# its lane, which ends with the former topic.
#
# aiokafka's highest version is 7. This is version 13 of ProduceRequest.json and
# ProduceResponse.json.


_PRODUCE: Final = 0
_VERSION: Final = 13
_ALL_REPLICAS: Final = -1
_PARTITION = struct.Struct(">ihqqq")  # number, error, base offset, append time, log start


class Produced(NamedTuple):
    """A response in the form of aiokafka's version 8, which its handler reads."""

    topics: list[tuple[str, list[tuple[Any, ...]]]]
    API_VERSION: int = 8


class ProduceById:
    """A request with the interface that AIOKafkaConnection and aiokafka's handler use.

    Args:
        by_name: aiokafka's request with the same batches, for brokers before Kafka 4.1.
        topics: The batches by topic id and partition.
        names: The topic names by id.
        timeout_ms: Kafka's time limit for the replicas.
    """

    required_acks = _ALL_REPLICAS

    def __init__(
        self,
        by_name: Any,
        topics: Mapping[bytes, dict[int, bytes]],
        names: Mapping[bytes, str],
        timeout_ms: int,
    ) -> None:
        self._by_name = by_name
        self._topics = topics
        self._names = names
        self._timeout_ms = timeout_ms

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Any:
        """Choose the version that the connection's broker supports."""
        if versions.get(_PRODUCE, (0, -1))[1] < _VERSION:
            return self._by_name.prepare(versions)
        bounds = (_VERSION, _VERSION)
        return FlexibleRequest(_PRODUCE, bounds, self._encoded, self._read).prepare(versions)

    def _encoded(self, _version: int) -> bytes:
        limits = struct.pack(">hi", _ALL_REPLICAS, self._timeout_ms)
        parts = [NULL, limits, varint(len(self._topics) + 1)]
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


def request_by_id(by_name: Any, batches: Iterable[AddressedBatch], timeout_ms: int) -> Any:
    """Return a request that addresses topics by id, or by name unless all ids are known.

    Args:
        by_name: aiokafka's request with the same batches.
        batches: The batches.
        timeout_ms: Kafka's time limit for the replicas.
    """
    topics, names = dict[bytes, dict[int, bytes]](), dict[bytes, str]()
    for tp, topic_id, batch in batches:
        if not any(topic_id):
            return by_name
        topics.setdefault(topic_id, {})[tp.partition] = batch
        names[topic_id] = tp.topic
    return ProduceById(by_name, topics, names, timeout_ms)


def _partition(reader: Reader) -> tuple[Any, ...]:
    numbers = reader.unpack(_PARTITION)
    for _ in range(reader.count()):  # the invalid records
        reader.skip(4)
        reader.text()
        reader.tags()
    message = reader.text()
    reader.tags()
    return (*numbers, (), message)
