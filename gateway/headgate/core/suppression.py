"""Suppression's shared types: namespaces of topics, reservations of events, states of topics."""

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

LONGEST_PLAIN_KEY: Final = 64  # bytes; longer keys are hashed, so that names in Redis stay short


class Counter:
    """A number that several objects share."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Scope:
    """The namespace of one topic: whatever its policy, its keys and contents are known in it.

    One object for each topic of a process, compared by identity, so that it is a cheap dict key.
    The policy's fingerprint is not part of the name, it keys the digests: contents that were
    compared under other rules equal none. Neither is the partition count, which grows.

    topic_id: Kafka's; a topic that was recreated is another one.  prefix: redis.namespace.
    partitions: the count that this process places by; see `SuppressionCall`.
    rule: 8 bytes over how events get their keys (`policy.key_rule`).
    free_until_s: until when (the suppressor's clock) events may pass without a reservation, for
    this process has announced it.  passed_s: when the last one did.  unreserved: how many of them
    have not ended yet, shared with the scope of a topic that was recreated meanwhile.
    spooled: how many backlogs lie on this process' disk, shared in the same way.
    mark: the name of what says so to processes that know the topic by another id.
    successor: the scope of the topic that was recreated.
    asked: Redis was asked for events of it since any passed; some may still wait.
    """

    __slots__ = (
        "_entries",
        "_hashed_entries",
        "_prefix",
        "asked",
        "free_until_s",
        "incarnation",
        "mark",
        "namespace",
        "partitions",
        "passed_s",
        "rule",
        "spooled",
        "successor",
        "topic",
        "topic_id",
        "unreserved",
    )

    def __init__(
        self, topic: str, topic_id: bytes, partitions: int, rule: bytes, prefix: str = "headgate"
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.rule = rule
        self.free_until_s = self.passed_s = -math.inf
        self.unreserved = Counter()
        self.spooled = Counter()
        self.mark = f"{prefix}:spooled:{topic}".encode()
        self.successor: Scope | None = None
        self.asked = False
        self._prefix = prefix
        self.namespace = f"{prefix}:{topic_id.hex()}".encode()
        self.incarnation = self.namespace + b":inc"
        self._entries = self.namespace + b":k:"
        self._hashed_entries = self.namespace + b":h:"

    def latest(self) -> "Scope":
        """Return the scope of the topic that has its name now."""
        scope = self
        while scope.successor is not None:
            scope = scope.successor
        return scope

    def twin(self) -> "Scope":
        """The same topic at one of several servers. What passes is counted for all of them."""
        twin = Scope(self.topic, self.topic_id, self.partitions, self.rule, self._prefix)
        twin.unreserved = self.unreserved
        twin.spooled = self.spooled
        return twin

    def entry(self, key: bytes) -> bytes:
        """Return the name of a key's entry."""
        if len(key) <= LONGEST_PLAIN_KEY:
            return self._entries + key
        return self._hashed_entries + blake2b(key, digest_size=16).digest()


class Reservation:
    """The suppression state of a publish: it waits for Redis, or passes by an announcement.

    scope: the suppression namespace.  partitions: the count by which its record was placed.
    force: publish even if unchanged.  refuse: the topic's redis_loss = "refuse".
    entry: the name of its key's entry in Redis.  token: this publish's token in it.
    floor: the key's highest offset when it was reserved.
    unreserved: it goes to Kafka without a reservation.

    Events that pass have no entry and no token, so those of a batch share one.
    """

    # Class defaults, as in `Publish`.
    entry: bytes = b""
    token: bytes = b""
    floor: int = -1
    unreserved: bool = False

    def __init__(
        self, scope: Scope, partitions: int = 0, force: bool = False, refuse: bool = False
    ) -> None:
        self.scope = scope
        self.partitions = partitions
        self.force = force
        self.refuse = refuse


ON, QUARANTINE, AWAY = "on", "quarantine", "away"
STATES = (ON, QUARANTINE, AWAY)  # from good to bad
OFF = "off"  # shown of a topic whose policy does not suppress


class TopicSuppression(NamedTuple):
    """A topic that suppresses by its policy.

    state: ON.  QUARANTINE: all is published, for what Redis knows may be incomplete; until_s: for
    so many seconds more, if nothing happens before, None = Redis was not asked yet.  AWAY: Redis
    does not answer.
    """

    state: str
    until_s: float | None = None


def worst(seen: Iterable[Mapping[str, TopicSuppression]]) -> dict[str, TopicSuppression]:
    """Return the worst state of each topic."""
    worst_of: dict[str, TopicSuppression] = {}
    for states in seen:
        for topic, state in states.items():
            worst_of[topic] = max(worst_of.get(topic, state), state, key=_badness)
    return worst_of


def _badness(state: TopicSuppression) -> tuple[int, float]:
    return STATES.index(state.state), state.until_s or 0.0


def state_rows(states: Mapping[str, TopicSuppression]) -> list[tuple[str, str, bool]]:
    """Return (topic, state, whether it is the topic's state now) for every topic and state."""
    return [
        (topic, state, state == current.state)
        for topic, current in states.items()
        for state in STATES
    ]
