"""Pause intents: partitions that must not be read, with reasons, apart from Kafka's flags.

A Kafka consumer forgets its pauses at every rebalance
(docs/design/measured.md#pauses-end-with-a-rebalance), so the intent is stored here and applied
repeatedly. Each pause has a reason; a partition is read again when all its reasons are removed.
"""

from collections.abc import Iterable
from typing import NamedTuple


class PauseScope(NamedTuple):
    """All of a group (no topic), a topic (no partition), or one partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "all"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def covers(self, topic: str, partition: int) -> bool:
        """Return whether the scope covers a partition."""
        return self.topic in (None, topic) and self.partition in (None, partition)


class Intent(NamedTuple):
    """A pause of a scope for one reason."""

    scope: PauseScope
    reason: str


class Kept(NamedTuple):
    """A stored intent.

    Args:
        intent: The intent.
        by: The name of the operator.
        at_ms: The time of the pause, in milliseconds since 1970.
    """

    intent: Intent
    by: str
    at_ms: int


ALL = PauseScope()


class Pauses:
    """All intents of one group that this process knows.

    Local intents are the process's own. Stored intents come from a store that operators write to;
    each poll replaces all of them.
    """

    __slots__ = ("_local", "_stored")

    def __init__(self) -> None:
        self._local: set[Intent] = set()
        self._stored: frozenset[Intent] = frozenset()

    def pause(self, scope: PauseScope, reason: str) -> bool:
        """Add a reason; return False if it was present already. Raises ValueError."""
        intent = Intent(checked(scope), checked_reason(reason))
        is_new = intent not in self._local
        self._local.add(intent)
        return is_new

    def resume(self, scope: PauseScope, reason: str) -> bool:
        """Remove one reason, not the others of its scope; return False if it was absent."""
        intent = Intent(scope, reason)
        was_there = intent in self._local
        self._local.discard(intent)
        return was_there

    def store_says(self, intents: Iterable[Intent]) -> bool:
        """Replace the stored intents; return whether they changed."""
        now = frozenset(intents)
        is_new = now != self._stored
        self._stored = now
        return is_new

    def forbids(self, topic: str, partition: int) -> bool:
        """Return whether events of this partition must not be handed out."""
        return any(
            intent.scope.covers(topic, partition)
            for intents in (self._local, self._stored)
            for intent in intents
        )

    def intents(self) -> list[Intent]:
        """Return all intents, in the order of scope and reason."""
        return sorted(
            self._local | self._stored, key=lambda intent: (str(intent.scope), intent.reason)
        )


def checked(scope: PauseScope) -> PauseScope:
    """Validate and return a scope. Raises ValueError."""
    if scope.topic is None and scope.partition is not None:
        raise ValueError("a partition without its topic cannot be paused: name the topic, too")
    if scope.topic == "" or (scope.partition is not None and scope.partition < 0):
        raise ValueError(f"no such partition: {scope.topic!r}, {scope.partition!r}")
    return scope


def checked_reason(reason: str) -> str:
    """Validate and return a reason, which `resume` must name later. Raises ValueError."""
    if not reason or len(reason) > 200 or not reason.isprintable():
        raise ValueError("a reason is 1 to 200 printable characters: it is what resuming names")
    return reason
