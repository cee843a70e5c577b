"""What the mirror asks of a cluster and does to it: topics, settings, offsets."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.core.topics.internal_topics import InternalTopic
from headgate.kafka.access import create_topics
from headgate.kafka.aiokafka_internals import drop_consumer, drop_producer, use_own_metadata
from headgate.kafka.wire import Metadata, any_node, read_metadata
from headgate_spark.job.connections import Connection
from headgate_spark.job.errors import JobError, in_words
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS, job_arguments, open_consumer

_SETTLED_S, _POLL_S = 30.0, 0.1
_OF_THE_TOPIC = 1  # DescribeConfigsResponse: ConfigSource.DYNAMIC_TOPIC_CONFIG


class TopicConfig(NamedTuple):
    """A topic's settings in force, by Kafka's names. own: those that are set for it alone."""

    values: Mapping[str, str]
    own: frozenset[str]

    def number(self, name: str) -> int:
        """A setting that is a number."""
        return int(self.values[name])


class ClusterAdmin:
    """One cluster; raises JobError where it does not answer or refuses."""

    def __init__(
        self, connection: Connection, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer
    ) -> None:
        self.connection = connection
        self._admin, self._consumer = admin, consumer

    async def metadata(self) -> Metadata:
        """Nodes and topics, as one of the nodes knows them."""
        client = self._consumer._client
        found = await read_metadata(client, any_node(client))
        sound = {name: one for name, one in found.topics.items() if not one.error}
        return found._replace(topics=sound)

    async def configs(self, topics: Iterable[str]) -> dict[str, TopicConfig]:
        """The settings of these topics."""
        found, refused = await self.configs_or_errors(topics)
        for error in refused.values():
            raise error
        return found

    async def configs_or_errors(
        self, topics: Iterable[str]
    ) -> tuple[dict[str, TopicConfig], dict[str, KafkaError]]:
        """The settings of these topics, and why those of some are not told."""
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        found, refused = dict[str, TopicConfig](), dict[str, KafkaError]()
        for answer in await self._admin.describe_configs(wanted) if wanted else []:
            for code, text, _, name, entries in answer.resources:
                if code:
                    refused[name] = for_code(code)(f"settings of topic {name}: {text}")
                    continue
                values = {entry[0]: entry[1] for entry in entries}
                own = frozenset(entry[0] for entry in entries if entry[3] == _OF_THE_TOPIC)
                found[name] = TopicConfig(values, own)
        return found, refused

    async def create(self, topics: Iterable[InternalTopic]) -> None:
        """Create them; one that is there already is fine."""
        await create_topics(self._admin, topics)

    async def delete(self, topic: str) -> None:
        """Delete it where it is there."""
        if topic not in (await self.metadata()).topics:
            return
        answer = await self._admin.delete_topics([topic])
        for name, code, *_ in answer.topic_error_codes:
            if code not in (0, UnknownTopicOrPartitionError.errno):  # it has gone meanwhile
                raise for_code(code)(f"topic {name} cannot be deleted")

    async def settled(self, wanted: Mapping[str, int]) -> None:
        """Wait until topics have so many partitions, each with a leader: it takes a moment."""
        late = await self.late(wanted)
        if late:
            raise JobError(f"cluster {self.connection.name}: no leaders for {', '.join(late)}")

    async def late(self, wanted: Mapping[str, int]) -> list[str]:
        """As `settled`, but those for which it takes too long are told."""
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
        """Give a topic more partitions."""
        answer = await self._admin.create_partitions({topic: NewPartitions(partitions)})
        for name, code, *rest in answer.topic_errors:
            if code:
                raise for_code(code)(f"topic {name} gets no more partitions: {rest}")

    async def bounds(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each, and the one behind its last stable one."""
        partitions = list(tps)
        begins = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        return {tp: (begins[tp], ends[tp]) for tp in partitions}

    async def remove(self, topic: str, keys: Mapping[int, Iterable[bytes]]) -> None:
        """Write records without value: partition -> keys."""
        producer = AIOKafkaProducer(
            **job_arguments(self.connection), enable_idempotence=True, linger_ms=20
        )
        use_own_metadata(producer.client)
        try:
            await producer.start()
            waiting = [
                await producer.send(topic, None, key, partition=partition)
                for partition, some in keys.items()
                for key in some
            ]
            for one in waiting:
                await one
        finally:
            await drop_producer(producer)


@asynccontextmanager
async def cluster_admin(connection: Connection) -> AsyncIterator[ClusterAdmin]:
    """Connect. Raises JobError for whatever the cluster does wrong in the block, too."""
    admin = AIOKafkaAdminClient(**job_arguments(connection))
    use_own_metadata(admin._client)
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
        await _close(admin)


async def _close(admin: Any) -> None:
    for connection in list(admin._client._conns.values()):
        connection.close()
    admin._client._conns.clear()
    await admin.close()
