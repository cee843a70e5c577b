"""Commits what is done of each partition, in its own term of ownership, and never backwards.

aiokafka's `commit` reads member id and generation whenever it sends, also when it sends again. A
member that the group has given up for dead has neither for a moment, and without them a broker
takes any commit as long as the group is empty: that of a process that stood still, after its heirs
have gone. So each request is sent here, with the generation of the assignment or not at all.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.consumer.offset_store import OffsetStore, PositionError
from headgate.consumer.options import ConsumerOptions, Counts
from headgate.consumer.owned_partition import OwnedPartition
from headgate.consumer.topic_ids import TopicIds
from headgate.core.consuming.commit_note import CommitNote, Committer
from headgate.core.consuming.ownership import Ownership

log = logging.getLogger("headgate.consumer.commits")

_AGAIN_S = 0.1


class CommitMark(NamedTuple):
    """What there is to commit of a partition. done_below: see `CommitNote`."""

    offset: int
    done_below: int


class Commits:
    """One assignment's. One commit is in flight at a time."""

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
        self._committed: dict[TopicPartition, CommitMark] = {}
        self._one_at_a_time = asyncio.Lock()
        self._generation: tuple[int, str] | None = None

    def begin(self) -> None:
        """The assignment begins, in the group's present generation."""
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
        """Commit how far every partition is done, if that moved. Errors are counted and logged."""
        async with self._one_at_a_time:
            if self._is_over:
                return
            try:
                await self._topic_ids.check()
                marks = self._to_commit()
                if not marks:
                    return
                if self._store is not None:
                    offsets = {(tp.topic, tp.partition): to.offset for tp, to in marks.items()}
                    await self._store.advance(offsets)
                is_sent = await self._send(marks)
            except (KafkaError, OSError) as error:  # the next one covers more
                self._counts.commit_errors += 1
                log.warning("offsets were not committed: %r", error)
                return
            except PositionError as error:
                self._is_over = True
                self._give_up(error)
                return
            for tp, mark in marks.items() if is_sent else ():
                self._note(tp, mark)

    async def _send(self, marks: Mapping[TopicPartition, CommitMark]) -> bool:
        """False: this member's generation is over, and nothing was sent."""
        coordinator = self._consumer._coordinator
        commits = {
            tp: OffsetAndMetadata(to.offset, self._metadata(tp, to)) for tp, to in marks.items()
        }
        while True:
            await coordinator.ensure_coordinator_known()
            if self._present_generation() != self._generation:
                self._counts.stale_commits += len(marks)
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

    def _note(self, tp: TopicPartition, mark: CommitMark) -> None:
        partition, before = self._partitions[tp], self._committed.get(tp)
        since = partition.progress.first if before is None else before.offset
        self._counts.committed += mark.offset - since
        self._committed[tp] = mark
        self._ownership.committed(partition.owned, mark.offset)

    def _to_commit(self) -> dict[TopicPartition, CommitMark]:
        marks: dict[TopicPartition, CommitMark] = {}
        for tp, partition in self._partitions.items():
            offset = partition.low_water
            if offset is None:
                continue
            mark = CommitMark(offset, partition.done_below)
            if mark == self._committed.get(tp):
                continue
            if not self._ownership.is_current(partition.owned):
                self._counts.stale_commits += 1
            elif self._ownership.may_commit(partition.owned, offset):
                marks[tp] = mark
            else:
                self._counts.regressions_prevented += 1
        return marks

    def _metadata(self, tp: TopicPartition, mark: CommitMark) -> str:
        """What a monitor and the next owner are told; aiokafka has no public member id."""
        member = self._consumer._coordinator.member_id
        committer = Committer(member, self._options.client_id, self._partitions[tp].owned.term)
        reaches_further = mark.done_below > mark.offset
        return CommitNote(committer, mark.done_below if reaches_further else None).text()
