"""The oversize strategies of a topic, and the headers of their records.

The strategies are tried in the order of the topic's `oversize`, once it is certain that the event
will be published. If none succeeds, the event is rejected.
"""

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
    """Rule for splitting a document.

    Args:
        pointer: JSON Pointer of the array.
        key: JSON Pointer of an element's key, within the element.
    """

    pointer: str
    key: str


class StoredBlob(NamedTuple):
    """A value in the blob store.

    Args:
        url: The URL for `ce_dataref`.
        size: The bytes of the value.
        sha256: The digest in hexadecimal.
    """

    url: str
    size: int
    sha256: str


class Prepared(Protocol):
    """A record's batch that is already compressed (`lane.LoneBatch`); `size` is its bytes."""

    @property
    def size(self) -> int: ...

    def builder(self) -> object:
        """Return a batch builder for the producer."""
        ...


class Large(NamedTuple):
    """Data about an oversized event, or about one of its records.

    Args:
        stored: The stored value, if it is in the blob store already; the record has no value then.
        batch: The compressed batch of the record.
    """

    stored: StoredBlob | None = None
    batch: Prepared | None = None


def usable(
    strategies: Sequence[Strategy], compacts: bool, compression_type: str = "producer"
) -> tuple[Strategy, ...]:
    """Return the strategies that work with a topic's settings in Kafka, without `reject`.

    Compaction keeps the last record of a key, so only one chunk of a set would remain. A broker
    that recompresses a batch measures the new size, which the gateway cannot know.

    Args:
        strategies: The strategies of the policy.
        compacts: Whether Kafka compacts the topic.
        compression_type: The topic's compression.type.
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
    """Return the headers of a record that announces a change without the value.

    The record's value is empty and not null, because null is a tombstone.

    Args:
        size: The bytes of the value.
        sha256: The digest of the value in hexadecimal.
    """
    return [(OVERSIZE, KEY_ONLY), *_standing_for(size, sha256)]


def claim_headers(url: str, size: int, sha256: str) -> list[Header]:
    """Return the headers of a record whose value is at this URL."""
    return [(DATAREF, url.encode()), *_standing_for(size, sha256)]


def split_headers(kind: Literal["element", "manifest"], set_id: str, parent: bytes) -> list[Header]:
    """Return the headers of the records of a split document; `parent` is the manifest's key."""
    headers: list[Header] = [(SPLIT, kind.encode()), (SPLIT_SET, set_id.encode())]
    return headers if kind == "manifest" else [*headers, (SPLIT_PARENT, parent)]


def without_dataref(headers: Sequence[Header]) -> list[Header]:
    """Drop a CloudEvent's own `dataref`; its value is the data that came with it."""
    return [header for header in headers if header[0] != DATAREF]
