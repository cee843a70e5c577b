"""The backlogs of all lanes, by topic; and whose topics others must know of.

While anything of a topic is spooled, no event of it may be `unchanged`, here or at any other
gateway: what lies on disk will be written later, and is newer than what Redis knows. So the topic
goes as one that suppresses nothing: announced (docs/design/suppression-protocol.md), from before
its first event is answered `spooled` until its last one has ended.
"""

from collections.abc import Callable, Iterator

from headgate.backends.base import Suppression
from headgate.core.suppression.protocol import Scope
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

    def found(self, figures: LaneFigures) -> None:
        """This lies on disk since an earlier run."""
        self.begin(figures.topic)
        backlog = self.of(figures.topic, figures.partition)
        backlog.left += figures.events
        backlog.stored(figures.events, figures.bytes, figures.oldest_ms)
        for partitions, events in figures.partitions.items():
            backlog.count(partitions, events)

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

        Where a topic has grown since, a key's earlier events may lie in another lane's backlog.
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
