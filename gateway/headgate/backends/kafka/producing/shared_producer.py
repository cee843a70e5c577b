"""What a lane needs of the cluster that it leads to."""

from typing import Protocol

from headgate.backends.kafka.producing.producer import Producer


class SharedProducer(Protocol):
    """The producer that all lanes of a cluster share, and what they tell about it.

    handed_bytes: of all batches in flight.
    acked_at: monotonic seconds of the last acknowledgement.
    """

    handed_bytes: int
    acked_at: float

    async def ready(self) -> Producer:
        """Wait until a batch may be handed over."""
        ...

    def fail(self, producer: Producer, reason: str) -> None:
        """Hold all lanes and replace this producer."""
        ...

    def topics_are_old(self) -> None:
        """Read the topics again: a broker's answer shows that the known state is old."""
        ...

    def measured(self, topic: str, partition: int, seconds: float, records: int, size: int) -> None:
        """A batch was acknowledged."""
        ...
