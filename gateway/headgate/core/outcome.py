"""Outcomes of events. Every event has exactly one `Outcome`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from headgate.core.reasons import TRAITS, Reason, Traits

__all__ = ["TRAITS", "Failure", "Name", "Outcome", "Reason", "Traits"]


class Name(StrEnum):
    """Name of an outcome.

    `rejected` = certainly not written; `unknown` = perhaps written; `held` = durable in the held
    topic, to be coalesced; `superseded` = a later event of its key was published instead; `spooled`
    = on the gateway's disk, to be published when Kafka accepts it.
    """

    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"
    HELD = "held"
    SUPERSEDED = "superseded"
    SPOOLED = "spooled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # Enum's own hash is Python code, and metrics use names as keys


class Failure(NamedTuple):
    """A reason with details for the client.

    Args:
        reason: The reason.
        detail: A sentence for people.
        figures: Numbers and names, such as `size_bytes`, `limit_bytes`, `limit`, `largest_paths`.
        retry_after_s: Seconds for the Retry-After header; None if a later retry does not help.
    """

    reason: Reason
    detail: str
    figures: Mapping[str, object] | None = None
    retry_after_s: int | None = None


class Outcome:
    """The outcome of one event. It is a class and not a tuple for the same reason as `Record`.

    Args:
        name: The name of the outcome.
        partition: The partition of its record; -1 if there is none.
        offset: The offset of its record; -1 if there is none or Kafka returned none.
        key: The key.
        event_id: The event's own id.
        failure: The failure, if it failed.
        records: The number of records that were written for it; 0 if an equal event's record
            represents it.
        oversize: The strategy for an oversized event (`core.oversize.strategies.Strategy`).
        timestamp_ms: The timestamp of its record in the log; -1 if there is none or it is unknown.
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
        """Return the outcome of another event that this event's record represents."""
        position = (self.partition, self.offset, self.key)
        return Outcome(name, *position, event_id, self.failure, 0, self.oversize, self.timestamp_ms)

    def with_failure(self, failure: Failure) -> "Outcome":
        """Return the same outcome with a more detailed failure."""
        identity = (self.partition, self.offset, self.key, self.event_id)
        return Outcome(
            self.name, *identity, failure, self.records, self.oversize, self.timestamp_ms
        )


def rejected(failure: Failure, key: bytes | None = None, event_id: str | None = None) -> Outcome:
    """Return the outcome of a failed event: unknown if the reason is unknown, else rejected."""
    name = Name.UNKNOWN if failure.reason is Reason.UNKNOWN else Name.REJECTED
    return Outcome(name, key=key, event_id=event_id, failure=failure)
