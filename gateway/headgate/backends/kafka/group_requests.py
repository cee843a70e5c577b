"""Kafka's requests about consumer groups: many groups at once, of both protocols.

Sources: ListGroups, FindCoordinator, OffsetFetch, DescribeGroups, ConsumerGroupDescribe and
ListOffsets *Request.json / *Response.json of org.apache.kafka.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headgate.core.groups.commit_records import read_assignment, read_subscription
from headgate.core.groups.facts import (
    CommittedOffset,
    Described,
    GroupMember,
    Offsets,
    Partition,
)
from headgate.kafka.flexible import NO_TAGS, NULL, FlexibleRequest, array, text
from headgate.kafka.wire import Reader

_FIND_COORDINATOR, _OFFSET_FETCH, _DESCRIBE_GROUPS, _LIST_GROUPS = 10, 9, 15, 16
_LIST_OFFSETS, _CONSUMER_GROUP_DESCRIBE = 2, 69
_GROUP = b"\0"  # a coordinator's key type
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
_OFFSET = struct.Struct(">iqi")
_LISTED = struct.Struct(">ihqqi")


class ListedGroup(NamedTuple):
    """A group as ListGroups has it. kind: consumer for KIP-848, classic, share, streams; empty
    where the broker is older than Kafka 3.8.  protocol: consumer, connect, ... of classic ones."""

    group: str
    protocol: str
    status: str
    kind: str


def list_groups() -> FlexibleRequest[tuple[int, list[ListedGroup]]]:
    """All groups that a broker coordinates. Answers (error code, groups)."""

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
    """The node that coordinates each group; those with an error are left out."""
    keys = array(map(text, groups))
    return FlexibleRequest(
        _FIND_COORDINATOR, (4, 4), lambda _: _GROUP + keys, lambda reader, _: _coordinators(reader)
    )


def _coordinators(reader: Reader) -> dict[str, int]:
    reader.skip(4)
    found = {}
    for _ in range(reader.count()):
        group, node = reader.text() or "", reader.int32()
        reader.text()  # host
        reader.skip(4)  # port
        if reader.int16() == 0:
            found[group] = node
        reader.text()  # the error in words
        reader.tags()
    return found


def fetch_offsets(groups: Iterable[str]) -> FlexibleRequest[dict[str, Offsets]]:
    """All committed offsets of each group; groups with an error are left out.

    Offsets of transactions that are not committed yet do not count (require_stable = false).
    """
    body = array(text(group) + NULL + NO_TAGS for group in groups)
    return FlexibleRequest(
        _OFFSET_FETCH, (8, 8), lambda _: body + b"\0", lambda reader, _: _fetched(reader)
    )


def _fetched(reader: Reader) -> dict[str, Offsets]:
    reader.skip(4)
    found = {}
    for _ in range(reader.count()):
        group = reader.text() or ""
        offsets: Offsets = {}
        for _ in range(reader.count()):
            _fetched_topic(reader, offsets)
        if reader.int16() == 0:
            found[group] = offsets
        reader.tags()
    return found


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
    """Members of classic groups and what they own; groups with an error are left out."""
    body = array(map(text, groups)) + b"\0"
    return FlexibleRequest(
        _DESCRIBE_GROUPS, (5, 5), lambda _: body, lambda reader, _: _classic_groups(reader)
    )


def _classic_groups(reader: Reader) -> dict[str, Described]:
    reader.skip(4)
    found = {}
    for _ in range(reader.count()):
        error, group, status = reader.int16(), reader.text() or "", reader.text() or ""
        is_consumers = reader.text() == "consumer"
        reader.text()  # the assignor
        members = tuple(_classic_member(reader, is_consumers) for _ in range(reader.count()))
        reader.skip(4)  # authorized operations
        reader.tags()
        if error == 0:
            found[group] = Described("classic", status, members)
    return found


def _classic_member(reader: Reader, is_consumers: bool) -> GroupMember:
    member_id = reader.text() or ""
    reader.text()  # group.instance.id
    client_id, host = reader.text() or "", reader.text() or ""
    subscription = reader.take(reader.count())
    assignment = reader.take(reader.count())
    reader.tags()
    if not is_consumers:
        return GroupMember(member_id, client_id, host, frozenset())
    topics = _subscribed(subscription)
    return GroupMember(member_id, client_id, host, _assigned(assignment), topics)


def _subscribed(subscription: bytes) -> frozenset[str] | None:
    try:
        return read_subscription(subscription)
    except ValueError:  # as in `_assigned`
        return None


def _assigned(assignment: bytes) -> frozenset[Partition]:
    try:
        return read_assignment(assignment)
    except ValueError:  # the broker passes on what a client's own assignor wrote, unread
        return frozenset()


def describe_consumer(groups: Iterable[str]) -> FlexibleRequest[dict[str, Described]]:
    """The same of KIP-848 groups, of which DescribeGroups says that they are dead."""
    body = array(map(text, groups)) + b"\0"
    return FlexibleRequest(_CONSUMER_GROUP_DESCRIBE, (0, 1), lambda _: body, _consumer_groups)


def _consumer_groups(reader: Reader, version: int) -> dict[str, Described]:
    reader.skip(4)
    found = {}
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
            found[group] = Described("consumer", status, members)
    return found


def _consumer_member(reader: Reader, version: int) -> GroupMember:
    member_id = reader.text() or ""
    reader.text()  # group.instance.id
    reader.text()  # rack
    reader.skip(4)  # its epoch
    client_id, host = reader.text() or "", reader.text() or ""
    topics = frozenset(reader.text() or "" for _ in range(reader.count()))
    pattern = reader.text()
    places = _consumer_places(reader)
    _consumer_places(reader)  # what it is to own in the end
    if version >= 1:
        reader.skip(1)  # the kind of member
    reader.tags()
    # Which topics a pattern matches is the broker's to say, by what it assigns.
    return GroupMember(member_id, client_id, host, places, None if pattern else topics)


def _consumer_places(reader: Reader) -> frozenset[Partition]:
    places: set[Partition] = set()
    for _ in range(reader.count()):
        reader.skip(16)  # the topic's id
        topic = reader.text() or ""
        places.update(Partition(topic, reader.int32()) for _ in range(reader.count()))
        reader.tags()
    reader.tags()
    return frozenset(places)


class Found(NamedTuple):
    """A place in a log. at_ms: of the record there, -1 for LATEST and EARLIEST.

    offset: -1 where no record is as young as was asked for.
    """

    at_ms: int
    offset: int


def list_offsets(
    partitions: Mapping[str, Sequence[int]], timestamp: int
) -> FlexibleRequest[dict[Partition, Found]]:
    """The first record of a time in ms since 1970, or LATEST or EARLIEST, of partitions that one
    node leads. Partitions with an error are left out.
    """
    tail = struct.pack(">iq", -1, timestamp) + NO_TAGS
    topics = array(
        text(topic) + array(struct.pack(">i", number) + tail for number in numbers) + NO_TAGS
        for topic, numbers in partitions.items()
    )
    body = struct.pack(">ib", -1, 0) + topics  # no replica; also what is not committed
    return FlexibleRequest(
        _LIST_OFFSETS, (6, 7), lambda _: body, lambda reader, _: _offsets(reader)
    )


def _offsets(reader: Reader) -> dict[Partition, Found]:
    reader.skip(4)
    found = {}
    for _ in range(reader.count()):
        topic = reader.text() or ""
        for _ in range(reader.count()):
            number, error, at_ms, offset, _epoch = reader.unpack(_LISTED)
            if error == 0:
                found[Partition(topic, number)] = Found(at_ms, offset)
            reader.tags()
        reader.tags()
    return found
