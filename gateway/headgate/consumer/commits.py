"""Commits what is done of each partition, in its own term of ownership, and never backwards.

aiokafka's `commit` reads member id and generation whenever it sends, also when it sends again. A
member that the group has given up for dead has neither for a moment, and without them a broker
takes any commit as long as the group is empty: that of a process that stood still, after its heirs
have gone. So each request is sent here, with the generation of the assignment or not at all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.consumer.options import ConsumerOptions, Counts
from headgate.consumer.ownership import Ownership
from headgate.consumer.partition import OwnedPartition
from headgate.core.groups.facts import CommitNote, Committer, read_note
from headgate.kafka.wire import any_node, read_metadata

# Where a consumer's offsets are, when they are not (only) the group's.


Place: TypeAlias = tuple[str, int]  # topic, partition


class OffsetStore(Protocol):
    """Such as `SqlOffsets`. An OSError of either is tried again."""

    async def check_topics(self, ids: Mapping[str, str]) -> None:
        """Raises PositionError where the offsets kept are those of another topic of that name.

        ids: in hex, of assigned topics. Called before `positions`, and before each `advance`.
        """
        ...

    async def positions(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """The next offset of those places that have one; called when they are assigned."""
        ...

    async def advance(self, marks: Mapping[Place, int]) -> None:
        """Everything below these offsets is done; called before the group's commit."""
        ...


class PositionError(Exception):
    """The offset that is to be read next is not one of this log: the topic is another one."""


async def seek(consumer: AIOKafkaConsumer, positions: Mapping[Place, int]) -> None:
    """Go to these positions. Raises PositionError and KafkaError."""
    wanted = {TopicPartition(*place): offset for place, offset in positions.items()}
    ends = await consumer.end_offsets(list(wanted)) if wanted else {}
    for tp, offset in wanted.items():
        if offset > ends[tp]:
            raise PositionError(
                f"{tp.topic} partition {tp.partition} ends at {ends[tp]}, but its next offset is "
                f"{offset} by the offset store: was the topic deleted and made again? Then let "
                "the store forget it (SqlOffsets.forget)"
            )
        consumer.seek(tp, offset)


# Whether topics are still those whose offsets are kept elsewhere: by their ids, not their names.
#
# A topic that was deleted and recreated starts again at offset 0. The group's own offsets go with a
# deleted topic; those in a database stay, and its next events would pass for done.


class TopicIds:
    """Of the topics of one assignment. store: None where the group alone keeps offsets."""

    def __init__(
        self, consumer: AIOKafkaConsumer, topics: Iterable[str], store: OffsetStore | None
    ) -> None:
        self._consumer = consumer
        self._topics = sorted(set(topics))
        self._store = store

    async def check(self) -> None:
        """Raises PositionError where the offsets are another topic's; KafkaError; OSError."""
        if self._store is None or not self._topics:
            return
        client = self._consumer._client
        topics = (await read_metadata(client, any_node(client), self._topics)).topics
        there = {name: one.topic_id.hex() for name, one in topics.items() if any(one.topic_id)}
        await self._store.check_topics(there)


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


# Where an assignment begins to read, and what behind that is done already.
#
# Private part of aiokafka 0.14: `_coordinator.fetch_committed_offsets`, as the public call gives no
# metadata. The position is set from the same answer, so that it and the note belong together.


_RETRY_S = 0.5


async def go_to_starts(
    consumer: AIOKafkaConsumer,
    tps: Iterable[TopicPartition],
    store: OffsetStore | None,
    topic_ids: TopicIds,
) -> dict[TopicPartition, int]:
    """Set the positions, from the store where it has one, else from what the group committed.

    Returns, where the group knows it, below which offset all events are done (`CommitNote`). What
    the store says needs no such note: it knows of each event whether it is done. Raises
    PositionError, and whatever else waiting does not help.
    """
    every = list(tps)
    while True:
        try:
            await topic_ids.check()
            stored: Mapping[tuple[str, int], int] = {}
            if store is not None:
                stored = await store.positions((tp.topic, tp.partition) for tp in every)
                await seek(consumer, stored)
            rest = [tp for tp in every if (tp.topic, tp.partition) not in stored]
            return await _follow_the_group(consumer, rest)
        except (KafkaError, OSError) as error:
            log.warning("starting positions are not available yet: %r", error)
            await asyncio.sleep(_RETRY_S)


async def _follow_the_group(
    consumer: AIOKafkaConsumer, tps: list[TopicPartition]
) -> dict[TopicPartition, int]:
    found = await consumer._coordinator.fetch_committed_offsets(tps)
    for tp, committed in found.items():
        consumer.seek(tp, committed.offset)
    noted = dict(_notes(found))
    ends = await consumer.end_offsets(list(noted)) if noted else {}
    for tp in [tp for tp, below in noted.items() if below > ends[tp]]:
        # The log was cut off, as by an unclean election: what comes there now is not what was done.
        log.warning(
            "%s ends at offset %d, but its committed offset is %d", tp, ends[tp], noted.pop(tp)
        )
    return noted


def _notes(
    found: Mapping[TopicPartition, OffsetAndMetadata],
) -> Iterable[tuple[TopicPartition, int]]:
    for tp, committed in found.items():
        note = read_note(committed.metadata or "")
        if note is not None and note.done_below is not None:
            yield tp, note.done_below
