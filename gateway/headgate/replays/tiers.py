"""The gateway's backfill clusters: their configuration, their registries and their offset maps.

Both are compacted topics that are read when a request needs them. The registry of replays is read
by every gateway and changed by one at a time: a change is a transaction whose id all gateways
share. The gateway that begins one ends those of others, reads the log to its end, decides, and
writes. So no two gateways decide from the same state, and a change is written wholly or not at all.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

from headgate.config.settings import Settings
from headgate.errors_in_words import connection_error
from headgate.kafka.logs import CompactedTopic, NoTopicError
from headgate.kafka.options import ClusterOptions, cluster_options
from headgate.kafka.topics import READ_ERRORS, kafka_in_words
from headgate.kafka.transactions import TransactionalProducer, TransactionError
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.model.policy import PolicyTable
from headgate.model.publish import Record
from headgate.model.route import replay_too_large
from headgate.model.text import closest
from headgate.model.topics import is_glob
from headgate.replays.offset_map import (
    MAP_TOPIC,
    NewerMapError,
    PartitionMap,
    map_partition,
    owner_of,
    read_entry,
)
from headgate.replays.packed import MapError
from headgate.replays.registry import REGISTRY_TOPIC, Registry, TooLargeError, wanted_record
from headgate.replays.spec import FieldError

log = logging.getLogger("headgate.replays")

API_ID = "headgate.replays.api"
MAX_BYTES = 64_000_000  # some 16 million segments
_EMPTY_BYTES = 1_800  # of a map without segments
_ANSWER_S = 45.0  # a transaction of a runner that died is aborted after 30 s
_FRESH_S = 0.5
_ATTEMPTS = 6
_START_S = 40.0  # the transaction of a gateway that died is ended first
_WANT_S = 5.0
# The registry's batches. They fit Kafka's default of max.message.bytes (1,048,588) with some room.
_BATCH_BYTES = 950_000

Pair = tuple[bytes, bytes | None]


@asynccontextmanager
async def asking(cluster: str) -> AsyncIterator[None]:
    """Bound the time of requests to a cluster, and turn their errors into refusals.

    Raises:
        Refused: The cluster does not answer, or the offset map or a record is out of bounds.
    """
    try:
        async with asyncio.timeout(_ANSWER_S):
            yield
    except (*READ_ERRORS, TransactionError) as error:
        log.warning(
            "cluster %s does not answer: %s",
            cluster,
            connection_error(error),
            extra={"cluster": cluster},
        )
        cause = error.__cause__ or error if isinstance(error, TransactionError) else error
        detail = f"cluster {cluster} does not answer: {kafka_in_words(cause, cluster)}"
        raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=5)) from error
    except NewerMapError as error:
        log.warning("%s", error)
        raise Refused(Failure(Reason.NOT_COVERED, str(error))) from error
    except TooLargeError as error:
        raise Refused(replay_too_large(str(error))) from error


@contextmanager
def reading() -> Iterator[None]:
    """Turn the errors of a request's fields into refusals. Raises Refused."""
    try:
        yield
    except FieldError as error:
        figures = {"field": error.field} if error.field else None
        raise Refused(Failure(Reason.MALFORMED, str(error), figures)) from error


class RegistryChange:
    """An open transaction on a registry: its records are written together."""

    def __init__(self, registry: Registry, producer: TransactionalProducer) -> None:
        self.registry = registry
        self._producer = producer
        self.is_empty = True

    async def put(self, pairs: Iterable[Pair]) -> None:
        """Write registry records."""
        now_ms = int(time.time() * 1000)
        records = [Record(REGISTRY_TOPIC, 0, key, value, [], now_ms) for key, value in pairs]
        await self._begin()
        await self._producer.append(records)

    async def commit_offsets(
        self, group: str, topic: str, offsets: dict[int, int], text: str
    ) -> None:
        """Set a group's offsets, with `text` as their metadata."""
        await self._begin()
        for partition, offset in offsets.items():
            await self._producer.send_offset(group, TopicPartition(topic, partition), offset, text)

    async def _begin(self) -> None:
        if self.is_empty:
            await self._producer.begin()
            self.is_empty = False


Decide = Callable[[RegistryChange], Awaitable[None]]


class RegistryLog:
    """The registry of one backfill cluster; `last` is its state at the last read."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self.last = Registry()
        self._log = CompactedTopic(options, REGISTRY_TOPIC, self._see, self._restart)
        self._read_at = -_FRESH_S
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()

    async def read(self) -> Registry:
        """Return the registry, at most half a second old. Raises as `CompactedTopic.read_new`."""
        async with self._reading:
            if time.monotonic() - self._read_at > _FRESH_S:
                with suppress(NoTopicError):  # no replay was ever requested
                    await self._log.read_new([0])
                self._read_at = time.monotonic()
        return self.last

    async def change(self, decide: Decide) -> Registry:
        """Change the registry in one transaction.

        Changes of this process wait for one another; only those of other gateways are ended.

        Args:
            decide: Reads the current registry and puts records. It is called again if another
                gateway changed the registry meanwhile. Its exception ends the change unwritten.

        Raises:
            TransactionError: Kafka refuses the change; and as `read`.
        """
        async with self._changing:
            for attempt in range(_ATTEMPTS):
                try:
                    await self._attempt(decide)
                    break
                except TransactionError as error:
                    # A failed commit may have been written: then `decide` finds the change.
                    is_final = error.is_refusal and not error.is_fenced
                    if is_final or attempt + 1 == _ATTEMPTS:
                        raise
                    await asyncio.sleep(random.uniform(0, 0.1 * 2**attempt))
        return self.last

    async def want(self, topic: str, ends: Mapping[int, int]) -> None:
        """Ask the mirror to copy partitions up to these offsets before its next interval."""

        async def decide(change: RegistryChange) -> None:
            await change.put([wanted_record(topic, ends)])

        # The mirror copies at its interval in any case.
        with suppress(TransactionError, NoTopicError, TimeoutError):
            async with asyncio.timeout(_WANT_S):
                await self.change(decide)

    async def _attempt(self, decide: Decide) -> None:
        producer = TransactionalProducer(self._options, API_ID, _BATCH_BYTES)
        try:
            await producer.start(_START_S)
            await self._read_all()
            change = RegistryChange(self.last, producer)
            await decide(change)
            if not change.is_empty:
                await producer.commit()
                await self._read_all()
        finally:
            await producer.drop()

    async def _read_all(self) -> None:
        async with self._reading:
            await self._log.read_new([0], past_open=True)
            self._read_at = time.monotonic()

    def _see(self, _partition: int, key: bytes | None, value: bytes | None) -> None:
        self.last.see(key, value)

    def _restart(self, _partition: int) -> None:
        self.last = Registry()


class OffsetMaps:
    """Offset maps of one backfill cluster, by topic and partition.

    Only requested maps are kept, packed. The least recently used are evicted first, and are read
    again when a request needs them. Each partition of the map topic is read once, and then only its
    new records; for another topic of the same map partition it is read again.

    Args:
        options: Connection of the cluster.
        max_bytes: Memory of all maps; those of the last request stay.

    Attributes:
        lock: To be held while another thread uses maps: it keeps them from changing.
        unread: Number of records that are not the mirror's.
    """

    def __init__(self, options: ClusterOptions, max_bytes: int = MAX_BYTES) -> None:
        self._log = CompactedTopic(options, MAP_TOPIC, self._see, self._restart)
        self._maps: OrderedDict[tuple[str, int], PartitionMap] = OrderedDict()
        self._max_bytes = max_bytes
        self.lock = asyncio.Lock()
        self.unread = 0

    def __len__(self) -> int:
        return len(self._maps)

    async def of(self, topic: str, partitions: Iterable[int]) -> Mapping[int, PartitionMap]:
        """Return the newest maps of these partitions.

        Raises:
            NewerMapError: A later version wrote a map; and as `CompactedTopic.read_new`.
        """
        owners = [(topic, partition) for partition in partitions]
        async with self.lock:
            for owner in owners:
                if owner not in self._maps:
                    self._maps[owner] = PartitionMap()
                    self._log.forget(map_partition(*owner))
            with suppress(NoTopicError):  # nothing was ever mirrored
                await self._log.read_new({map_partition(*owner) for owner in owners})
            for owner in owners:
                self._maps.move_to_end(owner)
            maps = {partition: self._maps[topic, partition] for _, partition in owners}
            self._evict(len(owners))
        for partition, partition_map in maps.items():
            if partition_map.is_newer:
                raise NewerMapError(topic, partition)
        return maps

    def _see(self, _partition: int, key: bytes | None, value: bytes | None) -> None:
        owner = owner_of(key)
        partition_map = None if owner is None else self._maps.get(owner)
        if owner is not None and partition_map is None:
            return
        try:
            entry = read_entry(key, value)
            if entry is not None and partition_map is not None:
                partition_map.apply(entry)
        except NewerMapError:
            if partition_map is not None:
                partition_map.is_newer = True
        except MapError:
            self.unread += 1

    def _restart(self, partition: int) -> None:
        for owner in self._maps:
            if map_partition(*owner) == partition:
                self._maps[owner] = PartitionMap()

    def _evict(self, minimum: int) -> None:
        kept = sum(map(_size, self._maps.values()))
        while kept > self._max_bytes and len(self._maps) > minimum:
            _, evicted = self._maps.popitem(last=False)
            kept -= _size(evicted)


def _size(partition_map: PartitionMap) -> int:
    return _EMPTY_BYTES + sum(table.memory for _, table in partition_map.tables())


class Tiers(NamedTuple):
    """A topic's two clusters, by name and with their connections."""

    topic: str
    ingest: str
    backfill: str
    ingest_options: ClusterOptions
    backfill_options: ClusterOptions

    @property
    def servers(self) -> str:
        """Return the backfill cluster's bootstrap servers, for consumers."""
        return self.backfill_options.bootstrap_servers


class Registries(NamedTuple):
    """The registries that were read, by cluster, and the clusters that refused."""

    answered: Sequence[tuple[str, Registry]]
    refused: Sequence[tuple[str, Refused]]

    def unavailable(self) -> list[dict[str, Any]]:
        """Return the clusters that did not answer, as JSON."""
        return [{"cluster": name, "why": why.failure.detail} for name, why in self.refused]


class SecondTiers:
    """All backfill clusters. Registries and maps are created by their first request.

    Args:
        settings: Returns the settings in force: topics change at a reload.
    """

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._logs: dict[str, RegistryLog] = {}
        self._maps: dict[str, OffsetMaps] = {}

    def backfills(self) -> list[str]:
        """Return the backfill clusters that ingest clusters name."""
        clusters = self._settings().clusters.values()
        return sorted({cluster.backfill for cluster in clusters if cluster.backfill is not None})

    def ingests(self) -> dict[str, str]:
        """Return the ingest clusters that have a backfill tier, each with its backfill cluster."""
        clusters = sorted(self._settings().clusters.items())
        return {name: each.backfill for name, each in clusters if each.backfill is not None}

    def options(self, cluster: str) -> ClusterOptions:
        """Return the connection of a cluster."""
        return cluster_options(self._settings().clusters[cluster])

    def of(self, topic: str) -> Tiers:
        """Return a topic's tiers.

        Raises:
            Refused: No policy matches the topic, or its cluster has no backfill tier.
        """
        settings = self._settings()
        policy = PolicyTable(settings.topics).match(topic)
        if policy is None:
            named = (each.pattern for each in settings.topics if not is_glob(each.pattern))
            detail = f"no topic {brief(topic)} is served here. {closest(topic, named)}"
            raise Refused(Failure(Reason.UNKNOWN_TOPIC, detail.removesuffix(". ")))
        ingest = policy.cluster
        backfill = settings.clusters[ingest].backfill
        if backfill is None:
            detail = f"topic {brief(topic)} has no backfill tier: set clusters.{ingest}.backfill"
            raise Refused(Failure(Reason.NOT_COVERED, detail))
        return Tiers(topic, ingest, backfill, self.options(ingest), self.options(backfill))

    def log(self, backfill: str) -> RegistryLog:
        """Return the registry of a backfill cluster."""
        if backfill not in self._logs:
            self._logs[backfill] = RegistryLog(self.options(backfill))
        return self._logs[backfill]

    def maps(self, backfill: str) -> OffsetMaps:
        """Return the offset maps of a backfill cluster."""
        if backfill not in self._maps:
            self._maps[backfill] = OffsetMaps(self.options(backfill))
        return self._maps[backfill]

    def likely(self, replay_id: str) -> list[str]:
        """Return the backfill clusters, the most likely one for a replay first.

        That is the cluster whose registry had the replay at the last read. Then the request may not
        depend on the others' answers.
        """
        return sorted(
            self.backfills(), key=lambda backfill: self.log(backfill).last.get(replay_id) is None
        )

    async def registries(self) -> Registries:
        """Read all registries at once, since a cluster that hangs takes its whole timeout.

        Raises:
            Refused: There are backfill clusters, and none answers.
        """

        async def read(backfill: str) -> tuple[str, Registry | Refused]:
            try:
                async with asking(backfill):
                    return backfill, await self.log(backfill).read()
            except Refused as refusal:
                return backfill, refusal

        answers = await asyncio.gather(*map(read, self.backfills()))
        registries = [(name, each) for name, each in answers if isinstance(each, Registry)]
        refused = [(name, each) for name, each in answers if isinstance(each, Refused)]
        if refused and not registries:
            raise refused[0][1]
        return Registries(registries, refused)
