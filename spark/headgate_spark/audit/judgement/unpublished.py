"""Events that Kafka never saw, as gateways have told of them; free of Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.core.times import shown_time

OUTCOMES = ("unchanged", "superseded", "rejected", "duplicate")


class UnpublishedRow(NamedTuple):
    """Events of one producer that ended alike, and the bytes of their values. Sampled facts are
    scaled up; seen: how many events they are of before that, None = all of them."""

    producer: str
    outcome: str
    events: int
    bytes: int
    seen: int | None = None


class UnpublishedKey(NamedTuple):
    """One of the keys with most of these events. key: None = they had none."""

    key: bytes | None
    producer: str
    outcome: str
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unpublished:
    """One topic's. why_unknown: None = it is known.

    since_ms: the first fact that was found.  is_sampled: numbers are estimates.
    unreadable: records of the topic of facts that no gateway wrote.  rows: of the producers with
    most of these events.  other_events, other_bytes: of all other producers.
    """

    why_unknown: str | None
    rows: tuple[UnpublishedRow, ...] = ()
    keys: tuple[UnpublishedKey, ...] = ()
    since_ms: int | None = None
    is_sampled: bool = False
    unreadable: int = 0
    other_events: int = 0
    other_bytes: int = 0

    def of(self, producer: str) -> Mapping[str, int] | None:
        """Events of a producer by outcome; None where nothing is known."""
        if self.why_unknown is not None:
            return None
        mine = {row.outcome: row.events for row in self.rows if row.producer == producer}
        if not mine and self.other_events:
            return None  # it may be one of the others
        return {outcome: mine.get(outcome, 0) for outcome in OUTCOMES}

    @property
    def producers(self) -> list[str]:
        """Everybody of whom facts are told."""
        return sorted({row.producer for row in self.rows})

    def shown(self) -> dict[str, Any]:
        """For audit.json."""
        return {
            "why_unknown": self.why_unknown,
            "from": None if self.since_ms is None else shown_time(self.since_ms),
            "sampled": self.is_sampled,
            "unreadable_records": self.unreadable,
            "events": sum(row.events for row in self.rows) + self.other_events,
            "bytes": sum(row.bytes for row in self.rows) + self.other_bytes,
            "top_keys": [_shown(key) for key in self.keys],
        }


NOT_READ = Unpublished("nobody looked for facts")


def _shown(one: UnpublishedKey) -> dict[str, Any]:
    return {**one._asdict(), "key": _text(one.key), "producer": one.producer or None}


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "backslashreplace")
