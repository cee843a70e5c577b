"""Reads a compacted topic again and again: each time what has come since, and nothing in between.

No connection is kept: these topics are asked a few times a minute by operators.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.kafka.closing import drop_consumer
from headgate.kafka.consumers import open_consumer

See = Callable[[int, bytes | None, bytes | None], None]
SILENCE_S = 15.0  # longer than an ordinary leader loss
_POLL_MS = 200
_AT_ONCE = 200  # records between two turns of the event loop, some 10 us each


class NoTopicError(OSError):
    """The topic is not there."""


class CompactedTopic:
    """Shows every committed record of some partitions once, in order.

    see: told partition, key and value.  restart: told a partition whose log is another one now,
    which is shown from its beginning again.
    """

    def __init__(
        self, options: ClusterOptions, topic: str, see: See, restart: Callable[[int], None]
    ) -> None:
        self.topic = topic
        self._options = options
        self._see = see
        self._restart = restart
        self._at: dict[int, int] = {}

    def forget(self, partition: int) -> None:
        """Show a partition from its beginning the next time."""
        self._at.pop(partition, None)

    async def read_new(self, partitions: Iterable[int], *, past_open: bool = False) -> None:
        """Show what was committed since the last call.

        past_open: wait for transactions that are open now, too, so that nothing that is committed
        already stays hidden behind them.
        Raises NoTopicError; KafkaError, OSError or TimeoutError when Kafka does not answer.
        """
        async with consumer_of(self._options) as consumer:
            if self.topic not in await consumer.topics():
                raise NoTopicError(f"there is no topic {self.topic}: run `headgate init`")
            places = [
                TopicPartition(self.topic, partition) for partition in sorted(set(partitions))
            ]
            ends = await self._ends(consumer, places, past_open)
            begins = await consumer.beginning_offsets(places)
            consumer.assign(places)
            for place in places:
                consumer.seek(place, self._start(place, begins, ends))
            await self._read(consumer, ends)

    async def _ends(
        self, consumer: AIOKafkaConsumer, places: list[TopicPartition], past_open: bool
    ) -> Mapping[TopicPartition, int]:
        if not past_open:
            return await ends_of(consumer, places)
        async with consumer_of(self._options, isolation_level="read_uncommitted") as other:
            return await ends_of(other, places)

    def _start(
        self,
        place: TopicPartition,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> int:
        known = self._at.get(place.partition)
        if known is not None and known > ends[place]:
            known = None
        if known is None:
            self._restart(place.partition)
            known = begins[place]
        return max(known, begins[place])

    async def _read(self, consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> None:
        waiting = {place for place, end in ends.items() if await consumer.position(place) < end}
        self._at |= {place.partition: end for place, end in ends.items() if place not in waiting}
        async with asyncio.timeout(None) as bound:
            loop = asyncio.get_running_loop()
            while waiting:
                bound.reschedule(loop.time() + SILENCE_S)
                found = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
                for place, records in found.items():
                    for record in records:
                        self._see(place.partition, record.key, record.value)
                    self._at[place.partition] = records[-1].offset + 1
                waiting = await self._unread(consumer, waiting, ends, bool(found))

    async def _unread(
        self,
        consumer: AIOKafkaConsumer,
        waiting: set[TopicPartition],
        ends: Mapping[TopicPartition, int],
        moved: bool,
    ) -> set[TopicPartition]:
        left = set()
        for place in waiting:
            position = await consumer.position(place)
            if position > self._at.get(place.partition, -1):
                self._at[place.partition] = position
            if position < ends[place]:
                left.add(place)
        return left


@asynccontextmanager
async def consumer_of(
    options: ClusterOptions, isolation_level: str = "read_committed"
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group, closed at the end."""
    consumer = open_consumer(
        options,
        client_id="headgate-control",
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    )
    try:
        async with asyncio.timeout(SILENCE_S):
            await consumer.start()
        yield consumer
    finally:
        await drop_consumer(consumer)


async def ends_of(
    consumer: AIOKafkaConsumer, places: list[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """End offsets of partitions that are there, at the consumer's isolation level."""
    consumer.assign(places)  # aiokafka asks for no other topic's leaders
    consumer.pause(*places)
    try:
        async with asyncio.timeout(SILENCE_S):
            found: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
    finally:
        consumer.resume(*places)
    return found
