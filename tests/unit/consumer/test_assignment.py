"""What becomes of an event that has failed as often as it may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import MessageSizeTooLargeError, UnknownTopicOrPartitionError
from aiokafka.structs import TopicPartition

from headgate.consumer.assignment import Assignment
from headgate.consumer.commits import Place
from headgate.consumer.consumer import Consumer
from headgate.consumer.failures import Failures
from headgate.consumer.membership import Membership
from headgate.consumer.options import ConsumerOptions, Counts, GaveUpError, MemberOptions, Retries
from headgate.consumer.ownership import Ownership
from headgate.consumer.partition import Received
from headgate.kafka import wire
from headgate.kafka.options import ClusterOptions
from headgate.kafka.wire import NO_TAGS, NULL, array
from headgate.redis.pauses import Pauses
from support.process.stack import eventually
from unit.consumer.test_partition import Read


class EventReceiver:
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


class NoTopics:
    """A client of a cluster that tells of no topic."""

    def get_random_node(self) -> int:
        return 1

    async def send(self, node: int, request: object) -> wire.Reader:
        return wire.Reader(
            bytes(4) + array([]) + NULL + bytes(4) + array([]) + NO_TAGS
        )  # no topics


class Reader:
    """As much of an aiokafka consumer as an assignment needs before it reads."""

    _client = NoTopics()

    class _coordinator:
        generation, member_id = 1, "test-1"

    def pause(self, *tps: TopicPartition) -> None: ...

    def resume(self, *tps: TopicPartition) -> None: ...


class NoTable:
    """An offset store that waiting does not help."""

    async def check_topics(self, ids: Mapping[str, str]) -> None: ...

    async def positions(self, places: Iterable[Place]) -> dict[Place, int]:
        raise ValueError("no such table")

    async def advance(self, marks: Mapping[Place, int]) -> None: ...


async def test_whatever_ends_the_reading_ends_the_consumer() -> None:
    ownership, receiver, options = Ownership(), EventReceiver(), ConsumerOptions(drain_s=0.01)
    failures = NoDeadLetters(options.retries)
    assignment = Assignment(
        cast(AIOKafkaConsumer, Reader()), ownership, ownership.assign([("orders", 0)]), options,
        Pauses(), Counts(), receiver.wake, receiver.give_up, failures, NoTable(),
    )  # fmt: skip
    assignment.begin()
    await eventually(lambda: receiver.error is not None)
    assert isinstance(receiver.error, ValueError)
    await assignment.end()


async def test_an_event_that_no_dead_letter_topic_takes_stops_the_consumer() -> None:
    retries = Retries(attempts=1, then="dead-letter", dead_letter="dead")
    ownership, receiver, counts = Ownership(), EventReceiver(), Counts()
    options = ConsumerOptions(retries=retries, drain_s=0.01)
    assignment = Assignment(
        cast(AIOKafkaConsumer, None), ownership, ownership.assign([("orders", 0)]), options,
        Pauses(), counts, receiver.wake, receiver.give_up, NoDeadLetters(retries), None,
    )  # fmt: skip
    (partition,) = assignment.partitions.values()
    partition.take(cast(Any, [Read(0, b"a"), Read(1, b"a")]))
    received = assignment.next()
    assert received is not None
    received.failed("no such customer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert isinstance(receiver.error, GaveUpError)
    assert isinstance(receiver.error.__cause__, MessageSizeTooLargeError)
    assert (partition.low_water, counts.processed, counts.dead_letters) == (0, 0, 0)
    assert assignment._idle.is_set()


class Broken(Failures):
    """What aiokafka raises for a record without key and value."""

    async def bury(self, received: Received, error: BaseException | str) -> None:
        raise AssertionError("Need at least one: key or value")


def assignment_of(
    options: ConsumerOptions, failures: Failures | None = None
) -> tuple[Assignment, EventReceiver, Counts]:
    """An assignment that owns a partition and has read two events of it."""
    ownership, receiver, counts = Ownership(), EventReceiver(), Counts()
    cluster = ClusterOptions("127.0.0.1:1")
    assignment = Assignment(
        cast(AIOKafkaConsumer, Reader()), ownership, ownership.assign([("orders", 0)]), options,
        Pauses(), counts, receiver.wake, receiver.give_up,
        failures or Failures(cluster, options.retries, "test"), None,
    )  # fmt: skip
    (partition,) = assignment.partitions.values()
    partition.take(cast(Any, [Read(0, b"a"), Read(1, b"b")]))
    return assignment, receiver, counts


async def test_whatever_keeps_an_event_from_the_dead_letters_stops_the_consumer() -> None:
    retries = Retries(attempts=1, then="dead-letter", dead_letter="dead")
    broken = Broken(ClusterOptions("127.0.0.1:1"), retries, "test")
    assignment, receiver, _ = assignment_of(ConsumerOptions(retries=retries), broken)
    received = assignment.next()
    assert received is not None
    received.failed("no such customer")
    await eventually(lambda: receiver.error is not None)
    assert isinstance(receiver.error, GaveUpError)
    assert assignment._idle.is_set()


@pytest.mark.parametrize("then", ["skip", "stop", "dead-letter"])
async def test_what_ends_after_its_term_is_somebody_else_s(then: Any) -> None:
    dead = "dead" if then == "dead-letter" else None
    retries = Retries(attempts=1, then=then, dead_letter=dead)
    assignment, receiver, counts = assignment_of(ConsumerOptions(drain_s=0.01, retries=retries))
    one, other = assignment.next(), assignment.next()
    assert one is not None
    assert other is not None
    cast(Any, assignment._consumer)._coordinator = Coordinator(asked=9)
    assignment._offsets.begin()
    await assignment.end()
    one.done()
    other.failed("too late")
    assert receiver.error is None
    assert not assignment._tasks._tasks, "nobody would end them any more"
    assert (counts.processed, counts.skipped, counts.stale_done) == (0, 0, 2)


class Coordinator:
    """Takes no commit of a topic that is not there."""

    generation, member_id = 1, "test-1"

    def __init__(self, asked: int = 0) -> None:
        self.asked = asked

    async def ensure_coordinator_known(self) -> None: ...

    async def _do_commit_offsets(self, assignment: None, offsets: Any) -> None:
        self.asked += 1
        if self.asked < 3:
            raise UnknownTopicOrPartitionError


async def test_a_commit_does_not_wait_for_a_deleted_topic_to_come_back() -> None:
    """The one that comes is another, and commits of other topics would wait with it."""
    assignment, _, counts = assignment_of(ConsumerOptions())
    coordinator = Coordinator()
    cast(Any, assignment._consumer)._coordinator = coordinator
    assignment._offsets.begin()
    await assignment.commit()
    assert coordinator.asked == 1
    assert counts.commit_errors == 1


async def test_a_member_that_ends_by_an_error_ends_the_iteration() -> None:
    class NoMember(Membership):
        async def hold(self, topics: Iterable[str], stop: asyncio.Event) -> None:
            raise ValueError("nobody thought of that")

    consumer = Consumer("orders", group="g", bootstrap="127.0.0.1:1")
    consumer._membership = NoMember(ClusterOptions("127.0.0.1:1"), "g", MemberOptions(), consumer)
    async with consumer, asyncio.timeout(20):
        with pytest.raises(ValueError, match="nobody thought"):
            await anext(consumer)
