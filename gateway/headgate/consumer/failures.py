"""Events that failed as often as they may: to a dead-letter topic, or the end of the consumer."""

import logging

from aiokafka import AIOKafkaProducer

from headgate.backends.options import ClusterOptions, client_arguments
from headgate.consumer.options import GaveUpError, Retries
from headgate.consumer.received import Received

log = logging.getLogger(__name__)

_MOST_REASON_BYTES = 1_000


class Failures:
    """Keeps one producer, if there is a dead-letter topic."""

    def __init__(self, cluster: ClusterOptions, retries: Retries, client_id: str) -> None:
        self._topic = retries.dead_letter
        self._producer: AIOKafkaProducer | None = None
        self._cluster = cluster
        self._client_id = client_id

    async def start(self) -> None:
        """Raises KafkaError."""
        if self._topic is not None:
            self._producer = AIOKafkaProducer(
                **client_arguments(self._cluster),
                client_id=self._client_id,
                acks="all",
                enable_idempotence=True,
            )
            await self._producer.start()

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def bury(self, received: Received, error: BaseException | str) -> None:
        """Write it to the dead-letter topic, as it came, and wait for the acknowledgement."""
        assert self._producer is not None
        place = f"{received.topic}-{received.partition}@{received.offset}"
        headers = [
            *received.headers,
            ("hg-dead-from", place.encode()),
            ("hg-dead-reason", str(error).encode("utf-8", "replace")[:_MOST_REASON_BYTES]),
            ("hg-dead-attempts", b"%d" % received.attempt),
        ]
        await self._producer.send_and_wait(
            self._topic,
            received.value,
            received.key,
            timestamp_ms=received.timestamp,
            headers=headers,
        )

    @staticmethod
    def gave_up(received: Received, error: BaseException | str) -> GaveUpError:
        """What the consumer ends with; the event's offset stays uncommitted."""
        text = f"{received!r} failed {received.attempt} times: {error}"
        give_up = GaveUpError(text)
        if isinstance(error, BaseException):
            give_up.__cause__ = error
        return give_up
