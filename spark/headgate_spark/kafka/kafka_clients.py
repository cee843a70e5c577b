"""aiokafka's clients as the jobs make them."""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from headgate.kafka import aiokafka_internals as consumers
from headgate.kafka.access import client_arguments
from headgate_spark.job.connections import Connection

CLIENT_ID = "headgate-mirror"  # a quota on it caps all of the mirror at the brokers, too
CLIENT_ERRORS = (KafkaError, OSError, TimeoutError, AssertionError)  # it asserts its own states


def job_arguments(connection: Connection) -> dict[str, Any]:
    """What every aiokafka client of a job takes."""
    return {**client_arguments(connection), "client_id": CLIENT_ID}


def open_consumer(connection: Connection, **options: Any) -> AIOKafkaConsumer:
    """A consumer without a group that sees committed records alone and never resets itself."""
    return consumers.open_consumer(
        connection,
        client_id=CLIENT_ID,
        auto_offset_reset="none",  # an offset that is gone is an error, not another offset
        isolation_level="read_committed",
        **options,
    )
