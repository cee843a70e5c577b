"""What one cluster says of a topic's offsets and of a group, for planning a replay."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headgate.backends.kafka.compacted import SILENCE_S, consumer_of, ends_of
from headgate.backends.kafka.group_requests import describe_consumer
from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups.facts import Described
from headgate.core.refusal import brief
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.metadata import any_node, read_metadata

_SAMPLE_S = 3.0
_SAMPLE_RECORDS = 500
_POLL_MS = 200


class Extent(NamedTuple):
    """First offset that is there, and the one behind the last that is committed."""

    start: int
    end: int


class Sample(NamedTuple):
    """Some records of a tier. offsets: those that they are of, of which some have no record.

    bytes: of keys, values and headers.
    """

    records: int
    offsets: int
    bytes: int


class TierView:
    """Asks one cluster. Every call raises KafkaError, OSError or TimeoutError."""

    def __init__(self, options: ClusterOptions, consumer: AIOKafkaConsumer) -> None:
        self._options = options
        self._consumer = consumer

    async def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None when it is not there."""
        if topic not in await self._consumer.topics():
            return None
        await ends_of(self._consumer, _places(topic, [0]))  # learns the topic's partitions
        return len(self._consumer.partitions_for_topic(topic) or ()) or None

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Kafka's ids, as its tools show them, of those of these topics that are there."""
        client = self._consumer._client
        there = (await read_metadata(client, any_node(client))).topics
        return {topic: there[topic].uuid for topic in topics if topic in there}

    async def topic_id(self, topic: str) -> str | None:
        """The same of one topic; None when it is not there."""
        return (await self.topic_ids([topic])).get(topic)

    async def extents(self, topic: str, partitions: Iterable[int]) -> dict[int, Extent]:
        """Where the logs begin and end (last stable offset)."""
        places = _places(topic, partitions)
        ends = await ends_of(self._consumer, places)
        begins = await self._consumer.beginning_offsets(places)
        return {place.partition: Extent(begins[place], ends[place]) for place in places}

    async def at(
        self, topic: str, partitions: Iterable[int], time_ms: int
    ) -> dict[int, int | None]:
        """The first offset whose record is of this time or later; None where there is none."""
        places = _places(topic, partitions)
        await ends_of(self._consumer, places)  # learns the leaders
        found = await self._consumer.offsets_for_times(dict.fromkeys(places, time_ms))
        return {place.partition: _offset(found.get(place)) for place in places}

    async def first_since(
        self, topic: str, starts: Mapping[int, int], time_ms: int
    ) -> dict[int, int]:
        """The first record from each of these offsets on that is of this time or later, found by
        reading: a lookup by time finds the markers of transactions as well, whose time is that of
        the mirror. Partitions that have none are left out."""
        ends = await self.extents(topic, starts)
        self._consumer.assign(_places(topic, starts))
        waiting = set(self._consumer.assignment())
        for place in waiting:
            self._consumer.seek(place, starts[place.partition])
        found: dict[int, int] = {}
        async with asyncio.timeout(SILENCE_S):
            while waiting:
                batches = await self._consumer.getmany(*waiting, timeout_ms=_POLL_MS)
                for place, records in batches.items():
                    for record in records:
                        if record.timestamp >= time_ms:
                            found[place.partition] = record.offset
                            break
                positions = {one: await self._consumer.position(one) for one in waiting}
                waiting = {
                    one
                    for one, position in positions.items()
                    if one.partition not in found and position < ends[one.partition].end
                }
        self._consumer.unsubscribe()
        return found

    async def sample(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Sample:
        """Read the first records of some ranges of offsets, by partition, `end` without.

        It ends once the ranges have been read, or some hundred records, or after a few seconds.
        """
        places = {TopicPartition(topic, one): bounds for one, bounds in ranges.items()}
        self._consumer.assign(list(places))
        for place, (start, _) in places.items():
            self._consumer.seek(place, start)
        until = asyncio.get_running_loop().time() + _SAMPLE_S
        records, size, waiting = 0, 0, set(places)
        while waiting and records < _SAMPLE_RECORDS and asyncio.get_running_loop().time() < until:
            found = await self._consumer.getmany(
                *waiting, timeout_ms=_POLL_MS, max_records=_SAMPLE_RECORDS
            )
            inside = [
                _size(record)
                for place, batch in found.items()
                for record in batch
                if record.offset < places[place][1]
            ]
            records, size = records + len(inside), size + sum(inside)
            positions = {one: await self._consumer.position(one) for one in waiting}
            waiting = {one for one, at in positions.items() if at < places[one][1]}
        offsets = 0
        for place, (start, end) in places.items():
            offsets += min(end, await self._consumer.position(place)) - start
        self._consumer.unsubscribe()
        return Sample(records, offsets, size)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition."""
        async with admin_of(self._options) as admin:
            found = await admin.list_consumer_group_offsets(group)
        return {
            (one.topic, one.partition): at.offset for one, at in found.items() if at.offset >= 0
        }


def _places(topic: str, partitions: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def _offset(found: Any) -> int | None:
    """aiokafka says -1 where there is none, or nothing."""
    return None if found is None or found.offset < 0 else int(found.offset)


def _size(record: object) -> int:
    key, value = getattr(record, "key", None), getattr(record, "value", None)
    headers = getattr(record, "headers", ())
    plain = len(key or b"") + len(value or b"")
    return plain + sum(len(name) + len(text or b"") for name, text in headers)


async def busy(options: ClusterOptions, group: str) -> str | None:
    """Why offsets of a group cannot be set now: it has members, or may have; None = they can.

    Groups of the new protocol (KIP-848) answer the old question as if they were not there.
    """
    async with admin_of(options) as admin:
        (answer,) = await admin.describe_consumer_groups([group])
        _, _, state, _, _, members, *_ = answer.groups[0]
        if state == "Dead" and group in {name for name, _ in await admin.list_consumer_groups()}:
            found = await _described(admin, group)
            if found is None:
                return (
                    f"group {brief(group)} is there, but Kafka does not say who is in it: ask again"
                )
            state, members = found.status, found.members
    if members:
        return f"group {brief(group)} has {len(members)} members ({state}): stop them first"
    return None


async def _described(admin: AIOKafkaAdminClient, group: str) -> Described | None:
    """A group of the new protocol."""
    node = await admin.find_coordinator(group)
    found: dict[str, Described] = await admin._client.send(node, describe_consumer([group]))
    return found.get(group)


@asynccontextmanager
async def view_of(options: ClusterOptions) -> AsyncIterator[TierView]:
    """A view of one cluster, with one connection."""
    async with consumer_of(options) as consumer:
        yield TierView(options, consumer)


@asynccontextmanager
async def admin_of(options: ClusterOptions) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client, closed at the end."""
    admin = AIOKafkaAdminClient(**client_arguments(options), client_id="headgate-control")
    use_own_metadata(admin._client)
    try:
        async with asyncio.timeout(SILENCE_S):
            await admin.start()
        yield admin
    finally:
        await admin.close()
