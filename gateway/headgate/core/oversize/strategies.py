"""The oversize strategies: which strategies a topic has, and what the records of each say.

A strategy is tried in the order of the topic's `oversize`, once the event is certain to be
published; one that does not fit gives way to the next, and behind the last one stands `reject`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from headgate.core.record import (
    DATAREF,
    KEY_ONLY,
    OVERSIZE,
    SPLIT,
    SPLIT_PARENT,
    SPLIT_SET,
    VALUE_BYTES,
    VALUE_SHA256,
    Header,
)

Strategy = Literal["reject", "compress", "notify", "claim-check", "split", "chunk"]


@dataclass(frozen=True, slots=True)
class SplitRule:
    """pointer: JSON Pointer of the array.  key: of an element's key, within the element."""

    pointer: str
    key: str


class StoredBlob(NamedTuple):
    """A value in the blob store. url: for `ce_dataref`.  sha256: hexadecimal."""

    url: str
    size: int
    sha256: str


class Prepared(Protocol):
    """A record's batch, compressed beforehand (`lone_batch.LoneBatch`). size: its bytes."""

    @property
    def size(self) -> int: ...

    def builder(self) -> object:
        """What the producer takes."""
        ...


class Large(NamedTuple):
    """What is known of an event that does not fit, or of a record that it became.

    stored: its value is in the blob store already, and its record has none.  batch: its record's.
    """

    stored: StoredBlob | None = None
    batch: Prepared | None = None


def usable(
    strategies: Sequence[Strategy], compacts: bool, compression_type: str = "producer"
) -> tuple[Strategy, ...]:
    """The strategies that a topic with these settings in Kafka can have, without `reject`.

    Compaction keeps the last record of a key: of a set of chunks, one chunk. A broker that
    recompresses measures the outcome of that, which nobody knows here.
    """
    unfit = {"reject"}
    if compacts:
        unfit.add("chunk")
    if compression_type not in ("producer", "zstd"):
        unfit.add("compress")
    return tuple(strategy for strategy in strategies if strategy not in unfit)


def _standing_for(size: int, sha256: str) -> list[Header]:
    return [(VALUE_BYTES, b"%d" % size), (VALUE_SHA256, sha256.encode())]


def notify_headers(size: int, sha256: str) -> list[Header]:
    """Of a record that says "changed", and not to what. sha256: hexadecimal, as everywhere here.

    Its value is empty and not null: null is a tombstone.
    """
    return [(OVERSIZE, KEY_ONLY), *_standing_for(size, sha256)]


def claim_headers(url: str, size: int, sha256: str) -> list[Header]:
    """Of a record whose value lies at this URL."""
    return [(DATAREF, url.encode()), *_standing_for(size, sha256)]


def split_headers(kind: Literal["element", "manifest"], set_id: str, parent: bytes) -> list[Header]:
    """Of the records of a document that came apart. parent: the manifest's key."""
    headers: list[Header] = [(SPLIT, kind.encode()), (SPLIT_SET, set_id.encode())]
    return headers if kind == "manifest" else [*headers, (SPLIT_PARENT, parent)]


def without_dataref(headers: Sequence[Header]) -> list[Header]:
    """A CloudEvent may bring a `dataref` of its own; the value here is what it sent with it."""
    return [header for header in headers if header[0] != DATAREF]
