"""Consumer groups as Kafka describes and stores them: plain values, and `__consumer_offsets`.

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


class GroupMember(NamedTuple):
    """A member of a group. host: as the broker sees it.  places: what is assigned to it.
    subscribed: the topics that it subscribes to; None: not known, such as during a rebalance."""

    member_id: str
    client_id: str
    host: str
    places: frozenset[Partition]
    subscribed: frozenset[str] | None = None


class Described(NamedTuple):
    """A group as its coordinator describes it. protocol: classic or consumer (KIP-848).

    status: the coordinator's word, such as Stable or Empty.
    """

    protocol: str
    status: str
    members: tuple[GroupMember, ...] = ()


class CommittedOffset(NamedTuple):
    """A committed offset and what was committed with it."""

    offset: int
    metadata: str = ""


Offsets = dict[Partition, CommittedOffset]  # all of one group


class PartitionSeen(NamedTuple):
    """A partition in the cluster's metadata. leader: -1 = none."""

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
    """A member in words."""
    return f"{member.client_id} at {member.host} ({member.member_id})"


_OFFSET_COMMIT = (0, 1)
_GROUP_METADATA = 2
_MEMBER_METADATA = 5
_MEMBER_ASSIGNMENT = 8
_COMMIT_FLEXIBLE = 4
_GROUP_FLEXIBLE = 4


# ---- Metadata of commits by members of `headgate.consumer`

# The committed offset lies before the first set of chunks that is incomplete, so done work may
# reach far beyond it. The next owner reads those chunks again and skips events that are done.


class Committer(NamedTuple):
    """The member that committed, by its own account."""

    member: str
    client: str
    term: int


class CommitNote(NamedTuple):
    """done_below: of the events that end below this offset nothing is left to do, except of those
    whose chunks were not all read; None: the committed offset says it all."""

    committer: Committer
    done_below: int | None = None

    def text(self) -> str:
        """The metadata of the commit."""
        said: dict[str, str | int] = self.committer._asdict()
        if self.done_below is not None:
            said["done_below"] = self.done_below
        return json.dumps(said, separators=(",", ":"))


def read_note(metadata: str) -> CommitNote | None:
    """Read the metadata of a commit; None if this library did not write it."""
    if not metadata.startswith("{"):
        return None
    try:
        said = json.loads(metadata.rstrip("\0"))  # librdkafka sends the end of a C string, too
        committer = Committer(str(said["member"]), str(said["client"]), int(said["term"]))
        done_below = said.get("done_below")
        return CommitNote(committer, None if done_below is None else int(done_below))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


# ---- Records of `__consumer_offsets`


class CommitRecord(NamedTuple):
    """An offset commit. stored: None when the offset was deleted.  at_ms: the broker's time; 0 when
    deleted."""

    group: str
    place: Partition
    stored: CommittedOffset | None
    at_ms: int


class ClassicMember(NamedTuple):
    """A member of a classic group. places: empty where its assignment is not a consumer's."""

    member_id: str
    client_id: str
    host: str
    places: frozenset[Partition]


class ClassicGroup(NamedTuple):
    """A classic group after a rebalance; without members: empty, or deleted."""

    group: str
    generation: int
    members: tuple[ClassicMember, ...]


class ConsumerMember(NamedTuple):
    """A member of a KIP-848 group came or changed; client_id, host: None when it left."""

    group: str
    member_id: str
    client_id: str | None
    host: str | None


class MemberAssignment(NamedTuple):
    """What a member of a KIP-848 group owns now: partitions by topic id."""

    group: str
    member_id: str
    epoch: int
    partitions: dict[bytes, tuple[int, ...]]


OffsetsRecord: TypeAlias = CommitRecord | ClassicGroup | ConsumerMember | MemberAssignment


def before_and_after(
    records: Sequence[OffsetsRecord], stored: Mapping[str, Mapping[Partition, CommittedOffset]]
) -> tuple[list[OffsetsRecord], list[OffsetsRecord]]:
    """Cut records at the moment, somewhere while they were written, at which `stored` was read.

    It was each place's newest commit then: if it is among the records, they came before up to
    there, else all of them came after it. Of several equal ones the first counts, which changes
    nothing in the order of what is told. Members are after it.
    """
    last: dict[tuple[str, Partition], int] = {}
    for number, record in enumerate(records):
        if isinstance(record, CommitRecord) and record.stored is not None:
            seen = stored.get(record.group, {}).get(record.place)
            if seen is not None and seen.offset == record.stored.offset:
                last.setdefault((record.group, record.place), number)
    before: list[OffsetsRecord] = []
    after: list[OffsetsRecord] = []
    for number, record in enumerate(records):
        if isinstance(record, CommitRecord):
            is_before = number <= last.get((record.group, record.place), -1)
        else:
            is_before = False
        (before if is_before else after).append(record)
    return before, after


class Cursor:
    """Reads Kafka's encodings, one field after the other. flexible: KIP-482's."""

    __slots__ = ("_at", "_data", "_flexible")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self._flexible = flexible

    def become_flexible(self, flexible: bool) -> None:
        """Read on so; known only once the version was read."""
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
        """The length of an array, a text (size 2) or bytes; -1: null."""
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
        cursor.number(8)  # since when it is in this state
    members = (_classic_member(cursor, version, protocol_type) for _ in range(cursor.count()))
    return ClassicGroup(group, generation, tuple(members))


def _classic_member(cursor: Cursor, version: int, protocol_type: str | None) -> ClassicMember:
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
    return ClassicMember(member_id, client_id, host, places)


def read_assignment(assignment: bytes) -> frozenset[Partition]:
    """The partitions of a classic member (ConsumerProtocolAssignment). Raises ValueError."""
    if not assignment:
        return frozenset()
    cursor = Cursor(assignment)
    cursor.number(2)  # all versions begin alike
    places: set[Partition] = set()
    for _ in range(cursor.number(4)):
        topic = cursor.text() or ""
        places.update(Partition(topic, cursor.number(4)) for _ in range(cursor.number(4)))
    return frozenset(places)


def read_subscription(subscription: bytes) -> frozenset[str] | None:
    """The topics of a classic member (ConsumerProtocolSubscription); None where they are not said.

    Raises ValueError.
    """
    if not subscription:
        return None
    cursor = Cursor(subscription)
    cursor.number(2)  # all versions begin alike
    return frozenset(cursor.text() or "" for _ in range(cursor.number(4)))


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
