"""The registry of one backfill tier: read by every gateway, changed by one at a time.

A change is a transaction whose id all gateways share: whoever begins one ends those of others, then
reads the log to its end, decides, and writes. So no two gateways decide from the same state, and
what is decided is there wholly or not at all.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from aiokafka.structs import TopicPartition

from headgate.backends.kafka.compacted import CompactedTopic, NoTopicError
from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.producing.transactions import TransactionalProducer, TransactionError
from headgate.core.record import Record
from headgate.core.replays.replay import REGISTRY_TOPIC, Registry, wanted_record

API_ID = "headgate.replays.api"
_FRESH_S = 0.5
_ATTEMPTS = 6
_START_S = 40.0  # the transaction of a gateway that died is ended first
_WANT_S = 5.0
_BATCH_BYTES = 950_000

Pair = tuple[bytes, bytes | None]


class RegistryChange:
    """A transaction that is open: what is put in it is written together."""

    def __init__(self, registry: Registry, producer: TransactionalProducer) -> None:
        self.registry = registry
        self._producer = producer
        self.is_empty = True

    async def put(self, pairs: Iterable[Pair]) -> None:
        """Write registry records."""
        now_ms = int(time.time() * 1000)
        records = [Record(REGISTRY_TOPIC, 0, key, value, [], now_ms) for key, value in pairs]
        await self._begin()
        await self._producer.append(records)

    async def commit_offsets(
        self, group: str, topic: str, offsets: dict[int, int], text: str
    ) -> None:
        """Set a group's offsets."""
        await self._begin()
        for partition, offset in offsets.items():
            await self._producer.send_offset(group, TopicPartition(topic, partition), offset, text)

    async def _begin(self) -> None:
        if self.is_empty:
            await self._producer.begin()
            self.is_empty = False


class RegistryLog:
    """One backfill cluster's registry."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._registry = Registry()
        self._log = CompactedTopic(options, REGISTRY_TOPIC, self._see, self._restart)
        self._read_at = -_FRESH_S
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()

    @property
    def last(self) -> Registry:
        """As it was when it was last read."""
        return self._registry

    async def read(self) -> Registry:
        """The registry, at most half a second old. Raises as `CompactedTopic.read_new`."""
        async with self._reading:
            if time.monotonic() - self._read_at > _FRESH_S:
                with suppress(NoTopicError):  # nothing was ever asked for
                    await self._log.read_new([0])
                self._read_at = time.monotonic()
        return self._registry

    async def change(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> Registry:
        """Have `decide` look at the registry as it is now and put what follows; again when another
        gateway changed something meanwhile. What it raises ends the change; nothing is written.

        Changes of this process wait for one another; only those of other gateways are ended.
        Raises TransactionError when Kafka does not do it, and as `read`.
        """
        async with self._changing:
            await self._change(decide)
        return self._registry

    async def want(self, topic: str, ends: Mapping[int, int]) -> None:
        """Ask the mirror to copy partitions up to these offsets before its next interval."""

        async def decide(change: RegistryChange) -> None:
            await change.put([wanted_record(topic, ends)])

        # It does so at the interval in any case.
        with suppress(TransactionError, NoTopicError, TimeoutError):
            async with asyncio.timeout(_WANT_S):
                await self.change(decide)

    async def _change(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._attempt(decide)
            except TransactionError as error:
                # After an error of the commit it may be written: `decide` sees it then.
                if attempt + 1 == _ATTEMPTS or not _is_worth_another(error):
                    raise
                await asyncio.sleep(random.uniform(0, 0.1 * 2**attempt))
            else:
                return

    async def _attempt(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> None:
        producer = TransactionalProducer(self._options, API_ID, _BATCH_BYTES)
        try:
            await producer.start(_START_S)
            await self._read_all()
            change = RegistryChange(self._registry, producer)
            await decide(change)
            if not change.is_empty:
                await producer.commit()
                await self._read_all()
        finally:
            await producer.drop()

    async def _read_all(self) -> None:
        async with self._reading:
            await self._log.read_new([0], past_open=True)
            self._read_at = time.monotonic()

    def _see(self, _partition: int, key: bytes | None, value: bytes | None) -> None:
        self._registry.see(key, value)

    def _restart(self, _partition: int) -> None:
        self._registry = Registry()


def _is_worth_another(error: TransactionError) -> bool:
    return error.is_fenced or not error.is_refusal
