"""Reads a whole topic, or from a time on: to the end it had when the reading began."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from headgate.backends.kafka.options import ClusterOptions
from headgate.errors_in_words import connection_error
from headgate.kafka.consumers import open_consumer

_SILENCE_S = 60.0  # longer than any leader change
_POLL_MS = 1000

LogRecord: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


class CutShortError(Exception):
    """Not every record was read."""


class Reach(NamedTuple):
    """How far it is. records: that were shown.  offsets: behind it, of `total` that there are."""

    records: int
    offsets: int
    total: int


class LogScan:
    """One reading of one topic.

    begin_ms: not from the first retained record, but from the first of this time or later.
    committed: leave out records of transactions that were aborted or are open.
    """

    def __init__(
        self, options: ClusterOptions, topic: str, partitions: int, client_id: str, *,
        begin_ms: int | None = None, committed: bool = False,
    ) -> None:  # fmt: skip
        self._options, self._client_id = options, client_id
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._topic, self._begin_ms, self._committed = topic, begin_ms, committed
        self.has_before = False

    async def run(self, see: Callable[[LogRecord], None], report: Callable[[Reach], None]) -> int:
        """Show every record; how many there were. Raises CutShortError.

        report: told now and then how far it is. Afterwards `has_before` says whether the topic has
        or had records before those that were shown.
        """
        consumer = open_consumer(
            self._options,
            client_id=self._client_id,
            auto_offset_reset="earliest",  # retention may take the first ones meanwhile
            isolation_level="read_committed" if self._committed else "read_uncommitted",
        )
        try:
            async with asyncio.timeout(_SILENCE_S):
                await consumer.start()
            return await self._read(consumer, see, report)
        except (KafkaError, OSError, TimeoutError) as error:
            text = f"topic {self._topic} cannot be read: {connection_error(error)}"
            raise CutShortError(text) from error
        finally:
            await consumer.stop()

    async def _read(
        self,
        consumer: AIOKafkaConsumer,
        see: Callable[[LogRecord], None],
        report: Callable[[Reach], None],
    ) -> int:
        consumer.assign(self._places)
        async with asyncio.timeout(_SILENCE_S):
            ends = await consumer.end_offsets(self._places)
            begins = await self._begins(consumer, ends)
        self.has_before = any(begins.values())
        at = {place: begin for place, begin in begins.items() if begin < ends[place]}
        total = sum(ends[place] - begin for place, begin in at.items())
        for place, offset in at.items():
            consumer.seek(place, offset)
        loop, count = asyncio.get_running_loop(), 0
        moved = loop.time()
        while at:
            batches = await consumer.getmany(*at, timeout_ms=_POLL_MS)
            for records in batches.values():
                for record in records:
                    see(record)
                count += len(records)
            before = at
            at = await _positions(consumer, at, ends)
            left = sum(ends[place] - offset for place, offset in at.items())
            report(Reach(count, total - left, total))
            if batches or at != before:
                moved = loop.time()
            elif loop.time() - moved > _SILENCE_S:
                stuck = ", ".join(f"{place.partition} at {offset}" for place, offset in at.items())
                raise CutShortError(f"topic {self._topic}: nothing comes of partitions {stuck}")
        return count

    async def _begins(
        self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self._begin_ms is None:
            begins: dict[TopicPartition, int] = await consumer.beginning_offsets(self._places)
            return begins
        wanted: Any = dict.fromkeys(self._places, self._begin_ms)
        found = await consumer.offsets_for_times(wanted)
        return {
            place: ends[place] if (one := found.get(place)) is None else one.offset
            for place in self._places
        }


async def _positions(
    consumer: AIOKafkaConsumer, at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where it stands in those partitions that are not at their end."""
    now = {place: await consumer.position(place) for place in at}
    return {place: offset for place, offset in now.items() if offset < ends[place]}
