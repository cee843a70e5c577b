"""Events of this process from arrival to settlement: their order, their waits, and their ends."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Scope

# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_QUEUED: Final = Stage.QUEUED
_RESERVING: Final = Stage.RESERVING
_LANE: Final = Stage.LANE


class Arrivals:
    """All events from arrival to end: the order in each key, and followers of equal events.

    It is the only list of events in flight. The latest event of each key is apart from the few
    earlier ones.

    Attributes:
        latest: The newest event of each key in flight here, by entry. Loops over many events use it
            directly: they call `arrive` only if `latest.setdefault` returns another event, and
            call `latest.pop` and `left` instead of `leave`.
        earlier: The other events in flight.
        equal_before: By event, the equal event right before it.
    """

    __slots__ = ("earlier", "equal_before", "latest")

    def __init__(self) -> None:
        self.latest: dict[bytes, Publish] = {}
        self.equal_before: dict[Publish, Publish] = {}
        self.earlier: set[Publish] = set()

    def __iter__(self) -> Iterator[Publish]:
        yield from self.latest.values()
        yield from self.earlier

    def arrive(self, publish: Publish, latest: Publish) -> bool:
        """Note an event behind its key's latest event.

        Args:
            publish: The event.
            latest: Latest event of its key.

        Returns:
            True if the event follows the latest one, and needs no reservation.
        """
        if latest.digest == publish.digest:
            if may_follow(publish, latest):
                _follow(publish, latest)
                return True
            if latest.stage is _RESERVING and not publish.reserved.force:
                self.equal_before[publish] = latest
        self.earlier.add(latest)
        self.latest[publish.reserved.entry] = publish
        return False

    def join_in_lane(self, publish: Publish) -> bool:
        """Join the key's last record in the lane if it is equal; return whether it was.

        `arrive` noted the equal event right before this one. Only that event's own leader can lie
        between the two.
        """
        latest = self.equal_before.pop(publish, None)
        if latest is None:
            return False
        leader = latest.leader or latest
        if leader.stage is not _LANE or not may_follow(publish, leader):
            return False
        if self.latest.get(publish.reserved.entry) is publish:
            self.latest[publish.reserved.entry] = leader
            self.earlier.discard(leader)
        else:
            self.earlier.discard(publish)
        _follow(publish, leader)
        return True

    def leave(self, publish: Publish) -> None:
        """Remove an event that has ended: none can follow it any more."""
        self.left(publish, self.latest.pop(publish.reserved.entry, None))

    def left(self, publish: Publish, latest: Publish | None) -> None:
        """Remove an event after `latest` was popped; put `latest` back if it is another event."""
        if latest is not publish:
            if latest is not None:
                self.latest[publish.reserved.entry] = latest
            self.earlier.discard(publish)
        if self.equal_before:
            self.equal_before.pop(publish, None)

    def rename(self) -> None:
        """Index the events again, because some entries have changed."""
        self.latest = {publish.reserved.entry: publish for publish in self.latest.values()}


def may_follow(publish: Publish, latest: Publish) -> bool:
    """Return whether an event may join its key's latest event here, which has the same content.

    It may join only before the latest event's reservation is sent, or while that event waits in
    its lane: then no other record of the key can come between the two. Afterwards another process'
    record may already follow it (counterexample 3 of docs/design/suppression-protocol.md). It must
    not join if another partition count placed it: newer records of the key are in another
    partition.
    """
    return (
        (latest.stage is _QUEUED or latest.stage is _LANE)
        and not latest.dropped
        and not publish.reserved.force
        and latest.digest == publish.digest
        and latest.reserved.partitions == publish.reserved.partitions
    )


def _follow(publish: Publish, leader: Publish) -> None:
    """Attach a publish and its own followers to a leader."""
    if leader.followers is None:
        leader.followers = []
    for follower in (publish, *(publish.followers or ())):
        follower.leader = leader
        leader.followers.append(follower)
    publish.followers = None


class PublishesInFlight:
    """Publishes from their verdict to their settlement.

    Publishes that end soon cost nothing: they are the arrivals in a lane or with the producer, and
    `rotate` renews only those that it finds twice.

    Args:
        arrivals: All events in flight.
        unknown_max: Largest number of publishes with an unknown result.
        fences_by_writing: See `SuppressOptions`.

    Attributes:
        unregistered: Publishes that Redis may not know, by token; registered before the next claim.
        unknown: Publishes that ended for their client but may still land, by token; kept until
            their token has expired.
        unfenced: Tokens of unknown publishes without a time limit, by topic and partition. Until a
            later record of this process is in the partition, the broker accepts records of the
            former producer. The tokens are renewed meanwhile, unless the topic was recreated
            without the partition: then no record lands there, and no acknowledgement comes.
    """

    __slots__ = (
        "_arrivals",
        "_fences",
        "_seen",
        "_unknown_max",
        "unfenced",
        "unknown",
        "unregistered",
    )

    def __init__(self, arrivals: Arrivals, unknown_max: int, fences_by_writing: bool) -> None:
        self._arrivals = arrivals
        self._seen: set[bytes] = set()  # tokens that were here at the last rotation
        self._unknown_max = unknown_max
        self._fences = fences_by_writing
        self.unfenced: dict[tuple[str, int], set[bytes]] = {}
        self.unknown: dict[bytes, tuple[Publish, float]] = {}
        self.unregistered: dict[bytes, Publish] = {}

    def __iter__(self) -> Iterator[Publish]:
        yield from self._on_their_way()
        for publish, _ in self.unknown.values():
            yield publish

    def _on_their_way(self) -> Iterator[Publish]:
        for publish in self._arrivals:
            if publish.stage in (Stage.LANE, Stage.HANDED):
                yield publish

    def remove(self, token: bytes) -> None:
        """Remove a publish whose result is known (or that never began)."""
        entry = self.unknown.pop(token, None)
        if entry is not None and self.unfenced:
            self._discard(entry[0])
        self.unregistered.pop(token, None)

    def leave_unknown(self, publish: Publish, until_s: float) -> None:
        """Keep a publish that may still land, and register it again so that its token lives.

        Beyond the limit the oldest publish is removed, and is not registered again if Redis loses
        its state. As for records of a dead process, the quarantine must outlast it.

        Args:
            publish: The publish.
            until_s: Monotonic time until which it may land, in seconds.
        """
        self.remove(publish.reserved.token)
        if len(self.unknown) >= self._unknown_max:
            self.remove(next(iter(self.unknown)))
        self.unknown[publish.reserved.token] = (publish, until_s)
        self.unregistered[publish.reserved.token] = publish
        if self._fences:
            self.unfenced.setdefault(_partition_of(publish), set()).add(publish.reserved.token)

    def fence(self, publish: Publish) -> None:
        """Forget the unknown publishes of an acknowledged record's partition: none lands later.

        After a batch with an unknown result a lane uses only the producer's successor, which has
        the same producer id and a higher epoch (KIP-360).
        """
        self.unfenced.pop(_partition_of(publish), None)

    def rotate(self, now_s: float, token_ttl_s: float) -> None:
        """Renew publishes that were here at the last rotation, and forget expired unknown ones.

        Args:
            now_s: Monotonic time, in seconds.
            token_ttl_s: Life of a token, in seconds.
        """
        here = {publish.reserved.token: publish for publish in self._on_their_way()}
        for token in self._seen & here.keys():
            self.unregistered[token] = here[token]
        self._seen = set(here)
        for partition, tokens in list(self.unfenced.items()):
            for token in list(tokens):
                publish, _ = self.unknown[token]
                if publish.record.partition >= publish.reserved.scope.partitions:
                    tokens.discard(token)  # the topic was recreated without the partition
                    continue
                self.unknown[token] = (publish, now_s + token_ttl_s)
                self.unregistered[token] = publish
            if not tokens:
                del self.unfenced[partition]
        gone = [token for token, (_, until_s) in self.unknown.items() if until_s <= now_s]
        for token in gone:
            self.remove(token)

    def _discard(self, publish: Publish) -> None:
        partition = _partition_of(publish)
        tokens = self.unfenced.get(partition)
        if tokens is not None:
            tokens.discard(publish.reserved.token)
            if not tokens:
                del self.unfenced[partition]

    def register_again(self, scopes: Iterable[Scope] | None = None) -> None:
        """Plan to register publishes again, because Redis may have lost them.

        Args:
            scopes: Only publishes of these namespaces; None for all.
        """
        wanted = None if scopes is None else set(scopes)
        for publish in self:
            if wanted is None or publish.reserved.scope in wanted:
                self.unregistered[publish.reserved.token] = publish

    def scopes(self) -> set[Scope]:
        """Return the namespaces with publishes in flight."""
        return {publish.reserved.scope for publish in self}


def _partition_of(publish: Publish) -> tuple[str, int]:
    return publish.record.topic, publish.record.partition


class Waits:
    """Waiting times of a queue in order of arrival, by counts of arrivals at each poll.

    An event is overdue `timeout_s` seconds after the first poll that saw it.
    """

    __slots__ = ("_polls", "_timeout_s", "passed")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._polls: deque[tuple[float, int]] = deque()  # time of a poll, and arrivals until then
        self.passed = 0  # number of events, of all arrivals, that no longer wait

    def overdue(self, now_s: float, waiting: int) -> int:
        """Poll, and return the number of overdue events. Call it often.

        Args:
            now_s: Monotonic time, in seconds.
            waiting: Number of events that wait.

        Returns:
            The number of overdue events; they are the oldest ones.
        """
        polls, arrived = self._polls, self.passed + waiting
        while polls and polls[0][1] <= self.passed:
            polls.popleft()
        if waiting and (not polls or polls[-1][1] < arrived):
            polls.append((now_s, arrived))
        overdue = 0
        while polls and now_s - polls[0][0] >= self._timeout_s:
            overdue = polls.popleft()[1] - self.passed
        return overdue
