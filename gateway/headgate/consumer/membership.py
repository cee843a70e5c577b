"""A member of a consumer group: keeps a consumer, and begins and ends terms of ownership."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from headgate.consumer.options import MemberOptions
from headgate.consumer.ownership import Owned, Ownership
from headgate.errors_in_words import connection_error
from headgate.kafka.aiokafka_internals import (
    client_of,
    group_trouble,
    open_consumer,
    read_commits,
    stop_consumer,
)
from headgate.kafka.groups import READS_PAUSES
from headgate.kafka.options import ClusterOptions

log = logging.getLogger("headgate.consumer")

_START_S, _STOP_S, _WATCH_S, _RETRY_S = 30.0, 5.0, 0.5, 2.0
_METADATA_MS = 10_000  # time until a member without partitions notices new ones
_NEVER_MS = 86_400_000_000  # owners bound each of their steps; a member without work stays one


class Holder(Protocol):
    """The owner of the work on assigned partitions."""

    def assigned(self, consumer: AIOKafkaConsumer, owned: Iterable[Owned]) -> None:
        """Begin terms of ownership. The partitions are paused until their owner resumes them."""
        ...

    async def ending(self) -> None:
        """Do the last work of all terms, in bounded time: they are about to end."""
        ...

    async def revoked(self) -> None:
        """Finish work in flight, in bounded time: all terms have ended."""
        ...


class Membership:
    """One member of a group, for the time of a call of `hold`.

    Args:
        cluster: Options of the cluster.
        group: Id of the group.
        options: Options of the member.
        holder: Owner of the work.
        revoke_ms: Longest time of the holder to give up partitions; a rebalance waits that long.
        reads_pauses: Whether the holder reads pauses from a store; the group's description says so.
    """

    def __init__(
        self,
        cluster: ClusterOptions,
        group: str,
        options: MemberOptions,
        holder: Holder,
        revoke_ms: int = 10_000,
        *,
        reads_pauses: bool = False,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._options = options
        self._holder = holder
        self._revoke_ms = revoke_ms
        self._assignor = _PausesAssignor if reads_pauses else RoundRobinPartitionAssignor
        self.ownership = Ownership()
        self._is_leaving = False

    async def hold(self, topics: Iterable[str], stop: asyncio.Event) -> None:
        """Be a member for these topics until `stop`, or until the consumer cannot go on.

        Leaves the group at the end. Raises KafkaError, OSError or TimeoutError.
        """
        topics = list(topics)
        consumer = self._consumer()
        self._is_leaving = False
        try:
            async with asyncio.timeout(_START_S):
                await consumer.start()
            consumer.subscribe(topics, listener=_Listener(self, consumer))
            await _watch(consumer, topics, stop)
        finally:
            self._is_leaving = True
            try:
                await self.end_terms()
            finally:
                await _close(consumer)

    def _consumer(self) -> AIOKafkaConsumer:
        options = self._options
        return open_consumer(
            self._cluster,
            group_id=self._group,
            client_id=options.client_id,
            auto_offset_reset=options.auto_offset_reset,
            isolation_level="read_committed",
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            rebalance_timeout_ms=max(options.session_timeout_ms, self._revoke_ms, 10_000),
            max_poll_interval_ms=_NEVER_MS,
            max_partition_fetch_bytes=options.max_partition_fetch_bytes,
            fetch_max_wait_ms=250,
            metadata_max_age_ms=_METADATA_MS,
            partition_assignment_strategy=(self._assignor,),
        )

    def begin_terms(self, consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
        """Begin the group's new assignment, with all partitions paused.

        After an await it is too late (docs/design/measured.md#pauses-end-with-a-rebalance).
        """
        tps = list(partitions)
        consumer.pause(*tps)
        if self._is_leaving:  # a rebalance ended while the last terms did
            return
        owned = self.ownership.assign((tp.topic, tp.partition) for tp in tps)
        self._holder.assigned(consumer, owned)

    async def end_terms(self) -> None:
        """End all terms of ownership."""
        await self._holder.ending()
        self.ownership.revoke_all()
        await self._holder.revoked()


class _PausesAssignor(RoundRobinPartitionAssignor):  # type: ignore[misc]
    """Assigns like its base, and marks the member as one that reads pauses."""

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> Any:
        metadata = super().metadata(topics)
        metadata.user_data = READS_PAUSES
        return metadata


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, membership: Membership, consumer: AIOKafkaConsumer) -> None:
        self._membership = membership
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._membership.begin_terms(self._consumer, assigned)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._membership.end_terms()


async def committed(consumer: AIOKafkaConsumer, tp: TopicPartition) -> tuple[int, str]:
    """Return the group's offset (-1: none) and its metadata. Raises KafkaError."""
    commit = (await read_commits(consumer, [tp])).get(tp)
    return (-1, "") if commit is None else (commit.offset, commit.metadata or "")


async def _watch(consumer: AIOKafkaConsumer, topics: list[str], stop: asyncio.Event) -> None:
    """Watch the consumer until `stop`. Raises KafkaError if it cannot go on."""
    client = client_of(consumer)
    while not stop.is_set():
        # A topic that is not there, or not again yet: aiokafka would look in five minutes.
        if not all(client.cluster.partitions_for_topic(topic) for topic in topics):
            client.force_metadata_update()
        trouble = group_trouble(consumer)
        if trouble is not None:
            raise KafkaError(trouble)
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_S):
                await stop.wait()


async def _close(consumer: AIOKafkaConsumer) -> None:
    """Leave the group if Kafka answers in time, and drop the connections in any case."""
    error = await stop_consumer(consumer, _STOP_S)
    if error is not None:
        why = connection_error(error)
        log.warning("consumer dropped without leaving its group: %s", why)
