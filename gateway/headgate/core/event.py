"""Events as a client sent them, before anything is decided about them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.core.outcome import Failure
from headgate.core.record import Header

SPREAD = -1  # as a partition: any one where there is no key, whatever the topic says of keyless


class RawEvent(NamedTuple):
    """One decoded event.

    value: the exact bytes for Kafka; None is a tombstone.  document: the JSON text in which the
    topic's key pointers look, or None (opaque bytes).  key: a key given outside the document.
    headers: record headers that belong to this event alone.  partition: the one that the client
    chose, or SPREAD; None is the topic's rule.  source: of a CloudEvent.
    """

    value: bytes | None
    document: bytes | None = None
    key: bytes | None = None
    event_id: str | None = None
    timestamp_ms: int | None = None
    content_type: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    source: str | None = None


Event = bytes | RawEvent | Failure


class Decoded:
    """A request's events in their order, whoever read its body.

    events: a Failure stands where one could not be decoded, and plain bytes for a JSON document
    that is an event all by itself: the case that must be cheap.  is_batch: whether the answer is a
    batch answer.  is_plain: all are plain documents that were read in one pass
    (`core.scanning`), with what that found of each: keys and partitions (None where the topic
    has no key rule), digests (None where it does not suppress, or has no keys; None of a single
    document whose canonical form the ordinary way has to make).
    """

    __slots__ = ("digests", "events", "is_batch", "is_plain", "keys", "partitions")

    def __init__(
        self,
        events: Sequence[Event],
        is_batch: bool,
        *,
        is_plain: bool = False,
        keys: list[bytes] | None = None,
        partitions: list[int] | None = None,
        digests: list[bytes | None] | None = None,
    ) -> None:
        self.events = events
        self.is_batch: Final = is_batch
        self.is_plain: Final = is_plain
        self.keys: Final = keys
        self.partitions: Final = partitions
        self.digests: Final = digests

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decoded) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash((len(self.events), self.is_batch))

    def __repr__(self) -> str:
        return f"Decoded{self._all()}"

    def _all(self) -> tuple[object, ...]:
        read = (self.is_batch, self.is_plain, self.keys, self.partitions, self.digests)
        return ([*self.events], *read)
