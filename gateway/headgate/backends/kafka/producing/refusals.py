"""What a batch that failed means: certainly not written, or not known."""

import logging
from enum import IntEnum
from typing import NamedTuple

from aiokafka import errors

from headgate.backends.kafka.in_words import kafka_name
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import refused_by_kafka

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
    """The broker has no topic of this id: it was deleted, or is new to this broker."""

    errno = 100
    message = "UNKNOWN_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class InconsistentTopicIdError(errors.BrokerResponseError):  # type: ignore[misc]
    """The partition of this name is another topic's by now."""

    errno = 103
    message = "INCONSISTENT_TOPIC_ID"
    retriable = True
    invalid_metadata = True


def learn_error_codes() -> None:
    """Teach aiokafka the codes that it would report as the ambiguous UNKNOWN_SERVER_ERROR."""
    for known in (UnknownTopicIdError, InconsistentTopicIdError):
        errors.kafka_errors[known.errno] = known
    for code, (name, message) in _UNNAMED.items():
        if code not in errors.kafka_errors:
            error = type(name, (errors.BrokerResponseError,), {"errno": code, "message": message})
            errors.kafka_errors[code] = error


class Fate(IntEnum):
    """What becomes of the records of a batch that ended by an error."""

    REFUSED = 1  # the broker checked and refused it: certainly not written, somebody is to blame
    RESEND = 2  # certainly not written, and nobody's fault: the producer's sequence is broken
    UNDECIDED = 3
    LATER = 4  # certainly not written: the topic takes nothing now, and others go on


class Refusal(NamedTuple):
    """A fate, the reason for the client, and the metric label of a producer rebuild.

    one_is_guilty: the batch was refused for some of its records; the others may be innocent.
    name: Kafka's own name of the error, for clients.
    """

    fate: Fate
    reason: Reason
    label: str
    one_is_guilty: bool = False
    name: str = ""

    @property
    def log_level(self) -> int:
        """Of the line for each batch. Refused times come with every batch, and are logged by those
        who know whose times they are. A topic that takes nothing is logged by its lane, once."""
        if self.reason is Reason.TIMESTAMP_OUT_OF_RANGE or self.fate is Fate.LATER:
            return logging.DEBUG
        return logging.WARNING


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
# Of one topic alone, and checked before anything is appended: it may be new to this broker, or
# deleted, or lack replicas. Its lane tries again, where the broker's other topics do not wait.
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

    attempts: how often it was given to a connection. After a second attempt an error says nothing
    about the first one, whose answer was lost.
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
    """Return what the client of a refused record is told."""
    if verdict.reason is Reason.TOO_LARGE:
        return refused_by_kafka(size_bytes, limit_bytes)
    detail = _DETAILS.get(verdict.reason, f"Kafka refused the record: {verdict.name}")
    return Failure(verdict.reason, detail)
