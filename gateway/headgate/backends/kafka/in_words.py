"""Why Kafka did not answer, in words that clients may see.

The exceptions of its client name addresses and classes. Those go to the log.
"""

from aiokafka.errors import (
    AuthenticationFailedError,
    BrokerResponseError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NodeNotReadyError,
    SaslAuthenticationFailed,
)

_WORDS = (
    (
        (AuthenticationFailedError, IllegalSaslStateError, SaslAuthenticationFailed),
        "the credentials are refused",
    ),
    ((TimeoutError, KafkaTimeoutError), "nothing came in time"),
    ((NoBrokersAvailable,), "the cluster names no broker"),
    ((KafkaConnectionError, NodeNotReadyError, OSError), "no connection"),
)


def kafka_in_words(error: BaseException) -> str:
    """An error that a broker answered has Kafka's own name."""
    for kinds, words in _WORDS:
        if isinstance(error, kinds):
            return words
    return kafka_name(error) or "the answer cannot be used"


def kafka_name(error: BaseException) -> str | None:
    """The name that Kafka's protocol gives to an error, such as TOPIC_AUTHORIZATION_FAILED."""
    return error.message if isinstance(error, BrokerResponseError) else None
