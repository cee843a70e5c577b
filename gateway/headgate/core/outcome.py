"""What becomes of an event. Every event ends in exactly one `Outcome`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from headgate.core.reasons import TRAITS, Reason, Traits

__all__ = ["TRAITS", "Failure", "Name", "Outcome", "Reason", "Traits"]


class Name(StrEnum):
    """How an event may end. `rejected` = certainly not written; `unknown` = not known.

    `held` = durable in the held topic, to be coalesced; `superseded` = a later event of its key was
    published instead; `spooled` = on disk here, to be published once Kafka takes it.
    """

    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"
    HELD = "held"
    SUPERSEDED = "superseded"
    SPOOLED = "spooled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # Enum's own is Python code, and figures are kept by name


class Failure(NamedTuple):
    """A reason with what the client needs to act on it.

    figures: numbers and names that help (`size_bytes`, `limit_bytes`, `limit`, `largest_paths`).
    retry_after_s: seconds, for the Retry-After header; None where retrying later changes nothing.
    """

    reason: Reason
    detail: str
    figures: Mapping[str, object] | None = None
    retry_after_s: int | None = None


class Outcome:
    """How one event ended. A class and no tuple for the reason for which `Record` is one.

    partition and offset are -1 where there is none (or Kafka gave none).  records: how many
    records were written for it; 0 for one that is answered with an equal event's record.
    oversize: what an event that was too large became (`core.oversize.strategies.Strategy`).
    timestamp_ms: of its record in the log; -1 where there is none, or it is not known.
    """

    __slots__ = (
        "event_id",
        "failure",
        "key",
        "name",
        "offset",
        "oversize",
        "partition",
        "records",
        "timestamp_ms",
    )

    def __init__(
        self,
        name: Name,
        partition: int = -1,
        offset: int = -1,
        key: bytes | None = None,
        event_id: str | None = None,
        failure: Failure | None = None,
        records: int = 0,
        oversize: str | None = None,
        timestamp_ms: int = -1,
    ) -> None:
        self.name: Final = name
        self.partition: Final = partition
        self.offset: Final = offset
        self.key: Final = key
        self.event_id: Final = event_id
        self.failure: Final = failure
        self.records: Final = records
        self.oversize: Final = oversize
        self.timestamp_ms: Final = timestamp_ms

    def _fields(self) -> tuple[object, ...]:
        identity = (self.name, self.partition, self.offset, self.key, self.event_id)
        return (*identity, self.failure, self.records, self.oversize, self.timestamp_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.name, self.partition, self.offset, self.key, self.event_id))

    def __repr__(self) -> str:
        return f"Outcome{self._fields()}"

    def of(self, name: Name, event_id: str | None) -> "Outcome":
        """The outcome of another event that is answered with this one's record."""
        position = (self.partition, self.offset, self.key)
        return Outcome(name, *position, event_id, self.failure, 0, self.oversize, self.timestamp_ms)

    def with_failure(self, failure: Failure) -> "Outcome":
        """The same, and more is known of its failure."""
        identity = (self.partition, self.offset, self.key, self.event_id)
        return Outcome(
            self.name, *identity, failure, self.records, self.oversize, self.timestamp_ms
        )


def rejected(failure: Failure, key: bytes | None = None, event_id: str | None = None) -> Outcome:
    """The outcome of an event that is certainly not written, or (reason unknown) perhaps."""
    name = Name.UNKNOWN if failure.reason is Reason.UNKNOWN else Name.REJECTED
    return Outcome(name, key=key, event_id=event_id, failure=failure)
