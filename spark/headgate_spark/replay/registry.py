"""The runner's producer and its reader of the registry.

Copied records and the status of their replay are written in one transaction.

The transactional id is the runner's lease: the process that started it last is the runner, and the
open transaction of an older one is undone. After any error the producer is dropped: the registry
shows the committed state.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiokafka.errors import (
    InvalidTimestampError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer, drop_producer
from headgate.model.record import REPLAY_ID
from headgate.replays.registry import REGISTRY_TOPIC, Registry
from headgate_spark.copying.batches import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    SourceRecord,
    is_fenced,
    open_producer,
    send,
    send_records,
)
from headgate_spark.copying.cluster import CLIENT_ERRORS, id_of, open_consumer
from headgate_spark.job.command_line import JobError, SayingError, in_words
from headgate_spark.job.options import Connection

LEASE_ID = "headgate.replay.runner"
_MAX_BATCH_BYTES = 950_000  # as in replays/tiers.py, which writes the same registry
_TRIES, _PAUSE_S = 3, 1.0
_REFUSALS = (InvalidTimestampError, MessageSizeTooLargeError, TopicAuthorizationFailedError)

Pair = tuple[bytes, bytes | None]


class RefusedError(SayingError):
    """Kafka refuses the records. None of them was written.

    aiokafka counts their sequence numbers nevertheless. So once the partition takes records again,
    Kafka answers that a number is out of order, and the runner takes its lease anew.
    """


class LeaseError(SayingError):
    """A write failed, or its end is unknown. is_lost: another runner has the lease."""

    def __init__(self, text: str, *, is_lost: bool) -> None:
        super().__init__(text)
        self.is_lost = is_lost


class ReplayWriter:
    """Writes one transaction at a time, in the order of the calls.

    Every call but `drop` raises LeaseError, and does so ever after.
    """

    def __init__(self, connection: Connection) -> None:
        self._cluster = connection.name
        self._inner = open_producer(connection, LEASE_ID, _MAX_BATCH_BYTES)
        self._turn = asyncio.Lock()
        self._error: LeaseError | None = None

    async def start(self) -> None:
        """Take the lease. Afterwards no older runner can commit."""
        async with self._translated(START_TIMEOUT_S):
            await self._inner.start()

    async def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[SourceRecord],
        replay_id: str,
        status_records: Callable[[int | None], Sequence[Pair]],
    ) -> None:
        """Write one transaction: records to one partition, then registry records.

        Args:
            topic: The replay's topic.
            partition: Its partition.
            records: May be empty.
            replay_id: Written as a header of each record.
            status_records: Makes the registry records. Its argument is the offset behind the last
                record; None without records.

        Raises:
            RefusedError: Kafka refuses a record.
        """
        marks = [(REPLAY_ID, replay_id.encode())]
        async with self._turn:
            if self._error is not None:
                raise self._error
            async with self._translated(STEP_TIMEOUT_S):
                await self._inner.begin_transaction()
                try:
                    written = await send_records(self._inner, topic, partition, records, marks)
                except _REFUSALS as error:
                    await self._inner.abort_transaction()
                    why = f"topic {topic} does not take a record: {in_words(error)}"
                    raise RefusedError(f"cluster {self._cluster}: {why}") from error
                await self._put(status_records(written[-1].end if written else None))
            async with self._translated(STEP_TIMEOUT_S):
                await self._inner.commit_transaction()

    async def write_status(self, pairs: Sequence[Pair]) -> None:
        """Write one transaction with registry records only."""
        await self.write(REGISTRY_TOPIC, 0, (), "", lambda _: pairs)

    async def lacks(self, topic: str, wanted: str | None) -> bool:
        """Return whether a topic was deleted or has another id than `wanted`, if that is given.

        Raises:
            JobError: A node does not answer; the lease is not affected.
        """
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                for number in range(_TRIES):  # a node may not know a new topic yet
                    await asyncio.sleep(_PAUSE_S if number else 0.0)
                    topic_id = await id_of(self._inner.client, topic)
                    if topic_id is not None and wanted in (None, topic_id):
                        return False
        except CLIENT_ERRORS as error:
            raise JobError(f"cluster {self._cluster}: topic {topic}: {in_words(error)}") from error
        return True

    async def drop(self) -> None:
        """Close the producer at once."""
        await drop_producer(self._inner)

    async def _put(self, pairs: Sequence[Pair]) -> None:
        waiting = []
        for key, value in pairs:  # a batch each: a status may be large
            builder = self._inner.create_batch()
            builder.append(timestamp=None, key=key, value=value)
            waiting.append(await send(self._inner, builder, REGISTRY_TOPIC, 0))
        for sent in waiting:
            await sent

    @asynccontextmanager
    async def _translated(self, within_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(within_s):
                yield
        except CLIENT_ERRORS as error:
            is_lost = is_fenced(self._inner, error)
            self._error = LeaseError(in_words(error), is_lost=is_lost)
            raise self._error from error


# ---- the reader of the registry


_PARTITION = TopicPartition(REGISTRY_TOPIC, 0)
_HIDDEN_S = 90.0  # an open transaction of a dead process hides the records behind it
_POLL_MS = 100


class RegistryReader:
    """The registry as the runner reads it: one consumer of committed records.

    Calls raise KafkaError, OSError or TimeoutError; then the reader is dropped and replaced.
    """

    def __init__(self, connection: Connection) -> None:
        self._inner = open_consumer(connection, fetch_max_wait_ms=_POLL_MS)
        self.registry = Registry()

    async def start(self) -> None:
        """Connect."""
        await self._inner.start()
        self._inner.assign([_PARTITION])
        begins = await self._inner.beginning_offsets([_PARTITION])
        self._inner.seek(_PARTITION, begins[_PARTITION])

    async def read_all(self) -> None:
        """Read to the current end of the log, past open transactions."""
        end: int | None = None
        async with asyncio.timeout(_HIDDEN_S):
            while end is None or await self._inner.position(_PARTITION) < end:
                await self.read_new(_POLL_MS)
                if end is None:
                    end = self._inner.highwater(_PARTITION)

    async def read_new(self, wait_ms: int = 0) -> None:
        """Read new records."""
        records = await self._inner.getmany(_PARTITION, timeout_ms=wait_ms)
        for record in records.get(_PARTITION, ()):
            self.registry.see(record.key, record.value)

    async def drop(self) -> None:
        """Close the consumer at once."""
        await drop_consumer(self._inner)
