"""Commits what is done of each partition, in its own term of ownership, and never backwards.

aiokafka's `commit` reads member id and generation whenever it sends, also when it sends again. A
member that the group has given up for dead has neither for a moment, and without them a broker
takes any commit as long as the group is empty: that of a process that stood still, after its heirs
have gone. So each request is sent here, with the generation of the shift or not at all.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.consumer.offset_store import OffsetStore, PositionError
from headgate.consumer.options import ConsumerOptions, Counts
from headgate.consumer.owned_partition import OwnedPartition
from headgate.consumer.topic_ids import TopicIds
from headgate.core.ownership import Ownership

log = logging.getLogger(__name__)

_AGAIN_S = 0.1


class Commits:
    """One shift's. One commit is under way at a time."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        ownership: Ownership,
        partitions: Mapping[TopicPartition, OwnedPartition],
        options: ConsumerOptions,
        counts: Counts,
        store: OffsetStore | None,
        topic_ids: TopicIds,
        give_up: Callable[[BaseException], None],
    ) -> None:
        self._consumer = consumer
        self._ownership = ownership
        self._partitions = partitions
        self._options = options
        self._counts = counts
        self._store = store
        self._topic_ids = topic_ids
        self._give_up = give_up
        self._is_over = False  # the topic is another: nothing that was done is of it
        self._committed: dict[TopicPartition, int] = {}
        self._one_at_a_time = asyncio.Lock()
        self._generation: tuple[int, str] | None = None

    def begin(self) -> None:
        """The shift begins, in the group's present generation."""
        self._generation = self._present_generation()

    def _present_generation(self) -> tuple[int, str]:
        coordinator = self._consumer._coordinator
        return coordinator.generation, coordinator.member_id

    async def run(self) -> None:
        """Commit at every interval."""
        while True:
            await asyncio.sleep(self._options.commit_interval_s)
            await self.commit()

    async def commit(self) -> None:
        """Commit every partition's low-water mark, if it moved. Errors are counted and logged."""
        async with self._one_at_a_time:
            if self._is_over:
                return
            try:
                await self._topic_ids.check()
                offsets = self._to_commit()
                if not offsets:
                    return
                if self._store is not None:
                    marks = {(tp.topic, tp.partition): to for tp, to in offsets.items()}
                    await self._store.advance(marks)
                is_sent = await self._send(offsets)
            except (KafkaError, OSError) as error:  # the next one covers more
                self._counts.commit_errors += 1
                log.warning("offsets were not committed: %r", error)
                return
            except PositionError as error:
                self._is_over = True
                self._give_up(error)
                return
            for tp, offset in offsets.items() if is_sent else ():
                self._note(tp, offset)

    async def _send(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """False: this member's generation is over, and nothing was sent."""
        coordinator = self._consumer._coordinator
        commits = {tp: OffsetAndMetadata(to, self._metadata(tp)) for tp, to in offsets.items()}
        while True:
            await coordinator.ensure_coordinator_known()
            if self._present_generation() != self._generation:
                self._counts.stale_commits += len(offsets)
                return False
            try:
                # Not one await between the look at the generation and the request with it.
                await coordinator._do_commit_offsets(None, commits)
            except KafkaError as error:
                # Of a deleted topic there is nothing to wait for: one that comes is another.
                if not error.retriable or isinstance(error, UnknownTopicOrPartitionError):
                    raise
                await asyncio.sleep(_AGAIN_S)
            else:
                return True

    def _note(self, tp: TopicPartition, offset: int) -> None:
        partition = self._partitions[tp]
        self._counts.committed += offset - self._committed.get(tp, partition.progress.first)
        self._committed[tp] = offset
        self._ownership.committed(partition.owned, offset)

    def _to_commit(self) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for tp, partition in self._partitions.items():
            mark = partition.low_water
            if mark is None or mark == self._committed.get(tp):
                continue
            if not self._ownership.is_current(partition.owned):
                self._counts.stale_commits += 1
            elif self._ownership.may_commit(partition.owned, mark):
                offsets[tp] = mark
            else:
                self._counts.regressions_prevented += 1
        return offsets

    def _metadata(self, tp: TopicPartition) -> str:
        """Who commits, so that a monitor can say it: aiokafka has no public member id."""
        member = self._consumer._coordinator.member_id
        term = self._partitions[tp].owned.term
        who = {"member": member, "client": self._options.client_id, "term": term}
        return json.dumps(who, separators=(",", ":"))
