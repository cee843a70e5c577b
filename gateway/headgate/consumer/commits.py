"""The offsets of an assignment: its starting positions, and its commits.

Each partition is committed in its own term of ownership, and never backwards. aiokafka's `commit`
reads member id and generation whenever it sends, also when it retries. A member that the group has
declared dead has neither for a moment, and without them a broker accepts any commit of an empty
group: also that of a process that was suspended, after its successors have left. So this module
sends each request itself, with the generation of the assignment or not at all.

Starting positions are set from the same answer as the note of a commit, so that both belong
together.
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
from headgate.errors_in_words import connection_error
from headgate.kafka.aiokafka_internals import (
    client_of,
    commit_once,
    find_coordinator,
    generation_of,
    read_commits,
)
from headgate.kafka.groups import CommitNote, Committer, read_note
from headgate.kafka.wire import any_node, read_metadata

log = logging.getLogger("headgate.consumer")

_AGAIN_S = 0.1
_RETRY_S = 0.5  # for reads of starting positions

Place: TypeAlias = tuple[str, int]  # topic, partition


class OffsetStore(Protocol):
    """A store of offsets, such as `SqlOffsets`. Calls that raise OSError are repeated."""

    async def check_topics(self, ids: Mapping[str, str]) -> None:
        """Raise PositionError if the stored offsets belong to another topic of the same name.

        It is called before `positions`, and before each `advance`.

        Args:
            ids: Ids of the assigned topics, in hexadecimal.
        """
        ...

    async def positions(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """Return the next offsets of assigned partitions that have one."""
        ...

    async def advance(self, marks: Mapping[Place, int]) -> None:
        """Store that all events below these offsets are done; called before the group's commit."""
        ...


class PositionError(Exception):
    """A next offset that does not belong to this log: the topic is another one."""


class CommitMark(NamedTuple):
    """The commit of one partition. For `done_below` see `CommitNote`."""

    offset: int
    done_below: int


class Offsets:
    """The offsets of one assignment. One commit is in flight at a time."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        ownership: Ownership,
        partitions: Mapping[TopicPartition, OwnedPartition],
        options: ConsumerOptions,
        counts: Counts,
        store: OffsetStore | None,
        give_up: Callable[[BaseException], None],
    ) -> None:
        self._consumer = consumer
        self._ownership = ownership
        self._partitions = partitions
        self._options = options
        self._counts = counts
        self._store = store
        self._give_up = give_up
        self._is_over = False  # the topic was recreated: no event that is done belongs to it
        self._committed: dict[TopicPartition, CommitMark] = {}
        self._one_at_a_time = asyncio.Lock()
        self._generation: tuple[int, str] | None = None

    def begin(self) -> None:
        """Note the group's present generation, in which the assignment begins."""
        self._generation = generation_of(self._consumer)

    async def _check_topics(self) -> None:
        """Check that the topics are still those whose offsets the store has: by their ids.

        A recreated topic starts again at offset 0. Kafka deletes the group's own offsets with a
        topic; those in a database stay, and events of the new topic would count as done.

        Raises:
            PositionError: The store's offsets are another topic's. Also KafkaError and OSError.
        """
        if self._store is None or not self._partitions:
            return
        client, names = client_of(self._consumer), sorted({tp.topic for tp in self._partitions})
        topics = (await read_metadata(client, any_node(client), names)).topics
        ids = {name: topic.topic_id.hex() for name, topic in topics.items() if any(topic.topic_id)}
        await self._store.check_topics(ids)

    # ---- starting positions

    async def go_to_starts(self) -> dict[TopicPartition, int]:
        """Set the starting positions: from the store if it has one, else from the group's commits.

        Returns:
            The offsets below which all events are done, as far as the group's notes have them
            (`CommitNote`). The store needs no note: it knows whether an event is done.

        Raises:
            PositionError: The store's offsets belong to another topic; and other errors that do
                not pass.
        """
        while True:
            try:
                await self._check_topics()
                stored: Mapping[Place, int] = {}
                if self._store is not None:
                    stored = await self._store.positions(
                        (tp.topic, tp.partition) for tp in self._partitions
                    )
                    await self._seek(stored)
                rest = [tp for tp in self._partitions if (tp.topic, tp.partition) not in stored]
                return await self._follow_the_group(rest)
            except (KafkaError, OSError) as error:
                log.warning("starting positions are not available yet: %s", connection_error(error))
                await asyncio.sleep(_RETRY_S)

    async def _seek(self, positions: Mapping[Place, int]) -> None:
        wanted = {TopicPartition(*pair): offset for pair, offset in positions.items()}
        ends = await self._consumer.end_offsets(list(wanted)) if wanted else {}
        for tp, offset in wanted.items():
            if offset > ends[tp]:
                raise PositionError(
                    f"{tp.topic} partition {tp.partition} ends at {ends[tp]}, but its next offset "
                    f"is {offset} by the offset store: was the topic deleted and made again? Then "
                    "let the store forget it (SqlOffsets.forget)"
                )
            self._consumer.seek(tp, offset)

    async def _follow_the_group(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        commits = await read_commits(self._consumer, tps)
        for tp, committed in commits.items():
            self._consumer.seek(tp, committed.offset)
        noted = dict(_notes(commits))
        ends = await self._consumer.end_offsets(list(noted)) if noted else {}
        for tp in [tp for tp, below in noted.items() if below > ends[tp]]:
            # The log was truncated, as by an unclean election: new records there are not done.
            log.warning(
                "%s ends at offset %d, but its committed offset is %d", tp, ends[tp], noted.pop(tp)
            )
        return noted

    # ---- commits

    async def run(self) -> None:
        """Commit at every interval."""
        while True:
            await asyncio.sleep(self._options.commit_interval_s)
            await self.commit()

    async def commit(self) -> None:
        """Commit the progress of every partition that has any. Errors are counted and logged."""
        async with self._one_at_a_time:
            if self._is_over:
                return
            try:
                await self._check_topics()
                marks = self._pending_marks()
                if not marks:
                    return
                if self._store is not None:
                    offsets = {(tp.topic, tp.partition): to.offset for tp, to in marks.items()}
                    await self._store.advance(offsets)
                is_sent = await self._send(marks)
            except (KafkaError, OSError) as error:  # the next one covers more
                self._counts.commit_errors += 1
                log.warning("offsets were not committed: %s", connection_error(error))
                return
            except PositionError as error:
                self._is_over = True
                self._give_up(error)
                return
            for tp, mark in marks.items() if is_sent else ():
                self._note(tp, mark)

    async def _send(self, marks: Mapping[TopicPartition, CommitMark]) -> bool:
        """Send a commit; False if this member's generation has ended, and nothing was sent."""
        commits = {
            tp: OffsetAndMetadata(to.offset, self._metadata(tp, to)) for tp, to in marks.items()
        }
        while True:
            await find_coordinator(self._consumer)
            if generation_of(self._consumer) != self._generation:
                self._counts.stale_commits += len(marks)
                return False
            try:
                # There must be no await between the check of the generation and this request.
                await commit_once(self._consumer, commits)
            except KafkaError as error:
                # A deleted topic needs no retry: a new topic of its name is another one.
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

    def _pending_marks(self) -> dict[TopicPartition, CommitMark]:
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
        """Return the note for a monitor and the next owner."""
        _, member = generation_of(self._consumer)
        committer = Committer(member, self._options.client_id, self._partitions[tp].owned.term)
        reaches_further = mark.done_below > mark.offset
        return CommitNote(committer, mark.done_below if reaches_further else None).text()


def _notes(
    commits: Mapping[TopicPartition, OffsetAndMetadata],
) -> Iterable[tuple[TopicPartition, int]]:
    for tp, committed in commits.items():
        note = read_note(committed.metadata or "")
        if note is not None and note.done_below is not None:
            yield tp, note.done_below
