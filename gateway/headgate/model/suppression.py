"""Suppression's shared types: namespaces of topics, reservations of events."""

import math
from hashlib import blake2b
from typing import Final

LONGEST_PLAIN_KEY: Final = 64  # bytes; longer keys are hashed, so that names in Redis stay short


class Counter:
    """A counter that several objects share."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Scope:
    """The suppression namespace of one topic, independent of its policy.

    Each process has one object for each topic, compared by identity, so that it is a cheap dict
    key. The name does not contain the policy's fingerprint, which keys the digests: contents that
    were compared by other rules never match. Nor does it contain the partition count, which grows.

    Attributes:
        topic_id: Kafka's id; a topic that was recreated has another id.
        partitions: The partition count that this process uses (see `SuppressionCall`).
        rule: 8 bytes, a hash of the rules for keys (`policy.key_rule`).
        announced_until_s: Until this time of the suppressor's clock, events may pass without a
            reservation, because this process has announced it.
        passed_s: The time of the last event that passed.
        unreserved: The number of passed events that have not ended, shared with the scope of a
            topic that was recreated.
        spooled: The number of backlogs on this process's disk, shared in the same way.
        mark: The name of the Redis entry that announces such backlogs to processes that know
            another id of the topic.
        successor: The scope of the topic after it was recreated.
        may_have_waiting: Whether a reservation was requested since the last event passed; some
            may still wait.
    """

    def __init__(
        self, topic: str, topic_id: bytes, partitions: int, rule: bytes, prefix: str = "headgate"
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.rule = rule
        self.announced_until_s = self.passed_s = -math.inf
        self.unreserved = Counter()
        self.spooled = Counter()
        self.mark = f"{prefix}:spooled:{topic}".encode()
        self.successor: Scope | None = None
        self.may_have_waiting = False
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

    def for_server(self) -> "Scope":
        """Return a scope of the topic for another server, with shared counters."""
        scope = Scope(self.topic, self.topic_id, self.partitions, self.rule, self._prefix)
        scope.unreserved = self.unreserved
        scope.spooled = self.spooled
        return scope

    def entry(self, key: bytes) -> bytes:
        """Return the name of a key's entry."""
        if len(key) <= LONGEST_PLAIN_KEY:
            return self._entries + key
        return self._hashed_entries + blake2b(key, digest_size=16).digest()


class Reservation:
    """The suppression state of a publish, which is reserved in Redis or passes without that.

    Events that pass have no entry and no token, so the events of a batch share one object.

    Attributes:
        scope: The suppression namespace.
        partitions: The partition count that chose the record's partition.
        force: Whether to publish it even if unchanged.
        refuse: Whether the topic has redis_loss = "refuse".
        entry: The name of the key's entry in Redis.
        token: This publish's token in the entry.
        floor: The key's highest offset at the time of the reservation.
        unreserved: Whether it goes to Kafka without a reservation.
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
