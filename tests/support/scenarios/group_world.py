"""A scripted cluster for the monitor's rules: logs that grow, members that own and commit."""

from __future__ import annotations

import json
from collections.abc import Callable

from headgate.kafka.groups import (
    CommittedOffset,
    Described,
    GroupMember,
    Partition,
    PartitionSeen,
    TopicSeen,
)
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions
from headgate.monitor.group_watch import GroupReport, PartitionReport, Regression
from headgate.monitor.rules import LagState
from support.scenarios.burrow_rules import Burrow

GROUP, TOPIC = "billing", "orders"
START_MS = 1_700_000_000_000
POLL_MS = 10_000
SOUND = PartitionSeen(1, 3, 3)


class World:
    """One topic, one group. has_commit_stream: every commit is seen, not only what a poll finds."""

    def __init__(
        self,
        *,
        has_commit_stream: bool = True,
        partitions: int = 1,
        options: WatchOptions | None = None,
    ) -> None:
        self.has_commit_stream = has_commit_stream
        self.now_ms = START_MS
        self.watch = ClusterWatch(options or WatchOptions(), {})
        self.partitions = partitions
        self.starts = [0] * partitions
        self.ends = [0] * partitions
        self.stored: dict[int, CommittedOffset] = {}
        self.members: dict[str, set[int]] = {}
        self.subscribed: frozenset[str] | None = None  # of every member; None: not known
        self.unreadable: set[int] = set()  # offsets of partition 0 that hold no record
        self.asked: list[tuple[int, int]] = []  # spans in which a record was looked for
        self.topic = TopicSeen(b"1" * 16, (SOUND,) * partitions, 2, 86_400_000)
        self._polled = False
        self.burrow = Burrow()  # of partition 0
        self.burrow_says: list[str] = []  # after each poll

    def member(self, name: str, *owned: int) -> None:
        """A member owns these partitions; without any it is idle."""
        for others in self.members.values():
            others.difference_update(owned)
        self.members.setdefault(name, set()).update(owned)

    def leaves(self, name: str) -> None:
        del self.members[name]

    def commit(self, offset: int, partition: int = 0, by: str | None = None) -> Regression | None:
        """A commit; by: a member of ours that signs it."""
        said = "" if by is None else json.dumps({"member": by, "client": f"{by}-app", "term": 3})
        self.stored[partition] = stored = CommittedOffset(offset, said)
        if partition == 0:
            self.burrow.committed(offset, self.now_ms)
        if not self.has_commit_stream or not self._polled:
            return None
        place = Partition(TOPIC, partition)
        return self.watch.committed(GROUP, place, stored, self.now_ms, self.now_ms)

    def keep_up(self, partition: int = 0, by: str | None = None) -> None:
        self.commit(self.ends[partition], partition, by)

    def poll(self) -> list[Regression]:
        """One poll of the monitor; then the time until the next."""
        offsets = {
            Partition(TOPIC, number): (self.starts[number], end)
            for number, end in enumerate(self.ends)
        }
        stored = {GROUP: {Partition(TOPIC, number): one for number, one in self.stored.items()}}
        spans = self.watch.next_doubtful(stored, offsets)
        self.watch.topics_seen({TOPIC: self.topic}, self.now_ms)
        self.watch.logs_seen(offsets, self.now_ms)
        self.watch.note_read(spans, {place: self._first(place, *spans[place]) for place in spans})
        members = tuple(
            GroupMember(
                name,
                f"{name}-app",
                "/10.0.0.1",
                frozenset(Partition(TOPIC, one) for one in owned),
                self.subscribed,
            )
            for name, owned in self.members.items()
        )
        status = "Stable" if members else "Empty"
        self.watch.groups_seen({GROUP: Described("classic", status, members)}, self.now_ms)
        tells = not self.has_commit_stream or not self._polled
        falls = self.watch.sampled(stored, self.now_ms, infer_commits=tells)
        self._polled = True
        self.burrow.refreshed(self.ends[0])
        self.burrow_says.append(self.burrow.state(self.now_ms))
        self.judged = self.watch.judged(self.now_ms, has_commit_stream=self.has_commit_stream)
        self.now_ms += POLL_MS
        return falls

    def _first(self, place: Partition, start: int, end: int) -> int:
        if place.partition == 0:
            self.asked.append((start, end))
        holes = self.unreadable if place.partition == 0 else set()
        return next((one for one in range(start, end) if one not in holes), end)

    def marker(self) -> None:
        """A transaction ends: an offset that no consumer is given."""
        self.unreadable.add(self.ends[0])
        self.ends[0] += 1

    def polls(self, count: int, each: Callable[[], object] = lambda: None) -> list[LagState]:
        """Do something before each poll; return the group's state after every one."""
        states = []
        for _ in range(count):
            each()
            self.poll()
            states.append(self.group.state)
        return states

    def produce(self, count: int, partition: int = 0) -> None:
        self.ends[partition] += count

    @property
    def group(self) -> GroupReport:
        return self.judged[GROUP]

    def partition(self, number: int = 0) -> PartitionReport:
        return next(one for one in self.group.partitions if one.partition.partition == number)
