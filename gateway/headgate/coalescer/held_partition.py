"""One partition of a held topic in Kafka, for one session of its owner (`base.HeldPartition`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from headgate.backends.kafka.transactions import (
    STEP_TIMEOUT_S,
    TransactionalProducer,
    TransactionError,
)
from headgate.coalescer.base import Committed, Emission, LogError, Read
from headgate.consumer.membership import committed
from headgate.core.coalescing.held import DoneMark, mark_headers, read_held
from headgate.core.record import Record

FENCED = "fenced"
MAX_RECORDS = 100  # of one reading, 1-2 ms: it must not hold up the event loop
_FENCE_S = 60.0  # InitProducerId waits for the markers of a transaction that was decided
_GRACE_S = 5.0
_EARLIEST = -1


class CoalescedTopic(NamedTuple):
    """Where an owner works. topic: O.  held: H.  group: whose offsets are committed."""

    topic: str
    held: str
    partition: int
    group: str

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.held, self.partition)


class KafkaHeldPartition:
    """See the module. is_mine: whether the term of ownership still lasts."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        producer: TransactionalProducer,
        place: CoalescedTopic,
        is_mine: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._place = place
        self._is_mine = is_mine
        self._now_ms = now_ms
        self._reading: asyncio.Timeout | None = None

    def hurry(self) -> None:
        """End a reading that waits: there is something else to do."""
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def fence(self) -> None:
        """See `base.HeldPartition`, as for all others here."""
        async with self._asking():
            await self._producer.start(_FENCE_S)

    async def committed(self) -> Committed:
        async with self._asking():
            return Committed(*await committed(self._consumer, self._place.tp))

    async def end(self) -> int:
        tp = self._place.tp
        async with self._asking():
            found: dict[TopicPartition, int] = await self._consumer.end_offsets([tp])
            return found[tp]

    async def seek(self, offset: int) -> int:
        tp = self._place.tp
        async with self._asking():
            if offset == _EARLIEST:
                offset = (await self._consumer.beginning_offsets([tp]))[tp]
            self._check()
            self._consumer.seek(tp, offset)
            self._consumer.resume(tp)
            return offset

    async def read(self, wait_ms: int) -> Read:
        tp = self._place.tp
        self._check()
        try:
            async with asyncio.timeout(wait_ms / 1000 + _GRACE_S) as self._reading:
                found = await self._consumer.getmany(
                    tp, timeout_ms=wait_ms, max_records=MAX_RECORDS
                )
        except TimeoutError:  # hurried, or the group is joining again
            found = {}
        except KafkaError as error:
            raise LogError(type(error).__name__, repr(error)) from error
        finally:
            self._reading = None
        self._check()
        records = [
            read_held(one.offset, one.key, one.value, one.timestamp, one.headers)
            for one in found.get(tp, ())
        ]
        async with self._asking():  # it has moved past aborted records and markers, too
            return Read(records, await self._consumer.position(tp))

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        place = self._place
        records = [Record(place.topic, *emission) for emission in emissions]
        now_ms = self._now_ms()
        records += [
            Record(place.held, place.partition, mark.key, b"", mark_headers(mark), now_ms)
            for mark in marks
        ]
        async with self._asking():
            await self._producer.begin()
            return (await self._producer.append(records))[: len(emissions)]

    async def send_offset(self, offset: int, metadata: str) -> None:
        async with self._asking():
            await self._producer.begin()
            await self._producer.send_offset(self._place.group, self._place.tp, offset, metadata)

    async def end_transaction(self) -> None:
        async with self._asking(may_be_done=True):
            await self._producer.commit()

    @asynccontextmanager
    async def _asking(self, may_be_done: bool = False) -> AsyncIterator[None]:
        """Bound a step, and translate what ends it."""
        self._check()
        try:
            async with asyncio.timeout(_FENCE_S + STEP_TIMEOUT_S):
                yield
        except TransactionError as error:
            label = FENCED if error.is_fenced else error.label
            is_refusal = error.is_refusal and not may_be_done
            raise LogError(label, str(error), is_refusal) from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogError(type(error).__name__, repr(error)) from error

    def _check(self) -> None:
        if not self._is_mine():
            raise LogError("not_owner", "the partition belongs to another member now", True)
