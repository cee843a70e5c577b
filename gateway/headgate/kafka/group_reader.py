"""Readers of a cluster's groups, their offsets and their logs, with one request per node."""

import asyncio
import logging
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import KafkaError, NodeNotReadyError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.errors_in_words import connection_error
from headgate.kafka.aiokafka_internals import (
    AIOKafkaClient,
    client_of,
    drop_client,
    drop_consumer,
    open_client,
    open_consumer,
)
from headgate.kafka.groups import (
    READS_PAUSES,
    CommittedOffset,
    Described,
    GroupMember,
    Offsets,
    OffsetsRecord,
    Partition,
    TopicSeen,
    read_assignment,
    read_record,
    read_subscription,
)
from headgate.kafka.options import ClusterOptions
from headgate.kafka.wire import (
    NO_TAGS,
    NULL,
    FlexibleRequest,
    Reader,
    TopicMetadata,
    any_node,
    array,
    nodes_of,
    read_metadata,
    read_settings,
    text,
)
from headgate.model.topics import TopicState, with_settings

log = logging.getLogger("headgate.kafka")

# ---- requests about many consumer groups at once, of both protocols
#
# Sources: ListGroups, FindCoordinator, OffsetFetch, DescribeGroups, ConsumerGroupDescribe and
# ListOffsets *Request.json / *Response.json of org.apache.kafka.


_FIND_COORDINATOR, _OFFSET_FETCH, _DESCRIBE_GROUPS, _LIST_GROUPS = 10, 9, 15, 16
_LIST_OFFSETS, _CONSUMER_GROUP_DESCRIBE = 2, 69
_GROUP = b"\0"  # a coordinator's key type
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
_OFFSET = struct.Struct(">iqi")
_LISTED = struct.Struct(">ihqqi")


class ListedGroup(NamedTuple):
    """A group in the response to ListGroups.

    Attributes:
        group: The name.
        protocol: consumer, connect or another protocol of a classic group.
        status: The coordinator's name of the state.
        kind: consumer for KIP-848, classic, share or streams; empty before Kafka 3.8.
    """

    group: str
    protocol: str
    status: str
    kind: str


def list_groups() -> FlexibleRequest[tuple[int, list[ListedGroup]]]:
    """Return a request for all groups of a coordinator; its result is (error code, groups)."""

    def body(version: int) -> bytes:
        return array(()) * max(0, version - 3)  # states, types: all of them

    def read(reader: Reader, version: int) -> tuple[int, list[ListedGroup]]:
        reader.skip(4)
        error = reader.int16()
        return error, [_listed(reader, version) for _ in range(reader.count())]

    return FlexibleRequest(_LIST_GROUPS, (3, 5), body, read)


def _listed(reader: Reader, version: int) -> ListedGroup:
    group, protocol = reader.text() or "", reader.text() or ""
    status = (reader.text() or "") if version >= 4 else ""
    kind = (reader.text() or "") if version >= 5 else ""
    reader.tags()
    return ListedGroup(group, protocol, status, kind.lower())


def find_coordinators(groups: Iterable[str]) -> FlexibleRequest[dict[str, int]]:
    """Return a request for each group's coordinator; groups with an error are omitted."""
    keys = array(map(text, groups))
    return FlexibleRequest(
        _FIND_COORDINATOR, (4, 4), lambda _: _GROUP + keys, lambda reader, _: _coordinators(reader)
    )


def _coordinators(reader: Reader) -> dict[str, int]:
    reader.skip(4)
    nodes = {}
    for _ in range(reader.count()):
        group, node = reader.text() or "", reader.int32()
        reader.text()  # host
        reader.skip(4)  # port
        if reader.int16() == 0:
            nodes[group] = node
        reader.text()  # the error in words
        reader.tags()
    return nodes


def fetch_offsets(groups: Iterable[str]) -> FlexibleRequest[dict[str, Offsets]]:
    """Return a request for all committed offsets; groups with an error are omitted.

    Offsets of open transactions are not included (require_stable = false).
    """
    body = array(text(group) + NULL + NO_TAGS for group in groups)
    return FlexibleRequest(
        _OFFSET_FETCH, (8, 8), lambda _: body + b"\0", lambda reader, _: _fetched(reader)
    )


def _fetched(reader: Reader) -> dict[str, Offsets]:
    reader.skip(4)
    by_group = {}
    for _ in range(reader.count()):
        group = reader.text() or ""
        offsets: Offsets = {}
        for _ in range(reader.count()):
            _fetched_topic(reader, offsets)
        if reader.int16() == 0:
            by_group[group] = offsets
        reader.tags()
    return by_group


def _fetched_topic(reader: Reader, into: Offsets) -> None:
    topic = reader.text() or ""
    for _ in range(reader.count()):
        number, offset, _epoch = reader.unpack(_OFFSET)
        metadata = reader.text() or ""
        if reader.int16() == 0 and offset >= 0:
            into[Partition(topic, number)] = CommittedOffset(offset, metadata)
        reader.tags()
    reader.tags()


def describe_classic(groups: Iterable[str]) -> FlexibleRequest[dict[str, Described]]:
    """Return a request for the members of classic groups and their partitions.

    Groups with an error are omitted.
    """
    body = array(map(text, groups)) + b"\0"
    return FlexibleRequest(
        _DESCRIBE_GROUPS, (5, 5), lambda _: body, lambda reader, _: _classic_groups(reader)
    )


def _classic_groups(reader: Reader) -> dict[str, Described]:
    reader.skip(4)
    by_group = {}
    for _ in range(reader.count()):
        error, group, status = reader.int16(), reader.text() or "", reader.text() or ""
        is_consumers = reader.text() == "consumer"
        reader.text()  # the assignor
        members = tuple(_classic_member(reader, is_consumers) for _ in range(reader.count()))
        reader.skip(4)  # authorized operations
        reader.tags()
        if error == 0:
            by_group[group] = Described("classic", status, members)
    return by_group


def _classic_member(reader: Reader, is_consumers: bool) -> GroupMember:
    member_id = reader.text() or ""
    reader.text()  # group.instance.id
    client_id, host = reader.text() or "", reader.text() or ""
    subscription = reader.take(reader.count())
    assignment = reader.take(reader.count())
    reader.tags()
    if not is_consumers:
        return GroupMember(member_id, client_id, host, frozenset())
    member = GroupMember(member_id, client_id, host, _assigned(assignment))
    subscribed = _subscribed(subscription)
    if subscribed is None:
        return member
    topics, user_data = subscribed
    return member._replace(subscribed=topics, reads_pauses=user_data == READS_PAUSES)


def _subscribed(subscription: bytes) -> tuple[frozenset[str], bytes] | None:
    try:
        return read_subscription(subscription)
    except ValueError:  # as in `_assigned`
        return None


def _assigned(assignment: bytes) -> frozenset[Partition]:
    try:
        return read_assignment(assignment)
    except ValueError:  # the broker does not validate the data of a client's own assignor
        return frozenset()


def describe_consumer(groups: Iterable[str]) -> FlexibleRequest[dict[str, Described]]:
    """Return a request for the members of KIP-848 groups, which DescribeGroups calls dead."""
    body = array(map(text, groups)) + b"\0"
    return FlexibleRequest(_CONSUMER_GROUP_DESCRIBE, (0, 1), lambda _: body, _consumer_groups)


def _consumer_groups(reader: Reader, version: int) -> dict[str, Described]:
    reader.skip(4)
    by_group = {}
    for _ in range(reader.count()):
        error = reader.int16()
        reader.text()  # the error in words
        group, status = reader.text() or "", reader.text() or ""
        reader.skip(8)  # epochs of the group and of its assignment
        reader.text()  # the assignor
        members = tuple(_consumer_member(reader, version) for _ in range(reader.count()))
        reader.skip(4)  # authorized operations
        reader.tags()
        if error == 0:
            by_group[group] = Described("consumer", status, members)
    return by_group


def _consumer_member(reader: Reader, version: int) -> GroupMember:
    member_id = reader.text() or ""
    reader.text()  # group.instance.id
    reader.text()  # rack
    reader.skip(4)  # its epoch
    client_id, host = reader.text() or "", reader.text() or ""
    topics = frozenset(reader.text() or "" for _ in range(reader.count()))
    pattern = reader.text()
    places = _assigned_partitions(reader)
    _assigned_partitions(reader)  # the target assignment
    if version >= 1:
        reader.skip(1)  # the kind of member
    reader.tags()
    # Only the broker knows the topics that a pattern matches; the assignment shows them.
    # The members of `headgate.consumer` are classic ones.
    return GroupMember(member_id, client_id, host, places, None if pattern else topics, False)


def _assigned_partitions(reader: Reader) -> frozenset[Partition]:
    places: set[Partition] = set()
    for _ in range(reader.count()):
        reader.skip(16)  # the topic's id
        topic = reader.text() or ""
        places.update(Partition(topic, reader.int32()) for _ in range(reader.count()))
        reader.tags()
    reader.tags()
    return frozenset(places)


class Found(NamedTuple):
    """A position in a log.

    Attributes:
        at_ms: The timestamp of the record there; -1 for LATEST and EARLIEST.
        offset: The offset; -1 if no record is as young as requested.
    """

    at_ms: int
    offset: int


def list_offsets(
    partitions: Mapping[str, Sequence[int]], timestamp: int
) -> FlexibleRequest[dict[Partition, Found]]:
    """Return a request for the offsets of a time; partitions with an error are omitted.

    Args:
        partitions: Partitions of one leader, by topic.
        timestamp: Milliseconds since 1970, LATEST or EARLIEST.
    """
    tail = struct.pack(">iq", -1, timestamp) + NO_TAGS
    topics = array(
        text(topic) + array(struct.pack(">i", number) + tail for number in numbers) + NO_TAGS
        for topic, numbers in partitions.items()
    )
    body = struct.pack(">ib", -1, 0) + topics  # no replica; include open transactions
    return FlexibleRequest(
        _LIST_OFFSETS, (6, 7), lambda _: body, lambda reader, _: _offsets(reader)
    )


def _offsets(reader: Reader) -> dict[Partition, Found]:
    reader.skip(4)
    offsets = {}
    for _ in range(reader.count()):
        topic = reader.text() or ""
        for _ in range(reader.count()):
            number, error, at_ms, offset, _epoch = reader.unpack(_LISTED)
            if error == 0:
                offsets[Partition(topic, number)] = Found(at_ms, offset)
            reader.tags()
        reader.tags()
    return offsets


_TIMEOUT_MS = 10_000
_GROUPS_AT_ONCE = 200  # in one request: an answer of some 100 KB, decoded in a few milliseconds
_SETTINGS = ("retention.ms", "cleanup.policy", "min.insync.replicas")
_SETTINGS_EVERY = 30  # polls
_WATCHED = frozenset({"", "classic", "consumer"})  # share and streams groups have no such offsets

_T = TypeVar("_T")


class GroupPoll(NamedTuple):
    """The result of a poll.

    Attributes:
        topics: The topics.
        groups: The groups; None if the coordinator does not describe a group now.
        stored: The committed offsets by group.
        logs: The first offset and the end of each partition that the groups read.
        is_whole: Whether every node has listed its groups; otherwise some may be missing.
    """

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
        """Read everything once. Raises KafkaError, OSError or TimeoutError."""
        client = await self._connected()
        await client.force_metadata_update()  # nodes come and go; this requests no topic
        nodes = nodes_of(client)
        node, facts = await self._facts(client, nodes)
        listed, is_whole = await self._listed(client, nodes)
        await self._find_coordinators(client, node, nodes, listed)
        groups, stored = await asyncio.gather(
            self._described(client, listed), self._stored(client, listed)
        )
        if self._polls % _SETTINGS_EVERY == 0 or facts.keys() - self._settings.keys():
            # A topic whose settings are not permitted has none.
            settings, errors = await read_settings(client, node, facts, _SETTINGS)
            self._settings = settings | {topic: {} for topic in errors}
        self._polls += 1
        places = set(chain.from_iterable(stored.values()))
        for group in groups.values():
            members = () if group is None else group.members
            places.update(chain.from_iterable(member.assigned for member in members))
        self._leaders = {
            Partition(topic, number): state.leader
            for topic, metadata in facts.items()
            for number, state in enumerate(metadata.partitions)
            if state.leader >= 0
        }
        ends = await self.offsets(places, LATEST)
        starts = await self.offsets(places, EARLIEST)
        logs = {
            partition: (starts[partition].offset, end.offset)
            for partition, end in ends.items()
            if partition in starts
        }
        return GroupPoll(self._topics(facts), groups, stored, logs, is_whole)

    async def offsets(self, places: Iterable[Partition], timestamp: int) -> dict[Partition, Found]:
        """Return the offsets of a time from the leaders of the last poll (see `list_offsets`)."""
        client = await self._connected()
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for partition in places:
            leader = self._leaders.get(partition)
            if leader is not None:
                by_leader[leader][partition.topic].append(partition.partition)
        requests = [
            (leader, list_offsets(topics, timestamp)) for leader, topics in by_leader.items()
        ]
        by_partition: dict[Partition, Found] = {}
        for answer in await self._ask_each(client, requests):
            by_partition |= answer
        return by_partition

    async def close(self) -> None:
        """Drop the connections."""
        client, self._client = self._client, None
        self._coordinators = {}
        if client is not None:
            await drop_client(client)

    async def _connected(self) -> AIOKafkaClient:
        if self._client is None:
            self._client = open_client(
                self._options, client_id="headgate-monitor", request_timeout_ms=_TIMEOUT_MS
            )
            await self._client.bootstrap()
        return self._client

    async def _facts(
        self, client: AIOKafkaClient, nodes: Sequence[int]
    ) -> tuple[int, Mapping[str, TopicMetadata]]:
        """Return a node and its metadata of all topics; each poll begins with another node."""
        first = self._polls % len(nodes)
        error: Exception | None = None
        for node in (*nodes[first:], *nodes[:first]):
            try:
                return node, (await read_metadata(client, node)).topics
            except (KafkaError, OSError, TimeoutError) as failure:
                log.warning(
                    "Kafka node %d returned no topic metadata: %s", node, connection_error(failure)
                )
                error = failure
        raise error or NodeNotReadyError("no broker is known")

    async def _listed(
        self, client: AIOKafkaClient, nodes: Sequence[int]
    ) -> tuple[list[ListedGroup], bool]:
        """Return the listed groups, and whether the list is complete.

        A node may be unavailable, or may still load its groups.
        """
        watched: list[ListedGroup] = []
        answers = await self._ask_each(client, [(node, list_groups()) for node in nodes])
        is_whole = len(answers) == len(nodes)
        for error, groups in answers:
            if error:
                is_whole = False
                log.warning("Kafka node did not list its groups: %s", for_code(error).__name__)
            watched += [
                group
                for group in groups
                if group.kind in _WATCHED and group.protocol in ("", "consumer")
            ]
        return watched, is_whole

    async def _find_coordinators(
        self,
        client: AIOKafkaClient,
        any_node: int,
        nodes: Sequence[int],
        listed: Iterable[ListedGroup],
    ) -> None:
        names = {entry.group for entry in listed}
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
        described: dict[str, Described | None] = {entry.group: None for entry in listed}
        new = [entry.group for entry in listed if entry.kind == "consumer"]
        old = [entry.group for entry in listed if entry.kind != "consumer"]
        requests = [(node, describe_consumer(some)) for node, some in self._by_coordinator(new)]
        requests += [(node, describe_classic(some)) for node, some in self._by_coordinator(old)]
        for answer in await self._ask_each(client, requests):
            described |= answer
        return described

    async def _stored(
        self, client: AIOKafkaClient, listed: Iterable[ListedGroup]
    ) -> dict[str, Offsets]:
        requests = [
            (node, fetch_offsets(some))
            for node, some in self._by_coordinator(entry.group for entry in listed)
        ]
        by_group: dict[str, Offsets] = {}
        for answer in await self._ask_each(client, requests):
            by_group |= answer
        for group in {entry.group for entry in listed} - by_group.keys():
            self._coordinators.pop(group, None)  # the group has moved or was deleted
        return by_group

    @staticmethod
    async def _ask_each(
        client: AIOKafkaClient, requests: Iterable[tuple[int, FlexibleRequest[_T]]]
    ) -> list[_T]:
        """Send requests to all nodes at once; the results of silent nodes are missing."""
        answers = await asyncio.gather(
            *(client.send(node, request) for node, request in requests), return_exceptions=True
        )
        answered: list[_T] = []
        for answer in answers:
            if isinstance(answer, KafkaError | OSError | TimeoutError):
                log.warning("Kafka node did not answer: %s", connection_error(answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answered.append(answer)
        if answers and not answered:
            raise NodeNotReadyError("no node answers")
        return answered

    def _topics(self, facts: Mapping[str, TopicMetadata]) -> dict[str, TopicSeen]:
        topics = {}
        for name, (_error, topic_id, partitions) in facts.items():
            bare = TopicState(name, "", topic_id, len(partitions), retention_ms=-1)
            state = with_settings(bare, self._settings.get(name, {}))
            kept_ms = state.rules.kept_ms
            topics[name] = TopicSeen(
                topic_id, partitions, state.min_insync_replicas, -1 if kept_ms is None else kept_ms
            )
        return topics


def _batches(names: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield batches of names, as itertools.batched of Python 3.12."""
    rest = iter(names)
    while some := tuple(islice(rest, size)):
        yield some


# ---- new records of `__consumer_offsets`: every commit of a cluster, in order
#
# Offsets in a transaction appear when the transaction is committed.


TOPIC = "__consumer_offsets"
_WAIT_MS = 500
_MAX_RECORDS = 500  # at a time: a few milliseconds of decoding


class CommitStream:
    """Reader of one cluster's commits: `begin`, `so_far`, then `follow`; always `close`."""

    def __init__(self, options: ClusterOptions) -> None:
        self._consumer = open_consumer(
            options,
            client_id="headgate-monitor",
            isolation_level="read_committed",
            auto_offset_reset="latest",
        )
        self._first: dict[TopicPartition, list[Any]] = {}

    async def begin(self) -> bool:
        """Seek to the end of every partition, and read once to check the permission.

        Returns:
            False if no group has committed yet.

        Raises:
            KafkaError: TopicAuthorizationFailedError if the permission is missing, for example.
            OSError: There is no connection.
        """
        await self._consumer.start()
        places = [TopicPartition(TOPIC, number) for number in range(await self._partitions())]
        if not places:
            return False
        self._consumer.assign(places)
        for tp, end in (await self._consumer.end_offsets(places)).items():
            self._consumer.seek(tp, end)
        self._first = await self._consumer.getmany(timeout_ms=_WAIT_MS)
        return True

    async def _partitions(self) -> int:
        """Return the number of partitions, from a node; 0 if the topic does not exist."""
        client = client_of(self._consumer)
        metadata = (await read_metadata(client, any_node(client), [TOPIC])).topics[TOPIC]
        if metadata.error == UnknownTopicOrPartitionError.errno:
            return 0
        if metadata.error:
            raise for_code(metadata.error)(TOPIC)
        return len(metadata.partitions)

    async def so_far(self) -> list[OffsetsRecord]:
        """Return all records from the begin to the current end. Raises as `begin`."""
        consumer = self._consumer
        ends = await consumer.end_offsets(sorted(consumer.assignment()))
        batches, self._first = self._first, {}
        records = list(_read(batches))
        while [tp for tp, end in ends.items() if await consumer.position(tp) < end]:
            records += _read(await consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MAX_RECORDS))
        return records

    async def follow(self, take: Callable[[OffsetsRecord], None]) -> None:
        """Pass every later record to `take`, in the order of each group.

        It ends only with an error.
        """
        batches, self._first = self._first, {}
        while True:
            for record in _read(batches):
                take(record)
            await asyncio.sleep(0)
            batches = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MAX_RECORDS)

    async def close(self) -> None:
        """Shut down the consumer, in bounded time also if Kafka does not answer."""
        await drop_consumer(self._consumer)


def _read(batches: dict[TopicPartition, list[Any]]) -> Iterator[OffsetsRecord]:
    for records in batches.values():
        for record in records:
            try:
                decoded = read_record(record.key, record.value)
            except ValueError as error:
                log.warning("%s-%d: %s", TOPIC, record.partition, error)
                continue
            if decoded is not None:
                yield decoded
