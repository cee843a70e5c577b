"""The registry of replays as the runner reads it: one consumer, kept, of what is committed."""

import asyncio

from aiokafka.structs import TopicPartition

from headgate.core.replays.replay import REGISTRY_TOPIC, Registry
from headgate.kafka.closing import drop_consumer
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.kafka_clients import open_consumer

_PLACE = TopicPartition(REGISTRY_TOPIC, 0)
_HIDDEN_S = 90.0  # an open transaction of a process that died hides what is behind it
_POLL_MS = 100


class RegistryReader:
    """Raises KafkaError, OSError or TimeoutError; then it is dropped and another one made."""

    def __init__(self, connection: Connection) -> None:
        self._inner = open_consumer(connection, fetch_max_wait_ms=_POLL_MS)
        self.registry = Registry()

    async def start(self) -> None:
        """Connect."""
        await self._inner.start()
        self._inner.assign([_PLACE])
        begins = await self._inner.beginning_offsets([_PLACE])
        self._inner.seek(_PLACE, begins[_PLACE])

    async def read_all(self) -> None:
        """Read to the end that the log has now, past transactions that are open."""
        end: int | None = None
        async with asyncio.timeout(_HIDDEN_S):
            while end is None or await self._inner.position(_PLACE) < end:
                await self.read_new(_POLL_MS)
                if end is None:
                    end = self._inner.highwater(_PLACE)

    async def read_new(self, wait_ms: int = 0) -> None:
        """Read what has come."""
        found = await self._inner.getmany(_PLACE, timeout_ms=wait_ms)
        for record in found.get(_PLACE, ()):
            self.registry.see(record.key, record.value)

    async def drop(self) -> None:
        """End it at once."""
        await drop_consumer(self._inner)
