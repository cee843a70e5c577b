"""Consumer groups in Kafka: plain values, and the records of `__consumer_offsets`.

The records are Kafka's OffsetCommitKey/Value, GroupMetadataKey/Value (classic groups) and, of
KIP-848's records, ConsumerGroupMemberMetadata and ConsumerGroupCurrentMemberAssignment
(group-coordinator's src/main/resources/common/message/*.json). A key begins with a number for its
kind. Unused kinds and newer versions are None. Truncated bytes raise ValueError.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias


class Partition(NamedTuple):
    """A topic's partition."""

    topic: str
    partition: int


READS_PAUSES = b"headgate.consumer reads pauses"  # user data of a member's subscription


class GroupMember(NamedTuple):
    """A member of a group.

    Attributes:
        member_id: The id that the coordinator gave it.
        client_id: The id that the client chose.
        host: The host that the broker sees.
        assigned: The partitions that are assigned to it.
        subscribed: The topics that it subscribes to; None if not known, such as in a rebalance.
        reads_pauses: Whether it reads Headgate's pauses; None if not known.
    """

    member_id: str
    client_id: str
    host: str
    assigned: frozenset[Partition]
    subscribed: frozenset[str] | None = None
    reads_pauses: bool | None = None


class Described(NamedTuple):
    """A group as its coordinator describes it.

    Attributes:
        protocol: classic or consumer (KIP-848).
        status: The coordinator's name of the state, such as Stable or Empty.
        members: The members.
    """

    protocol: str
    status: str
    members: tuple[GroupMember, ...] = ()


class CommittedOffset(NamedTuple):
    """A committed offset and its metadata."""

    offset: int
    metadata: str = ""


Offsets = dict[Partition, CommittedOffset]  # all of one group


class PartitionSeen(NamedTuple):
    """A partition in the cluster's metadata; `leader` is -1 if there is none."""

    leader: int
    replicas: int
    in_sync: int


class TopicSeen(NamedTuple):
    """A topic in the cluster's metadata."""

    topic_id: bytes
    partitions: tuple[PartitionSeen, ...]
    min_in_sync: int = 1
    retention_ms: int = -1


def named(member: GroupMember) -> str:
    """Describe a member in words."""
    return f"{member.client_id} at {member.host} ({member.member_id})"


_OFFSET_COMMIT = (0, 1)
_GROUP_METADATA = 2
_MEMBER_METADATA = 5
_MEMBER_ASSIGNMENT = 8
_COMMIT_FLEXIBLE = 4
_GROUP_FLEXIBLE = 4


# ---- metadata of commits by members of `headgate.consumer`
#
# The committed offset is before the first incomplete set of chunks, so many later events may be
# done already. The next owner reads those chunks again and skips events that are done.


class Committer(NamedTuple):
    """The member that committed, from the metadata that it wrote."""

    member: str
    client: str
    term: int


class CommitNote(NamedTuple):
    """The metadata of a commit.

    Attributes:
        committer: The member that committed.
        done_below: All events that end below this offset are done, except those whose chunks were
            not all read. None if the committed offset is exact.
    """

    committer: Committer
    done_below: int | None = None

    def text(self) -> str:
        """Return the metadata as JSON."""
        said: dict[str, str | int] = self.committer._asdict()
        if self.done_below is not None:
            said["done_below"] = self.done_below
        return json.dumps(said, separators=(",", ":"))


def read_note(metadata: str) -> CommitNote | None:
    """Read the metadata of a commit; None if this library did not write it."""
    if not metadata.startswith("{"):
        return None
    try:
        said = json.loads(metadata.rstrip("\0"))  # librdkafka includes the terminator of a C string
        committer = Committer(str(said["member"]), str(said["client"]), int(said["term"]))
        done_below = said.get("done_below")
        return CommitNote(committer, None if done_below is None else int(done_below))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


# ---- records of `__consumer_offsets`


class CommitRecord(NamedTuple):
    """An offset commit.

    Attributes:
        group: The group.
        partition: The partition.
        stored: The offset; None if it was deleted.
        at_ms: The broker's time; 0 if the offset was deleted.
    """

    group: str
    partition: Partition
    stored: CommittedOffset | None
    at_ms: int


class ClassicGroup(NamedTuple):
    """A classic group after a rebalance; without members it is empty or deleted."""

    group: str
    generation: int
    members: tuple[GroupMember, ...]


class ConsumerMember(NamedTuple):
    """A change of a KIP-848 group's member; client_id and host are None if it left."""

    group: str
    member_id: str
    client_id: str | None
    host: str | None


class MemberAssignment(NamedTuple):
    """The current assignment of a KIP-848 group's member: partitions by topic id."""

    group: str
    member_id: str
    epoch: int
    partitions: dict[bytes, tuple[int, ...]]


OffsetsRecord: TypeAlias = CommitRecord | ClassicGroup | ConsumerMember | MemberAssignment


def before_and_after(
    records: Sequence[OffsetsRecord], stored: Mapping[str, Mapping[Partition, CommittedOffset]]
) -> tuple[list[OffsetsRecord], list[OffsetsRecord]]:
    """Split records at the moment at which `stored` was read.

    `stored` has the newest commit of each partition at that moment. If this commit is among the
    records, the partition's records up to it came before, else all of them came after. The first
    of several equal commits counts, which does not change the order. Records of
    members count as after.

    Returns:
        The records before that moment, and the records after it.
    """
    last: dict[tuple[str, Partition], int] = {}
    for number, record in enumerate(records):
        if isinstance(record, CommitRecord) and record.stored is not None:
            seen = stored.get(record.group, {}).get(record.partition)
            if seen is not None and seen.offset == record.stored.offset:
                last.setdefault((record.group, record.partition), number)
    before: list[OffsetsRecord] = []
    after: list[OffsetsRecord] = []
    for number, record in enumerate(records):
        if isinstance(record, CommitRecord):
            is_before = number <= last.get((record.group, record.partition), -1)
        else:
            is_before = False
        (before if is_before else after).append(record)
    return before, after


class Cursor:
    """Cursor over data in Kafka's encoding; `flexible` selects the one of KIP-482."""

    __slots__ = ("_at", "_data", "_flexible")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self._flexible = flexible

    def become_flexible(self, flexible: bool) -> None:
        """Set the encoding of the following fields, which depends on the version."""
        self._flexible = flexible

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError("a record of __consumer_offsets is cut short")
        self._at += count
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def count(self, size: int = 4) -> int:
        """Return the length of an array, a text (size 2) or bytes; -1 for null."""
        return self.varint() - 1 if self._flexible else self.number(size)

    def text(self) -> str | None:
        length = self.count(2)
        return None if length < 0 else self.take(length).decode("utf-8", "replace")

    def blob(self) -> bytes:
        return self.take(max(0, self.count()))


def read_record(key: bytes | None, value: bytes | None) -> OffsetsRecord | None:
    """Read one record. Raises ValueError."""
    if key is None:
        return None
    cursor = Cursor(key)
    kind = cursor.number(2)
    if kind in _OFFSET_COMMIT:
        return _commit(cursor, value)
    if kind == _GROUP_METADATA:
        return _classic(cursor.text() or "", value)
    if kind == _MEMBER_METADATA:
        return _consumer_member(cursor, value)
    return _assignment(cursor, value) if kind == _MEMBER_ASSIGNMENT else None


def _commit(key: Cursor, value: bytes | None) -> CommitRecord | None:
    group = key.text() or ""
    partition = Partition(key.text() or "", key.number(4))
    if value is None:
        return CommitRecord(group, partition, None, 0)
    cursor = Cursor(value)
    version = cursor.number(2)
    if version > _COMMIT_FLEXIBLE:
        return None
    cursor.become_flexible(version >= _COMMIT_FLEXIBLE)
    offset = cursor.number(8)
    if version >= 3:
        cursor.number(4)  # the leader epoch
    metadata = cursor.text() or ""
    return CommitRecord(group, partition, CommittedOffset(offset, metadata), cursor.number(8))


def _classic(group: str, value: bytes | None) -> ClassicGroup | None:
    if value is None:
        return ClassicGroup(group, -1, ())
    cursor = Cursor(value)
    version = cursor.number(2)
    if version > _GROUP_FLEXIBLE:
        return None
    cursor.become_flexible(version >= _GROUP_FLEXIBLE)
    protocol_type = cursor.text()
    generation = cursor.number(4)
    cursor.text()  # the protocol's name
    cursor.text()  # the leader
    if version >= 2:
        cursor.number(8)  # the time of its last change of state
    members = (_classic_member(cursor, version, protocol_type) for _ in range(cursor.count()))
    return ClassicGroup(group, generation, tuple(members))


def _classic_member(cursor: Cursor, version: int, protocol_type: str | None) -> GroupMember:
    member_id = cursor.text() or ""
    if version >= 3:
        cursor.text()  # group.instance.id
    client_id, host = cursor.text() or "", cursor.text() or ""
    if version >= 1:
        cursor.number(4)  # rebalance timeout
    cursor.number(4)  # session timeout
    cursor.blob()  # subscription
    assignment = cursor.blob()
    if version >= _GROUP_FLEXIBLE:
        _skip_tags(cursor)
    places = read_assignment(assignment) if protocol_type == "consumer" else frozenset[Partition]()
    return GroupMember(member_id, client_id, host, places)


def read_assignment(assignment: bytes) -> frozenset[Partition]:
    """Parse the partitions of a classic member (ConsumerProtocolAssignment).

    Raises:
        ValueError: The bytes are truncated.
    """
    if not assignment:
        return frozenset()
    cursor = Cursor(assignment)
    cursor.number(2)  # all versions have the same beginning
    places: set[Partition] = set()
    for _ in range(cursor.number(4)):
        topic = cursor.text() or ""
        places.update(Partition(topic, cursor.number(4)) for _ in range(cursor.number(4)))
    return frozenset(places)


def read_subscription(subscription: bytes) -> tuple[frozenset[str], bytes] | None:
    """Parse a classic member's ConsumerProtocolSubscription; None if not present.

    Returns:
        The topics, and the user data of the assignor.

    Raises:
        ValueError: The bytes are truncated.
    """
    if not subscription:
        return None
    cursor = Cursor(subscription)
    cursor.number(2)  # all versions begin alike
    topics = frozenset(cursor.text() or "" for _ in range(cursor.number(4)))
    try:
        return topics, cursor.blob()
    except ValueError:  # some clients leave it out
        return topics, b""


def _consumer_member(key: Cursor, value: bytes | None) -> ConsumerMember | None:
    group, member = key.text() or "", key.text() or ""
    if value is None:
        return ConsumerMember(group, member, None, None)
    cursor = Cursor(value, flexible=True)
    if cursor.number(2) > 0:
        return None
    cursor.text()  # group.instance.id
    cursor.text()  # rack
    return ConsumerMember(group, member, cursor.text() or "", cursor.text() or "")


def _assignment(key: Cursor, value: bytes | None) -> MemberAssignment | None:
    group, member = key.text() or "", key.text() or ""
    if value is None:
        return MemberAssignment(group, member, -1, {})
    cursor = Cursor(value, flexible=True)
    if cursor.number(2) > 0:
        return None
    epoch = cursor.number(4)
    cursor.number(4)  # the epoch before
    cursor.number(1)  # its state
    partitions = {}
    for _ in range(cursor.count()):
        topic_id = cursor.take(16)
        partitions[topic_id] = tuple(cursor.number(4) for _ in range(cursor.count()))
        _skip_tags(cursor)
    return MemberAssignment(group, member, epoch, partitions)


def _skip_tags(cursor: Cursor) -> None:
    for _ in range(cursor.varint()):
        cursor.varint()
        cursor.take(cursor.varint())
