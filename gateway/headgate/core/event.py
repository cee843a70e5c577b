"""Events as a client sent them, before anything is decided about them."""

from typing import NamedTuple

from headgate.core.outcome import Failure, Reason

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
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    source: str | None = None


class Decoded(NamedTuple):
    """A request's events in their order; a Failure stands where one could not be decoded, and
    plain bytes for a JSON document that is an event all by itself: the case that must be cheap.

    is_batch: whether the answer is a batch answer.
    """

    events: list[bytes | RawEvent | Failure]
    is_batch: bool


class Refused(Exception):
    """Ends the decoding of one event, or of the whole request, with a Failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class TooMuch(Refused):
    """A body goes beyond the cap as it was sent. chunks: what has been read of it.

    Refused like any other, unless its event can do without being in memory (`edge.streams`).
    Here, because a compiled class may only have compiled subclasses.
    """

    def __init__(self, failure: Failure, chunks: list[bytes]) -> None:
        super().__init__(failure)
        self.chunks = chunks


def malformed(detail: str) -> Failure:
    """What is said of a text or request that cannot be read."""
    return Failure(Reason.MALFORMED, detail)
