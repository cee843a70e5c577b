"""The backlogs of all lanes, by topic; and whose topics others must know of.

While anything of a topic is spooled, no event of it may be `unchanged`, here or at any other
gateway: what lies on disk will be written later, and is newer than what Redis knows. So the topic
goes as one that suppresses nothing: announced (docs/design/suppression-protocol.md), from before
its first event is answered `spooled` until its last one has ended.
"""

from collections.abc import Callable, Iterator, Sequence

from headgate.backends.base import Suppression
from headgate.core.keys import partition_for
from headgate.core.suppression import Scope
from headgate.spool.backlog import Backlog
from headgate.spool.reading import LaneFigures


class Backlogs:
    """topics: those of which anything is spooled, or goes to disk."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, int], Backlog] = {}  # whose turn it is comes first
        self._counts: dict[str, dict[int, int]] = {}
        self._held: dict[str, Scope | None] = {}
        self._suppression: Suppression | None = None
        self._scope_of: Callable[[str], Scope | None] = lambda topic: None

    def announce_with(
        self, suppression: Suppression, scope_of: Callable[[str], Scope | None]
    ) -> None:
        """scope_of: a topic's namespace in force."""
        self._suppression, self._scope_of = suppression, scope_of
        for topic in self._held:
            self._hold(topic)

    def scope_of(self, topic: str) -> Scope | None:
        """The topic's namespace in force."""
        return self._scope_of(topic)

    def __iter__(self) -> Iterator[Backlog]:
        return iter(list(self._all.values()))  # an end may let an event go on that makes another

    def of(self, topic: str, partition: int) -> Backlog:
        """The lane's, made if need be."""
        backlog = self._all.get((topic, partition))
        if backlog is None:
            counts = self._counts.setdefault(topic, {})
            backlog = self._all[topic, partition] = Backlog(topic, partition, counts)
        return backlog

    def found(self, lanes: Sequence[LaneFigures]) -> None:
        """This lies on disk since an earlier run."""
        placed = list[tuple[int, int, int, Backlog]]()
        for one in lanes:
            self.begin(one.topic)
            backlog = self.of(one.topic, one.partition)
            backlog.left += one.events
            backlog.stored(one.events, one.bytes, one.oldest_ms)
            placed += [
                (some.first, partitions, some.events, backlog)
                for partitions, some in one.partitions.items()
            ]
        for _, partitions, events, backlog in sorted(placed, key=lambda some: some[0]):
            backlog.count(partitions, events)

    def behind(self, backlog: Backlog, key: bytes | None, partitions: int) -> tuple[Backlog, int]:
        """Where an event that comes now goes behind all that is spooled of its key, and the
        partition count that it is then placed by.

        Where a topic has again the count of what was spooled first, and what was spooled last has
        another, it goes with the latter.
        """
        last = next(reversed(backlog.topic_counts), partitions)
        if last == partitions or partitions not in backlog.topic_counts:
            return backlog, partitions
        partition = backlog.partition % last if key is None else partition_for(key, last)
        return self.of(backlog.topic, partition), last

    def had_its_turn(self, backlog: Backlog) -> None:
        """All others come before it."""
        place = (backlog.topic, backlog.partition)
        self._all[place] = self._all.pop(place)

    def get(self, topic: str, partition: int) -> Backlog | None:
        """The lane's, if there is one."""
        return self._all.get((topic, partition))

    @property
    def topics(self) -> dict[str, Scope | None]:
        """See the class."""
        return self._held

    def is_behind(self, topic: str) -> bool:
        """Whether anything of the topic is spooled."""
        return topic in self._held

    def must_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Whether the lane's next event, placed by this partition count, has to go behind.

        Where a topic has another size since, a key's earlier events may lie in another lane's
        backlog.
        """
        if backlog.topic not in self._held:
            return False
        if backlog.is_behind:
            return True
        return any(count != partitions for count in backlog.topic_counts)

    def may_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Whether that event may wait in memory for its turn."""
        return backlog.is_closing and backlog.topic_counts.keys() <= {partitions}

    def begin(self, topic: str) -> None:
        """Something of it goes to disk now."""
        if topic not in self._held:
            self._held[topic] = None
            self._hold(topic)

    def tidy(self) -> None:
        """Let go of what is empty. Call it now and then."""
        spooled = {one.topic for one in self if not one.is_empty}
        for topic in self._held.keys() - spooled:
            scope = self._held.pop(topic)
            if scope is not None and self._suppression is not None:
                self._suppression.release(scope)
        for topic, scope in self._held.items():
            if scope is None:  # its topic was not known yet
                self._hold(topic)
        for one in [one for one in self if one.is_empty and not one.is_watched]:
            del self._all[one.topic, one.partition]

    def _hold(self, topic: str) -> None:
        scope = self._scope_of(topic)
        if scope is not None and self._suppression is not None:
            self._suppression.hold(scope)
            self._held[topic] = scope
