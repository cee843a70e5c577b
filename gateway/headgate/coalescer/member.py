"""One process' part in one cluster: a member of the group, and the owners of its partitions."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from aiokafka import AIOKafkaConsumer

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.topics import READ_ERRORS
from headgate.backends.owned import OwnedTasks
from headgate.coalescer.owner import PartitionOwner
from headgate.consumer.membership import MemberOptions, Membership
from headgate.consumer.ownership import Owned

log = logging.getLogger("headgate.coalescer.member")

# A transaction takes 0.1 s; what takes longer is dropped, and done again by the next owner.
FINISH_S = 5.0
_DROP_S = 5.0
_RETRY_S = 2.0

NewOwner = Callable[[AIOKafkaConsumer, Owned, Callable[[], bool]], PartitionOwner]


class CoalescerMember:
    """See the module. owners: of this term."""

    def __init__(self, cluster: ClusterOptions, options: MemberOptions, new_owner: NewOwner):
        self.owners: list[PartitionOwner] = []
        self._cluster = cluster
        self._options = options
        self._new_owner = new_owner
        self._topics: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._is_closing = False
        self._tasks = OwnedTasks()
        self._membership = Membership(cluster, options, self)

    def want(self, topics: frozenset[str]) -> None:
        """Own partitions of these held topics from now on."""
        if topics != self._wanted:
            self._wanted = topics
            self._changed.set()

    def rejoin(self) -> None:
        """A topic was recreated, perhaps before the consumer saw that it was gone: it would go on
        at offsets that the new one does not have.
        """
        self._changed.set()

    def close(self) -> None:
        """Finish, and leave the group."""
        self._is_closing = True
        self._changed.set()

    async def run(self) -> None:
        """Be a member as long as there is a topic to own."""
        while not self._is_closing:
            self._changed.clear()
            if not self._wanted:
                await self._changed.wait()
                continue
            log.info("coalescer reads %s", ", ".join(sorted(self._wanted)))
            try:
                await self._membership.hold(self._wanted, self._changed)
            except READ_ERRORS as error:
                log.warning("coalescer rejoins its group: %r", error)
                await asyncio.sleep(_RETRY_S)

    # ---- membership.Holder

    def assigned(self, consumer: AIOKafkaConsumer, owned: Iterable[Owned]) -> None:
        """Begin to own; nothing of an earlier term is left (rule 3)."""
        ownership = self._membership.ownership
        for one in owned:
            owner = self._new_owner(consumer, one, partial(ownership.is_current, one))
            self.owners.append(owner)
            self._tasks.keep(owner.run, f"owner of {one.topic}-{one.partition}")

    async def ending(self) -> None:
        """Owners end after their terms: the guard of their transactions is the end itself."""

    async def revoked(self) -> None:
        """Let each owner finish its transaction, for a bounded time."""
        for owner in self.owners:
            owner.stop()
        await self._tasks.finish(FINISH_S)
        await self._tasks.end(_DROP_S)
        self.owners = []
