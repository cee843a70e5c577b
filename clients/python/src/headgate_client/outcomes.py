"""Outcomes of events: one type for each outcome of the gateway.

Every event has exactly one outcome. Failures are returned like the rest, so that a program can
look at a batch as a whole. `raise_for_outcome()` turns a failure into an exception.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypedDict

from headgate_client.errors import RejectedError, UnknownOutcomeError

Key: TypeAlias = str | bytes | None
Name: TypeAlias = Literal[
    "published", "unchanged", "duplicate", "held", "spooled", "rejected", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """Fields of all successful outcomes.

    Attributes:
        topic: Kafka topic.
        key: Record key as text, or as bytes if it is not UTF-8. None if there is none, or if only
            the gateway knows it.
        event_id: Id of the event, None without one.
        partition: Partition of the record, None if it has none yet.
        offset: Offset of the record, None if it has none yet.
        records: Number of records that were written for this event.
        oversize: Form of an event that was too large (`claim-check`, `split`, ...).
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
        """Return whether a record of the topic has this content, and its offset is known."""
        return self.offset is not None

    def raise_for_outcome(self) -> None:
        """Do nothing: the outcome is successful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Succeeded):
    """The record is in Kafka, acknowledged by all in-sync replicas."""

    name: ClassVar[Name] = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged(Succeeded):
    """The event was not written: the newest record of its key has the same content."""

    name: ClassVar[Name] = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Succeeded):
    """The event was written before, with the same event id or Idempotency-Key."""

    name: ClassVar[Name] = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Succeeded):
    """The event is durable on a topic that coalesces; the newest of its key is published later."""

    name: ClassVar[Name] = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled(Succeeded):
    """The event is on the gateway's disk, and is published when Kafka recovers."""

    name: ClassVar[Name] = "spooled"


@dataclass(frozen=True, slots=True)
class LargePath:
    """A large part of an event.

    Attributes:
        path: JSON Pointer to the part.
        bytes: Size of the part.
    """

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Violation:
    """A place that the topic's schema does not take. path, schema_path: JSON Pointers."""

    path: str
    schema_path: str
    detail: str


class Figures(TypedDict, total=False):
    """Fields of `Rejected` that few answers have."""

    size_bytes: int
    limit_bytes: int
    largest_paths: tuple[LargePath, ...]
    violations: tuple[Violation, ...]
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The event was certainly not written.

    Attributes:
        reason: A reason of the gateway, or `not_sent`, `unreachable`, `overtaken` or `bad_answer`
            of this library.
        detail: Text that explains the reason.
        retryable: Whether the same event may succeed later.
        status: HTTP status of the response, None without one.
        size_bytes: Size of an event that is too large.
        limit_bytes: The limit that the event exceeds.
        largest_paths: Largest parts of an event that is too large, with `path` and `bytes`.
        violations: Places that do not fit the schema, with `path`, `schema_path` and `detail`.
        request_id: Id of the request in the gateway's log, None without a response.
    """

    topic: str
    reason: str
    detail: str
    retryable: bool
    status: int | None = None
    key: Key = None
    event_id: str | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None
    largest_paths: tuple[LargePath, ...] = ()
    violations: tuple[Violation, ...] = ()
    request_id: str | None = None

    name: ClassVar[Name] = "rejected"
    succeeded: ClassVar[Literal[False]] = False
    is_written: ClassVar[Literal[False]] = False

    def raise_for_outcome(self) -> None:
        """Raise RejectedError."""
        raise RejectedError(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The event may or may not be written, now or later.

    Attributes:
        reason: `unknown` (from the gateway), `no_answer` (the last response was lost),
            `bad_answer` (an outcome that this version does not know) or `out_of_order` (written,
            and an older event of its key may be behind it). If an earlier attempt may have written
            the event, it can also be the reason of the last refusal.
        detail: Text that explains the reason.
        status: HTTP status of the response, None without one.
        request_id: Id of the request in the gateway's log, None without a response.
    """

    topic: str
    reason: str
    detail: str
    status: int | None = None
    key: Key = None
    event_id: str | None = None
    request_id: str | None = None

    name: ClassVar[Name] = "unknown"
    succeeded: ClassVar[Literal[False]] = False
    is_written: ClassVar[None] = None
    retryable: ClassVar[Literal[True]] = True

    def raise_for_outcome(self) -> None:
        """Raise UnknownOutcomeError."""
        raise UnknownOutcomeError(self)


Outcome: TypeAlias = Published | Unchanged | Duplicate | Held | Spooled | Rejected | Unknown
Failed: TypeAlias = Rejected | Unknown
