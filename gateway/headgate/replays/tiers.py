"""Which backfill cluster belongs to a topic, as the configuration says now."""

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

from headgate.backends.kafka.compacted import CompactedTopic, NoTopicError
from headgate.backends.kafka.configured import cluster_options
from headgate.backends.kafka.in_words import kafka_in_words
from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.producing.transactions import TransactionalProducer, TransactionError
from headgate.backends.kafka.topic_reader import READ_ERRORS
from headgate.config.settings import Settings
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.limits import replay_request
from headgate.core.record import Record
from headgate.core.refusal import Refused, brief
from headgate.core.spelling import closest
from headgate.core.topics.globs import is_glob
from headgate.core.topics.policy import PolicyTable
from headgate.replays.offset_map import (
    MAP_TOPIC,
    MapEntry,
    NewerMapError,
    PartitionMap,
    map_partition,
    owner_of,
    read_entry,
)
from headgate.replays.registry import REGISTRY_TOPIC, Registry, TooLargeError, wanted_record
from headgate.replays.segments import MapError
from headgate.replays.spec import FieldError


class Tiers(NamedTuple):
    """A topic's two clusters, by name and with how to reach them."""

    topic: str
    ingest: str
    backfill: str
    ingest_options: ClusterOptions
    backfill_options: ClusterOptions

    @property
    def servers(self) -> str:
        """The backfill cluster's bootstrap servers, as consumers are told."""
        return self.backfill_options.bootstrap_servers


class TierTable:
    """settings: those in force, asked each time, since topics change at a reload."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def backfills(self) -> list[str]:
        """The clusters of tier backfill that an ingest cluster names."""
        clusters = self._settings().clusters.values()
        return sorted({cluster.backfill for cluster in clusters if cluster.backfill is not None})

    def ingests(self) -> list[str]:
        """The clusters that have a backfill tier."""
        clusters = self._settings().clusters
        return sorted(name for name, one in clusters.items() if one.backfill is not None)

    def backfill_of(self, ingest: str) -> str:
        """The backfill cluster of one of `ingests`."""
        found = self._settings().clusters[ingest].backfill
        assert found is not None
        return found

    def options(self, cluster: str) -> ClusterOptions:
        """How to reach a cluster."""
        return cluster_options(self._settings().clusters[cluster])

    def of(self, topic: str) -> Tiers:
        """Raises Refused for a topic that no policy matches or that has no second tier."""
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
        options = (self.options(ingest), self.options(backfill))
        return Tiers(topic, ingest, backfill, *options)


# What cannot be answered becomes a refusal that says why and what to do.


log = logging.getLogger("headgate.replays.tiers")

_ANSWER_S = 45.0  # a transaction of a runner that died is aborted after 30 s


@asynccontextmanager
async def asking(cluster: str) -> AsyncIterator[None]:
    """Bound what is asked of a cluster. Raises Refused."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            yield
    except (*READ_ERRORS, TransactionError) as error:
        log.warning("cluster %s does not answer: %r", cluster, error)
        cause = error.__cause__ or error if isinstance(error, TransactionError) else error
        detail = f"cluster {cluster} does not answer: {kafka_in_words(cause)}"
        raise Refused(Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=5)) from error
    except NewerMapError as error:
        log.warning("%s", error)
        raise Refused(Failure(Reason.NOT_COVERED, str(error))) from error
    except TooLargeError as error:
        raise Refused(replay_request(str(error))) from error


@contextmanager
def reading() -> Iterator[None]:
    """Around what reads a request's JSON. Raises Refused."""
    try:
        yield
    except FieldError as error:
        figures = {"field": error.field} if error.field else None
        raise Refused(Failure(Reason.MALFORMED, str(error), figures)) from error


# What the registries of several backfill clusters say, also when some of them do not answer.


class Registries(NamedTuple):
    """answered: registries, by cluster.  refused: why the others could not be asked."""

    answered: Sequence[tuple[str, Registry]]
    refused: Sequence[tuple[str, Refused]]

    def unavailable(self) -> list[dict[str, Any]]:
        """The clusters that did not answer, as JSON."""
        return [{"cluster": name, "why": why.failure.detail} for name, why in self.refused]


async def read_all(
    clusters: Iterable[str], read: Callable[[str], Awaitable[Registry]]
) -> Registries:
    """Ask all at once, since one that hangs takes its time. Raises Refused when there are
    some and none answers."""

    async def ask(name: str) -> tuple[str, Registry | Refused]:
        try:
            async with asking(name):
                return name, await read(name)
        except Refused as refusal:
            return name, refusal

    answers = await asyncio.gather(*map(ask, clusters))
    registries = [(name, one) for name, one in answers if isinstance(one, Registry)]
    refused = [(name, one) for name, one in answers if isinstance(one, Refused)]
    if refused and not registries:
        raise refused[0][1]
    return Registries(registries, refused)


# The registry of one backfill tier: read by every gateway, changed by one at a time.
#
# A change is a transaction whose id all gateways share: the gateway that begins one ends those of
# others, then reads the log to its end, decides, and writes. So no two gateways decide from the
# same state, and what is decided is there wholly or not at all.


API_ID = "headgate.replays.api"
_FRESH_S = 0.5
_ATTEMPTS = 6
_START_S = 40.0  # the transaction of a gateway that died is ended first
_WANT_S = 5.0
_BATCH_BYTES = 950_000

Pair = tuple[bytes, bytes | None]


class RegistryChange:
    """A transaction that is open: what is put in it is written together."""

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
        """Set a group's offsets."""
        await self._begin()
        for partition, offset in offsets.items():
            await self._producer.send_offset(group, TopicPartition(topic, partition), offset, text)

    async def _begin(self) -> None:
        if self.is_empty:
            await self._producer.begin()
            self.is_empty = False


class RegistryLog:
    """One backfill cluster's registry."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._registry = Registry()
        self._log = CompactedTopic(options, REGISTRY_TOPIC, self._see, self._restart)
        self._read_at = -_FRESH_S
        self._reading = asyncio.Lock()
        self._changing = asyncio.Lock()

    @property
    def last(self) -> Registry:
        """As it was when it was last read."""
        return self._registry

    async def read(self) -> Registry:
        """The registry, at most half a second old. Raises as `CompactedTopic.read_new`."""
        async with self._reading:
            if time.monotonic() - self._read_at > _FRESH_S:
                with suppress(NoTopicError):  # nothing was ever asked for
                    await self._log.read_new([0])
                self._read_at = time.monotonic()
        return self._registry

    async def change(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> Registry:
        """Have `decide` look at the registry as it is now and put what follows; again when another
        gateway changed something meanwhile. What it raises ends the change; nothing is written.

        Changes of this process wait for one another; only those of other gateways are ended.
        Raises TransactionError when Kafka does not do it, and as `read`.
        """
        async with self._changing:
            await self._change(decide)
        return self._registry

    async def want(self, topic: str, ends: Mapping[int, int]) -> None:
        """Ask the mirror to copy partitions up to these offsets before its next interval."""

        async def decide(change: RegistryChange) -> None:
            await change.put([wanted_record(topic, ends)])

        # It does so at the interval in any case.
        with suppress(TransactionError, NoTopicError, TimeoutError):
            async with asyncio.timeout(_WANT_S):
                await self.change(decide)

    async def _change(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._attempt(decide)
            except TransactionError as error:
                # After an error of the commit it may be written: `decide` sees it then.
                if attempt + 1 == _ATTEMPTS or not _is_worth_another(error):
                    raise
                await asyncio.sleep(random.uniform(0, 0.1 * 2**attempt))
            else:
                return

    async def _attempt(self, decide: Callable[[RegistryChange], Awaitable[None]]) -> None:
        producer = TransactionalProducer(self._options, API_ID, _BATCH_BYTES)
        try:
            await producer.start(_START_S)
            await self._read_all()
            change = RegistryChange(self._registry, producer)
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
        self._registry.see(key, value)

    def _restart(self, _partition: int) -> None:
        self._registry = Registry()


def _is_worth_another(error: TransactionError) -> bool:
    return error.is_fenced or not error.is_refusal


# The offset map of the topics that are asked for, read from `headgate.offsets` when it is.
#
# Only maps that were asked for are kept, packed; the least recently used go first, and are read
# again when they are asked for. Each partition of the map topic is read once, then what is new; for
# another topic of the same map partition it is read again.


MAX_BYTES = 64_000_000  # some 16 million segments
_EMPTY_BYTES = 1_800  # what a map takes without any


class MappedPartition(NamedTuple):
    """Whose map it is."""

    topic: str
    partition: int


class OffsetMaps:
    """Maps of one backfill cluster. max_bytes: of memory; the last one asked for stays."""

    def __init__(self, options: ClusterOptions, max_bytes: int = MAX_BYTES) -> None:
        self._log = CompactedTopic(options, MAP_TOPIC, self._see, self._restart)
        self._maps: OrderedDict[MappedPartition, PartitionMap] = OrderedDict()
        self._max_bytes = max_bytes
        self._reading = asyncio.Lock()
        self.unread = 0

    def __len__(self) -> int:
        return len(self._maps)

    def still(self) -> asyncio.Lock:
        """Held while maps are looked at from another thread: nothing is read into them then."""
        return self._reading

    async def of(self, topic: str, partitions: Iterable[int]) -> Mapping[int, PartitionMap]:
        """The newest maps of these partitions. Raises as `CompactedTopic.read_new`, and
        NewerMapError."""
        wanted = [MappedPartition(topic, partition) for partition in partitions]
        async with self._reading:
            for owner in wanted:
                if owner not in self._maps:
                    self._maps[owner] = PartitionMap()
                    self._log.forget(map_partition(*owner))
            with suppress(NoTopicError):  # nothing was ever mirrored
                await self._log.read_new({map_partition(*owner) for owner in wanted})
            for owner in wanted:
                self._maps.move_to_end(owner)
            found = {owner.partition: self._maps[owner] for owner in wanted}
            self._evict(len(wanted))
        for partition, one in found.items():
            if one.is_newer:
                raise NewerMapError(topic, partition)
        return found

    def _see(self, _partition: int, key: bytes | None, value: bytes | None) -> None:
        owner = owner_of(key)
        if owner is not None and owner not in self._maps:
            return
        try:
            entry = read_entry(key, value)
            if entry is not None:
                self._apply(entry)
        except NewerMapError as error:
            found = self._maps.get(MappedPartition(error.topic, error.partition))
            if found is not None:
                found.is_newer = True
        except MapError:
            self.unread += 1

    def _apply(self, entry: MapEntry) -> None:
        found = self._maps.get(MappedPartition(entry.place.topic, entry.place.partition))
        if found is not None:
            found.apply(entry)

    def _restart(self, partition: int) -> None:
        for owner in self._maps:
            if map_partition(*owner) == partition:
                self._maps[owner] = PartitionMap()

    def _evict(self, minimum: int) -> None:
        kept = sum(_size(one) for one in self._maps.values())
        while kept > self._max_bytes and len(self._maps) > minimum:
            _, gone = self._maps.popitem(last=False)
            kept -= _size(gone)


def _size(one: PartitionMap) -> int:
    return _EMPTY_BYTES + sum(table.memory for _, table in one.tables())


# The gateway's backfill clusters.


class SecondTiers:
    """Registries and maps, each made when first asked for."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self.table = TierTable(settings)
        self._logs: dict[str, RegistryLog] = {}
        self._maps: dict[str, OffsetMaps] = {}

    def log(self, backfill: str) -> RegistryLog:
        """The registry of a backfill cluster."""
        if backfill not in self._logs:
            self._logs[backfill] = RegistryLog(self.table.options(backfill))
        return self._logs[backfill]

    async def registries(self) -> Registries:
        """All registries. Raises Refused when no cluster answers."""
        return await read_all(self.table.backfills(), lambda backfill: self.log(backfill).read())

    def likely(self, replay_id: str) -> list[str]:
        """Backfill clusters, first the one whose registry had this replay when it was last read:
        whether the others answer does not matter then."""
        known = self.table.backfills()
        return sorted(known, key=lambda one: self.log(one).last.get(replay_id) is None)

    def maps(self, backfill: str) -> OffsetMaps:
        """The offset maps on it."""
        if backfill not in self._maps:
            self._maps[backfill] = OffsetMaps(self.table.options(backfill))
        return self._maps[backfill]
