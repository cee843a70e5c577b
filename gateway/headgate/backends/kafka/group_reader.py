"""Reads one cluster's groups, their offsets, and the logs that they read: one request per node."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, NodeNotReadyError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest

from headgate.backends.kafka.group_requests import (
    EARLIEST,
    LATEST,
    Found,
    ListedGroup,
    describe_classic,
    describe_consumer,
    fetch_offsets,
    find_coordinators,
    list_groups,
    list_offsets,
)
from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups.cluster_watch import PartitionSeen, TopicSeen
from headgate.core.groups.facts import Described, Offsets, Partition
from headgate.core.topics.topic import TopicState, with_settings
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.closing import drop_client
from headgate.kafka.flexible import FlexibleRequest
from headgate.kafka.metadata import TopicMetadata, read_metadata

log = logging.getLogger("headgate.backends.group_reader")

_TIMEOUT_MS = 10_000
_GROUPS_AT_ONCE = 200  # in one request: an answer of some 100 KB, decoded in a few milliseconds
_TOPICS_AT_ONCE = 500
_TOPIC_RESOURCE = 2
_SETTINGS = ["retention.ms", "cleanup.policy", "min.insync.replicas"]
_SETTINGS_EVERY = 30  # polls
_WATCHED = frozenset({"", "classic", "consumer"})  # share and streams groups have no such offsets

_T = TypeVar("_T")


class GroupPoll(NamedTuple):
    """What one poll found. groups: None for one that its coordinator does not describe now.
    logs: first offset and end of the partitions that the groups read.  is_whole: every node has
    told its groups; else some may be missing here that are there."""

    topics: dict[str, TopicSeen]
    groups: dict[str, Described | None]
    stored: dict[str, Offsets]
    logs: dict[Partition, tuple[int, int]]
    is_whole: bool


class GroupReader:
    """One connection to each node of a cluster, dropped after any failure."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._client: AIOKafkaClient | None = None
        self._settings: dict[str, dict[str, str]] = {}
        self._polls = 0
        self._coordinators: dict[str, int] = {}
        self._leaders: dict[Partition, int] = {}

    async def poll(self) -> GroupPoll:
        """Read everything once. Raises KafkaError, OSError, TimeoutError."""
        client = await self._connected()
        await client.force_metadata_update()  # nodes come and go; it asks for no topic
        nodes = _nodes(client)
        node, facts = await self._facts(client, nodes)
        listed, is_whole = await self._listed(client, nodes)
        await self._find_coordinators(client, node, nodes, listed)
        groups, stored = await asyncio.gather(
            self._described(client, listed), self._stored(client, listed)
        )
        if self._polls % _SETTINGS_EVERY == 0 or facts.keys() - self._settings.keys():
            self._settings = await self._read_settings(client, node, facts)
        self._polls += 1
        places = set(chain.from_iterable(stored.values()))
        for group in groups.values():
            members = () if group is None else group.members
            places.update(chain.from_iterable(member.places for member in members))
        self._leaders = {
            Partition(topic, number): one.leader
            for topic, found in facts.items()
            for number, one in enumerate(found.partitions)
            if one.leader >= 0
        }
        ends = await self.offsets(places, LATEST)
        starts = await self.offsets(places, EARLIEST)
        logs = {
            place: (starts[place].offset, end.offset)
            for place, end in ends.items()
            if place in starts
        }
        return GroupPoll(self._topics(facts), groups, stored, logs, is_whole)

    async def offsets(self, places: Iterable[Partition], timestamp: int) -> dict[Partition, Found]:
        """Where logs are at a time, from the leaders of the last poll; see `list_offsets`."""
        client = await self._connected()
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place in places:
            leader = self._leaders.get(place)
            if leader is not None:
                by_leader[leader][place.topic].append(place.partition)
        requests = [
            (leader, list_offsets(topics, timestamp)) for leader, topics in by_leader.items()
        ]
        found: dict[Partition, Found] = {}
        for answer in await self._ask_each(client, requests):
            found |= answer
        return found

    async def close(self) -> None:
        """Drop the connections."""
        client, self._client = self._client, None
        self._coordinators = {}
        if client is not None:
            await drop_client(client)

    async def _connected(self) -> AIOKafkaClient:
        if self._client is None:
            self._client = AIOKafkaClient(
                **client_arguments(self._options),
                client_id="headgate-monitor",
                request_timeout_ms=_TIMEOUT_MS,
            )
            use_own_metadata(self._client)
            await self._client.bootstrap()
        return self._client

    async def _facts(
        self, client: AIOKafkaClient, nodes: Sequence[int]
    ) -> tuple[int, Mapping[str, TopicMetadata]]:
        """All topics as one node sees them, and which one: another each time, or that after it."""
        first = self._polls % len(nodes)
        error: Exception | None = None
        for node in (*nodes[first:], *nodes[:first]):
            try:
                return node, (await read_metadata(client, node)).topics
            except (KafkaError, OSError, TimeoutError) as failure:
                log.warning("Kafka node %d returned no topic metadata: %r", node, failure)
                error = failure
        raise error or NodeNotReadyError("no broker is known")

    async def _listed(
        self, client: AIOKafkaClient, nodes: Sequence[int]
    ) -> tuple[list[ListedGroup], bool]:
        """All groups, and whether those are all: a node may be away, or still read its share."""
        found: list[ListedGroup] = []
        answers = await self._ask_each(client, [(node, list_groups()) for node in nodes])
        is_whole = len(answers) == len(nodes)
        for error, groups in answers:
            if error:
                is_whole = False
                log.warning("Kafka node did not list its groups: %s", for_code(error).__name__)
            found += [
                group
                for group in groups
                if group.kind in _WATCHED and group.protocol in ("", "consumer")
            ]
        return found, is_whole

    async def _find_coordinators(
        self,
        client: AIOKafkaClient,
        any_node: int,
        nodes: Sequence[int],
        listed: Iterable[ListedGroup],
    ) -> None:
        names = {one.group for one in listed}
        self._coordinators = {
            group: node
            for group, node in self._coordinators.items()
            if group in names and node in nodes
        }
        unknown = names - self._coordinators.keys()
        some = _batches(unknown, _GROUPS_AT_ONCE)
        requests = [(any_node, find_coordinators(each)) for each in some]
        for answer in await self._ask_each(client, requests):
            self._coordinators |= answer

    def _by_coordinator(self, groups: Iterable[str]) -> list[tuple[int, tuple[str, ...]]]:
        by_node: dict[int, list[str]] = defaultdict(list)
        for group in groups:
            node = self._coordinators.get(group)
            if node is not None:
                by_node[node].append(group)
        return [
            (node, some)
            for node, names in by_node.items()
            for some in _batches(names, _GROUPS_AT_ONCE)
        ]

    async def _described(
        self, client: AIOKafkaClient, listed: Iterable[ListedGroup]
    ) -> dict[str, Described | None]:
        found: dict[str, Described | None] = {one.group: None for one in listed}
        new = [one.group for one in listed if one.kind == "consumer"]
        old = [one.group for one in listed if one.kind != "consumer"]
        requests = [(node, describe_consumer(some)) for node, some in self._by_coordinator(new)]
        requests += [(node, describe_classic(some)) for node, some in self._by_coordinator(old)]
        for answer in await self._ask_each(client, requests):
            found |= answer
        return found

    async def _stored(
        self, client: AIOKafkaClient, listed: Iterable[ListedGroup]
    ) -> dict[str, Offsets]:
        requests = [
            (node, fetch_offsets(some))
            for node, some in self._by_coordinator(one.group for one in listed)
        ]
        found: dict[str, Offsets] = {}
        for answer in await self._ask_each(client, requests):
            found |= answer
        for group in {one.group for one in listed} - found.keys():
            self._coordinators.pop(group, None)  # it has moved, or is not there any more
        return found

    @staticmethod
    async def _ask_each(
        client: AIOKafkaClient, requests: Iterable[tuple[int, FlexibleRequest[_T]]]
    ) -> list[_T]:
        """Ask all nodes at once; one that does not answer costs only what it would have said."""
        answers = await asyncio.gather(
            *(client.send(node, request) for node, request in requests), return_exceptions=True
        )
        found: list[_T] = []
        for answer in answers:
            if isinstance(answer, KafkaError | OSError | TimeoutError):
                log.warning("Kafka node did not answer: %r", answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        if answers and not found:
            raise NodeNotReadyError("no node answers")
        return found

    async def _read_settings(
        self, client: AIOKafkaClient, node: int, names: Iterable[str]
    ) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for some in _batches(names, _TOPICS_AT_ONCE):
            requests = [(_TOPIC_RESOURCE, name, _SETTINGS) for name in some]
            answer: Any = await client.send(node, DescribeConfigsRequest(requests))
            for error, _text, _kind, name, entries in answer.resources:
                settings = {option: value for option, value, *_ in entries}
                found[name] = settings if error == 0 else {}  # not ours to see
        return found

    def _topics(self, facts: Mapping[str, TopicMetadata]) -> dict[str, TopicSeen]:
        topics = {}
        for name, (_error, topic_id, partitions) in facts.items():
            bare = TopicState(name, "", topic_id, len(partitions), retention_ms=-1)
            state = with_settings(bare, self._settings.get(name, {}))
            seen = tuple(PartitionSeen(*partition) for partition in partitions)
            kept_ms = state.rules.kept_ms
            topics[name] = TopicSeen(
                topic_id, seen, state.min_insync_replicas, -1 if kept_ms is None else kept_ms
            )
        return topics


def _nodes(client: AIOKafkaClient) -> list[int]:
    nodes = [broker.nodeId for broker in client.cluster.brokers()]
    if not nodes:
        raise NodeNotReadyError("no broker is known")
    return nodes


def _batches(names: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    """itertools.batched of Python 3.12."""
    rest = iter(names)
    while some := tuple(islice(rest, size)):
        yield some
