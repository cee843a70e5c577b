"""Clusters of copying jobs: clients, topics, settings, offsets and tiers."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, NodeNotReadyError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.kafka import aiokafka_internals as consumers
from headgate.kafka.access import create_topics
from headgate.kafka.aiokafka_internals import (
    AIOKafkaClient,
    client_of,
    drop_admin,
    drop_consumer,
    drop_producer,
    open_admin,
    open_producer,
)
from headgate.kafka.wire import Metadata, any_node, read_metadata
from headgate.model.internal_topics import InternalTopic
from headgate_spark.job.command_line import USAGE, JobError, in_words
from headgate_spark.job.options import Cluster, Connection, JobConfig

# ---- aiokafka's clients of the jobs


CLIENT_ID = "headgate-mirror"  # a quota on it caps all of the mirror at the brokers, too
CLIENT_ERRORS = (KafkaError, OSError, TimeoutError, AssertionError)  # it asserts its own states


def open_consumer(connection: Connection, **options: Any) -> AIOKafkaConsumer:
    """Open a consumer without a group that reads only committed records and never resets itself."""
    return consumers.open_consumer(
        connection,
        client_id=CLIENT_ID,
        auto_offset_reset="none",  # an offset that is gone is an error, not another offset
        isolation_level="read_committed",
        **options,
    )


# ---- topics, settings and offsets of one cluster


_SETTLED_S, _POLL_S = 30.0, 0.1
_OF_THE_TOPIC = 1  # DescribeConfigsResponse: ConfigSource.DYNAMIC_TOPIC_CONFIG


class TopicConfig(NamedTuple):
    """The active settings of a topic, by Kafka's names. `own`: settings of this topic alone."""

    values: Mapping[str, str]
    own: frozenset[str]

    def number(self, name: str) -> int:
        """Return a setting that is a number."""
        return int(self.values[name])


class ClusterAdmin:
    """A client of one cluster. It raises JobError if the cluster does not answer, or refuses."""

    def __init__(
        self, connection: Connection, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer
    ) -> None:
        self.connection = connection
        self._admin, self._consumer = admin, consumer

    async def metadata(self) -> Metadata:
        """Return nodes and topics, as one of the nodes knows them."""
        client = client_of(self._consumer)
        answer = await read_metadata(client, any_node(client))
        sound = {name: topic for name, topic in answer.topics.items() if not topic.error}
        return answer._replace(topics=sound)

    async def configs(self, topics: Iterable[str]) -> dict[str, TopicConfig]:
        """Return the settings of these topics."""
        configs, refused = await self.configs_or_errors(topics)
        for error in refused.values():
            raise error
        return configs

    async def configs_or_errors(
        self, topics: Iterable[str]
    ) -> tuple[dict[str, TopicConfig], dict[str, KafkaError]]:
        """Return the settings of these topics, and the errors of topics without settings."""
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        configs, refused = dict[str, TopicConfig](), dict[str, KafkaError]()
        for answer in await self._admin.describe_configs(wanted) if wanted else []:
            for code, text, _, name, entries in answer.resources:
                if code:
                    refused[name] = for_code(code)(f"settings of topic {name}: {text}")
                    continue
                values = {entry[0]: entry[1] for entry in entries}
                own = frozenset(entry[0] for entry in entries if entry[3] == _OF_THE_TOPIC)
                configs[name] = TopicConfig(values, own)
        return configs, refused

    async def create(self, topics: Iterable[InternalTopic]) -> None:
        """Create topics; a topic that exists is not an error."""
        await create_topics(self._admin, topics)

    async def delete(self, topic: str) -> None:
        """Delete a topic if it exists."""
        if topic not in (await self.metadata()).topics:
            return
        answer = await self._admin.delete_topics([topic])
        for name, code, *_ in answer.topic_error_codes:
            if code not in (0, UnknownTopicOrPartitionError.errno):  # it has gone meanwhile
                raise for_code(code)(f"topic {name} cannot be deleted")

    async def settled(self, wanted: Mapping[str, int]) -> None:
        """Wait until topics have these partitions, each with a leader."""
        late = await self.late(wanted)
        if late:
            raise JobError(f"cluster {self.connection.name}: no leaders for {', '.join(late)}")

    async def late(self, wanted: Mapping[str, int]) -> list[str]:
        """Return the topics that `settled` does not find ready in time."""
        deadline_s = asyncio.get_running_loop().time() + _SETTLED_S
        while True:
            topics = (await self.metadata()).topics
            late = [
                name
                for name, partitions in wanted.items()
                if name not in topics
                or len(topics[name].leaders) < partitions
                or min(topics[name].leaders) < 0
            ]
            if not late or asyncio.get_running_loop().time() > deadline_s:
                return late
            await asyncio.sleep(_POLL_S)

    async def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        answer = await self._admin.create_partitions({topic: NewPartitions(partitions)})
        for name, code, *rest in answer.topic_errors:
            if code:
                raise for_code(code)(f"topic {name} gets no more partitions: {rest}")

    async def bounds(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset of each partition, and the one behind its last stable offset."""
        partitions = list(tps)
        begins = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        return {tp: (begins[tp], ends[tp]) for tp in partitions}

    async def remove(self, topic: str, keys: Mapping[int, Iterable[bytes]]) -> None:
        """Write tombstones for keys, by partition."""
        producer = open_producer(
            self.connection, client_id=CLIENT_ID, enable_idempotence=True, linger_ms=20
        )
        try:
            await producer.start()
            waiting = [
                await producer.send(topic, None, key, partition=partition)
                for partition, partition_keys in keys.items()
                for key in partition_keys
            ]
            for sent in waiting:
                await sent
        finally:
            await drop_producer(producer)


@asynccontextmanager
async def cluster_admin(connection: Connection) -> AsyncIterator[ClusterAdmin]:
    """Connect. The block raises JobError for every error of the cluster, too."""
    admin = open_admin(connection, client_id=CLIENT_ID)
    consumer = open_consumer(connection)
    try:
        await consumer.start()
        await admin.start()
        yield ClusterAdmin(connection, admin, consumer)
    except CLIENT_ERRORS as error:
        servers = connection.bootstrap_servers
        raise JobError(f"cluster {connection.name} ({servers}): {in_words(error)}") from error
    finally:
        await drop_consumer(consumer)
        await drop_admin(admin)


# ---- topic ids: a topic that was deleted and recreated has another one


async def topic_id(client: AIOKafkaClient, tp: TopicPartition) -> str:
    """Return the id of a topic, as the partition's leader knows it. Raises KafkaError.

    The leader learns of a recreated topic before it serves the new partition. So records that were
    read before a response with the old id belong to the old topic.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:  # the client may not know it yet
        node = (await _metadata(client, any_node(client), tp.topic)).leader(*tp)
    if node < 0:
        raise NodeNotReadyError(f"partition {tp.partition} of {tp.topic} has no leader")
    return (await _metadata(client, node, tp.topic)).topics[tp.topic].uuid


async def id_of(client: AIOKafkaClient, topic: str) -> str | None:
    """Return the id of a topic, as one node knows it; None without one. Raises KafkaError."""
    answer = await read_metadata(client, any_node(client), [topic])
    metadata = answer.topics.get(topic)
    is_there = metadata is not None and metadata.error != UnknownTopicOrPartitionError.errno
    return metadata.uuid if metadata is not None and is_there else None


async def _metadata(client: AIOKafkaClient, node: int, topic: str) -> Metadata:
    """Return a node's metadata of a topic that exists. Raises KafkaError."""
    answer = await read_metadata(client, node, [topic])
    if answer.topics[topic].error:
        raise for_code(answer.topics[topic].error)(topic)
    return answer


# ---- settings of topics that receive copies: they keep records as they are, however old


_UNLIMITED = str(2**63 - 1)
_FOREVER = "-1"
_MAX_BYTES = 2**31 - 1
_AS_THEY_ARE = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        # Records come with the timestamps that they had, years ago or ahead of every clock.
        "message.timestamp.before.max.ms": _UNLIMITED,
        "message.timestamp.after.max.ms": _UNLIMITED,
    }
)


def roomy(limit: int) -> int:
    """Return the limit of a mirror's topic whose source has this limit.

    The same record is larger on the target if its producer compressed it better than the mirror
    does.
    """
    return min(2 * limit, _MAX_BYTES)


def copied_configs(retention_ms: int, max_message_bytes: int) -> dict[str, str]:
    """Return the settings of a topic that keeps copied records unchanged."""
    return {
        **_AS_THEY_ARE,
        "retention.ms": str(retention_ms),
        "retention.bytes": _FOREVER,
        "max.message.bytes": str(max_message_bytes),
    }


def wanted_configs(source: TopicConfig, retention_ms: int) -> dict[str, str]:
    """Return the settings of a new topic of the mirror."""
    maximum = roomy(source.number("max.message.bytes"))
    return {**copied_configs(retention_ms, maximum), "unclean.leader.election.enable": "false"}


def faults(source: TopicConfig, target: TopicConfig) -> list[str]:
    """Return the wrong settings of a mirror's topic that exists, with the required values."""
    values = target.values
    wrong = [
        f"{name} is {values[name]}: set it to {right}"
        for name, right in _AS_THEY_ARE.items()
        if values[name] != right
    ]
    # A limit set for this topic is explicit; the broker's default is not.
    wrong += [
        f"{name} is the broker's {values[name]}: set it to -1, or to what you mean"
        for name in ("retention.ms", "retention.bytes")
        if values[name] != _FOREVER and name not in target.own
    ]
    if target.number("max.message.bytes") < source.number("max.message.bytes"):
        minimum = source.values["max.message.bytes"]
        wrong.append(f"max.message.bytes is {values['max.message.bytes']}: set it to {minimum}")
    return wrong


# ---- ingest clusters and their backfill clusters


def pairs(config: JobConfig, name: str | None) -> list[tuple[Cluster, Cluster]]:
    """Return the ingest clusters and their backfill clusters. Raises JobError."""
    wanted = [cluster for cluster in config.clusters.values() if cluster.tier == "ingest"]
    if name is not None:
        wanted = [cluster for cluster in wanted if cluster.name == name]
        if not wanted:
            raise JobError(f"--cluster {name}: no [clusters.{name}] with tier = ingest", USAGE)
    chosen = [
        (cluster, _backfill_of(config, cluster)) for cluster in wanted if cluster.backfill or name
    ]
    if not chosen:
        raise JobError("no cluster has a backfill tier: set clusters.<name>.backfill", USAGE)
    return chosen


def _backfill_of(config: JobConfig, cluster: Cluster) -> Cluster:
    option = f"clusters.{cluster.name}.backfill"
    if cluster.backfill is None:
        raise JobError(f"{option} is not set: it names the cluster of the mirror", USAGE)
    backfill = config.clusters.get(cluster.backfill)
    if backfill is None or backfill.tier != "backfill":
        raise JobError(
            f'{option} = "{cluster.backfill}": no [clusters.{cluster.backfill}] with '
            'tier = "backfill"',
            USAGE,
        )
    return backfill
