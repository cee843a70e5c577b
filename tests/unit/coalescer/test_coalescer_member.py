"""A member of the coalescers' group: a partition that it owns always has somebody at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from aiokafka import AIOKafkaConsumer

from headgate.coalescer.coalescer import CoalescerMember
from headgate.coalescer.partition import PartitionOwner
from headgate.consumer.options import MemberOptions
from headgate.consumer.ownership import Owned
from headgate.kafka.options import ClusterOptions
from support.process.stack import eventually


class Clumsy:
    """An owner with a bug that shows once."""

    def __init__(self) -> None:
        self.lives = 0

    async def run(self) -> None:
        self.lives += 1
        if self.lives == 1:
            raise KeyError("a bug")

    def stop(self) -> None: ...


async def test_an_owner_that_ends_by_a_bug_begins_again() -> None:
    owner = Clumsy()

    def new_owner(_: AIOKafkaConsumer, __: Owned, ___: Callable[[], bool]) -> PartitionOwner:
        return cast(PartitionOwner, owner)

    member = CoalescerMember(ClusterOptions("127.0.0.1:1"), MemberOptions(), new_owner)
    member.assigned(cast(AIOKafkaConsumer, None), [Owned("headgate.held.deals", 0, 1)])
    await eventually(lambda: owner.lives == 2, 10)
    await member.revoked()
