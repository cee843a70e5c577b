"""What is seen of consumer groups and of the logs that they read: plain values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headgate.core.groups.log_ends import LogEnds

# The note of a commit of `headgate.consumer`: the member, and the events that are done.
#
# The committed offset lies before the first set of chunks that is incomplete, so what is done may
# reach far beyond it. The next owner reads those chunks again; events that are done it leaves out.


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


class SeenCommit(NamedTuple):
    """One commit. at_ms: the broker's time, since 1970."""

    offset: int
    at_ms: int
    committer: Committer | None


class Assignee(NamedTuple):
    """Whose partition it is.  before: the client and member that had it until `since_ms`."""

    member: GroupMember
    since_ms: int
    before: str | None


@dataclass(slots=True)
class Regression:
    """A commit that was lower than the one before. owner, owner_before: clients and members."""

    group: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    at_ms: int
    committer: Committer | None
    owner: str | None
    owner_before: str | None
    owner_since_ms: int | None
    recovered_ms: int | None = None


class Drift(NamedTuple):
    """A topic that is not what it was. what: recreated, or partitions (their count changed)."""

    what: str
    topic: str
    before: str
    after: str
    at_ms: int


@dataclass(slots=True)
class PartitionLog:
    """One partition's log. retention_ms: below 0 = kept for ever, or not known.

    empty: from the first offset to the second there is no record that a group could read: markers
    of transactions, and what was aborted.  readable: the offset of a record, -1 = none is known.
    """

    start: int
    end: int
    ends: LogEnds
    retention_ms: int = -1
    empty: tuple[int, int] = (0, 0)
    readable: int = -1

    def next_record(self, offset: int) -> int:
        """Where reading from this offset really begins, as far as is known."""
        first, last = self.empty
        return last if first <= offset < last else offset

    def is_read(self, start: int, end: int, record: int) -> None:
        """The first record from `start` on lies at `record`, or there is none before `end`."""
        if record < end:
            self.readable = record
        first, last = self.empty
        if record > start and record >= last:
            self.empty = (first if first <= start <= last else start, record)


Logs = Mapping[Partition, PartitionLog]


def named(member: GroupMember) -> str:
    """A member in words."""
    return f"{member.client_id} at {member.host} ({member.member_id})"
