"""Reads one cluster's topics and their settings."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, NodeNotReadyError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.metadata import MetadataRequest

from headgate.backends.kafka.options import ClusterOptions
from headgate.core.topics.topic import SETTINGS, PartitionState, TopicState, with_settings
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.closing import drop_client
from headgate.kafka.metadata import TopicMetadata, read_metadata

log = logging.getLogger("headgate.backends.topic_reader")

ANSWER_TIMEOUT_MS = 3_000
# A broker that has just started may not know the newest topics yet, so a topic counts as deleted
# only when a second answer, a moment later and from another node where there is one, lacks it too.
_SECOND_READ_PAUSE_S = 0.2
_TOPIC_RESOURCE = 2  # org.apache.kafka ConfigResource.Type.TOPIC
_NO_ERROR = 0
_AT_ONCE = 50  # topics in a request for settings, and in a turn: decoding takes 0.1 ms each


class TopicReader:
    """One connection to one cluster, opened when needed and dropped after any failure."""

    def __init__(self, cluster: str, options: ClusterOptions) -> None:
        self._cluster = cluster
        self._options = options
        self.cluster_id: str | None = None
        self._client: AIOKafkaClient | None = None
        self._denied: set[str] = set()

    async def read(
        self, is_wanted: Callable[[str], bool], known: Mapping[str, TopicState]
    ) -> dict[str, TopicState]:
        """Return the newest states of the wanted topics.

        known: the states of the last call; a topic whose answer is an error keeps its state.
        Raises KafkaError, OSError or TimeoutError when the cluster does not answer.
        """
        client = await self._connected()
        facts = await self._facts(client, known)
        names = [name for name in facts if is_wanted(name)]
        sound = [name for name in names if facts[name].error == _NO_ERROR]
        settings = await self._settings(client, sound) if sound else {}
        states = {name: known[name] for name in names if name in known}
        for number, name in enumerate(sound, start=1):
            states[name] = self._state(name, facts[name], settings.get(name), states.get(name))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return states

    async def partitions(self, topic: str) -> list[PartitionState]:
        """Return a topic's partitions with their replicas. Raises as `read`."""
        if self._client is None:
            raise NodeNotReadyError("not connected")
        # aiokafka's own: the ids of the replicas are asked for nowhere else.
        request = MetadataRequest([topic], allow_auto_topic_creation=False)
        answer = await self._client.send(_nodes(self._client)[0], request)
        return sorted(
            PartitionState(number, leader, tuple(replicas), tuple(in_sync))
            for _error, _name, _internal, partitions in answer.topics
            for _, number, leader, replicas, in_sync, *_ in partitions
        )

    def brokers(self) -> int:
        """How many brokers the cluster had at the last answer."""
        return 0 if self._client is None else len(self._client.cluster.brokers())

    async def close(self) -> None:
        """Drop the connection."""
        client, self._client = self._client, None
        if client is not None:
            await drop_client(client)

    async def _connected(self) -> AIOKafkaClient:
        if self._client is None:
            self._client = AIOKafkaClient(
                **client_arguments(self._options),
                client_id="headgate-topics",
                request_timeout_ms=ANSWER_TIMEOUT_MS,
            )
            use_own_metadata(self._client)
            await self._client.bootstrap()
        return self._client

    async def _facts(
        self, client: AIOKafkaClient, known: Mapping[str, TopicState]
    ) -> Mapping[str, TopicMetadata]:
        first, *others = _nodes(client)
        _, self.cluster_id, topics = await read_metadata(client, first)
        if known.keys() <= topics.keys():
            return topics
        await asyncio.sleep(_SECOND_READ_PAUSE_S)
        again = await read_metadata(client, others[0] if others else first)
        return {**topics, **again.topics}

    async def _settings(
        self, client: AIOKafkaClient, names: Iterable[str]
    ) -> dict[str, dict[str, str]]:
        resources = [(_TOPIC_RESOURCE, name, list(SETTINGS)) for name in names]
        found = {}
        for start in range(0, len(resources), _AT_ONCE):
            request = DescribeConfigsRequest(resources[start : start + _AT_ONCE])
            answer = await client.send(_nodes(client)[0], request)
            for error, _text, _kind, name, entries in answer.resources:
                if error == _NO_ERROR:
                    found[name] = {option: value for option, value, *_ in entries}
                else:
                    self._cannot_read(name, error)
        return found

    def _cannot_read(self, name: str, error: int) -> None:
        if name not in self._denied:
            self._denied.add(name)
            log.warning("settings of topic %s cannot be read: %s", name, for_code(error).__name__)

    def _state(
        self,
        name: str,
        facts: TopicMetadata,
        settings: Mapping[str, str] | None,
        before: TopicState | None,
    ) -> TopicState:
        if before is None or before.topic_id != facts.topic_id:
            before = TopicState(name, self._cluster, facts.topic_id, len(facts.partitions))
        found = before._replace(
            cluster=self._cluster,
            partitions=len(facts.partitions),
            replication_factor=facts.replication_factor,
        )
        return with_settings(found, settings or {})


def _nodes(client: AIOKafkaClient) -> list[int]:
    nodes = [broker.nodeId for broker in client.cluster.brokers()]
    if not nodes:
        raise NodeNotReadyError("no broker is known")
    return nodes


READ_ERRORS = (KafkaError, OSError, TimeoutError)
