"""How an event ended: one type for each outcome of the gateway.

Every event ends in exactly one of them. What did not end well is returned like the rest, so that a
batch can be looked at as a whole; `raise_for_outcome()` is there for who prefers exceptions.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from headgate_client.errors import RejectedError, UnknownOutcomeError

Key: TypeAlias = str | bytes | None
Name: TypeAlias = Literal[
    "published", "unchanged", "duplicate", "held", "superseded", "spooled", "rejected", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """What all outcomes that ended well have.

    key: text, or bytes where it is no UTF-8.  partition, offset: the place of the record in Kafka,
    None where there is none yet.  records: how many records were written for this event.
    oversize: what an event that was too large became (`claim-check`, `split`, ...).
    """

    topic: str
    key: Key = None
    event_id: str | None = None
    partition: int | None = None
    offset: int | None = None
    records: int = 0
    oversize: str | None = None

    name: ClassVar[Name]
    succeeded: ClassVar[Literal[True]] = True
    retryable: ClassVar[Literal[False]] = False

    @property
    def is_written(self) -> bool:
        """Whether the event, or one that is equal to it, is in the topic at a known place."""
        return self.offset is not None

    def raise_for_outcome(self) -> None:
        """Do nothing: it ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Succeeded):
    """In Kafka, acknowledged by all in-sync replicas."""

    name: ClassVar[Name] = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged(Succeeded):
    """Not written again: the newest record of the key has the same content."""

    name: ClassVar[Name] = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Succeeded):
    """Done before, under the same event id or Idempotency-Key."""

    name: ClassVar[Name] = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Succeeded):
    """Durable, on a topic that coalesces: the newest event of the key is published later."""

    name: ClassVar[Name] = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(Succeeded):
    """A later event of the key was published instead."""

    name: ClassVar[Name] = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled(Succeeded):
    """On the gateway's disk: it is published when Kafka is back."""

    name: ClassVar[Name] = "spooled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Certainly not written.

    reason: a word of the gateway's table of reasons; `not_sent`, `unreachable`, `overtaken` and
    `bad_answer` are this library's.  retryable: whether the same event may succeed later.
    status: that of the answer, None where there was none.
    """

    topic: str
    reason: str
    detail: str
    retryable: bool
    status: int | None = None
    key: Key = None
    event_id: str | None = None

    name: ClassVar[Name] = "rejected"
    succeeded: ClassVar[Literal[False]] = False
    is_written: ClassVar[Literal[False]] = False

    def raise_for_outcome(self) -> None:
        """Raise RejectedError."""
        raise RejectedError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody can tell: it may be written, or may still be written later.

    reason: `unknown` if the gateway said so, `no_answer` if the last answer was lost,
    `out_of_order` if it is written and an older event of its key may be behind it.
    """

    topic: str
    reason: str
    detail: str
    status: int | None = None
    key: Key = None
    event_id: str | None = None

    name: ClassVar[Name] = "unknown"
    succeeded: ClassVar[Literal[False]] = False
    is_written: ClassVar[None] = None
    retryable: ClassVar[Literal[True]] = True

    def raise_for_outcome(self) -> None:
        """Raise UnknownOutcomeError."""
        raise UnknownOutcomeError(self)


Outcome: TypeAlias = (
    Published | Unchanged | Duplicate | Held | Superseded | Spooled | Rejected | Unknown
)
Failed: TypeAlias = Rejected | Unknown
