"""Which producers and topics have a name of their own in the figures; all others are `other`."""

from collections.abc import Callable, Container

from headgate.telemetry.metric import OTHER

# The last line of defence: a pattern such as `orders.*` may match more topics than /metrics can
# bear. Each pair costs some 20 KiB of sketches at most, so this is at most 20 MB a worker.
MAX_PAIRS = 1000


class Labels:
    """The names that the configuration knows. Swapped as a whole at a reload."""

    __slots__ = ("_knows_topic", "_producers")

    def __init__(self, producers: Container[str], knows_topic: Callable[[str], bool]) -> None:
        """producers: the configured ones. knows_topic: is it configured, and does Kafka have it?

        A topic that only matches a pattern must not be known: clients choose such names freely.
        """
        self._producers = producers
        self._knows_topic = knows_topic

    def producer(self, name: str) -> str:
        """The producer's label."""
        return name if name in self._producers else OTHER

    def topic(self, name: str) -> str:
        """The topic's label."""
        return name if self._knows_topic(name) else OTHER
