"""What becomes of an event that has failed as often as it may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.structs import TopicPartition

from headgate.backends.options import ClusterOptions
from headgate.consumer.failures import Failures
from headgate.consumer.offset_store import Place
from headgate.consumer.options import ConsumerOptions, Counts, GaveUpError, Retries
from headgate.consumer.received import Received
from headgate.consumer.shift import Shift
from headgate.core.ownership import Ownership
from headgate.core.pauses import Pauses
from stack import eventually
from unit.test_owned_partition import Read


class Hands:
    def __init__(self) -> None:
        self.error: BaseException | None = None

    def wake(self) -> None: ...

    def give_up(self, error: BaseException) -> None:
        self.error = error


class NoDeadLetters(Failures):
    """The topic takes nothing."""

    def __init__(self, retries: Retries) -> None:
        super().__init__(ClusterOptions("127.0.0.1:1"), retries, "test")

    async def bury(self, received: Received, error: BaseException | str) -> None:
        raise MessageSizeTooLargeError


class Reader:
    """As much of an aiokafka consumer as a shift needs before it reads."""

    class _coordinator:
        generation, member_id = 1, "test-1"

    def pause(self, *tps: TopicPartition) -> None: ...

    def resume(self, *tps: TopicPartition) -> None: ...


class NoTable:
    """An offset store that waiting does not help."""

    async def positions(self, places: Iterable[Place]) -> dict[Place, int]:
        raise ValueError("no such table")

    async def advance(self, marks: Mapping[Place, int]) -> None: ...


async def test_whatever_ends_the_reading_ends_the_consumer() -> None:
    ownership, hands, options = Ownership(), Hands(), ConsumerOptions(drain_s=0.01)
    failures = NoDeadLetters(options.retries)
    shift = Shift(
        cast(AIOKafkaConsumer, Reader()), ownership, ownership.assign([("orders", 0)]), options,
        Pauses(), Counts(), hands, failures, NoTable(),
    )  # fmt: skip
    shift.begin()
    await eventually(lambda: hands.error is not None)
    assert isinstance(hands.error, ValueError)
    await shift.end()


async def test_an_event_that_no_dead_letter_topic_takes_stops_the_consumer() -> None:
    retries = Retries(attempts=1, then="dead-letter", dead_letter="dead")
    ownership, hands, counts = Ownership(), Hands(), Counts()
    options = ConsumerOptions(retries=retries, drain_s=0.01)
    shift = Shift(
        cast(AIOKafkaConsumer, None), ownership, ownership.assign([("orders", 0)]), options,
        Pauses(), counts, hands, NoDeadLetters(retries), None,
    )  # fmt: skip
    (partition,) = shift.partitions.values()
    partition.take(cast(Any, [Read(0, b"a"), Read(1, b"a")]))
    received = shift.next()
    assert received is not None
    received.failed("no such customer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert isinstance(hands.error, GaveUpError)
    assert isinstance(hands.error.__cause__, MessageSizeTooLargeError)
    assert (partition.low_water, counts.processed, counts.dead_letters) == (0, 0, 0)
    assert shift._idle.is_set()
