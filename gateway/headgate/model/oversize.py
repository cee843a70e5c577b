# Not compiled: it has dataclasses with slots.
"""The oversize strategies of a topic, and the headers of their records.

The strategies are tried in the order of the topic's `oversize`, once it is certain that the event
will be published. If none succeeds, the event is rejected.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from headgate.model.record import (
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

    Attributes:
        pointer: JSON Pointer of the array.
        key: JSON Pointer of an element's key, within the element.
    """

    pointer: str
    key: str


class StoredBlob(NamedTuple):
    """A value in the blob store.

    Attributes:
        url: The URL for `ce_dataref`.
        size: The bytes of the value.
        sha256: The digest in hexadecimal.
    """

    url: str
    size: int
    sha256: str


class Prepared(Protocol):
    """A compressed batch with one record (`producer.SingleRecordBatch`); `size` is its bytes."""

    @property
    def size(self) -> int: ...

    def builder(self) -> object:
        """Return a batch builder for the producer."""
        ...


class Large(NamedTuple):
    """Data about an oversized event, or about one of its records.

    Attributes:
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


# ---- names of blobs


SCHEMES = ("file", "s3")
_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(
    r"[\w./\-+=@,~ ]*"
)  # no %, ?, #, : or control characters, so nothing can be decoded twice


class BlobName(NamedTuple):
    """Name of a blob: the topic of its event, and its SHA-256 in hexadecimal."""

    topic: str
    digest: str

    @property
    def path(self) -> str:
        """Return the path below the root."""
        return f"{self.topic}/{self.digest[:2]}/{self.digest}"


def blob_name(topic: str, digest: str) -> BlobName:
    """Return the name of a blob. Raises ValueError for an unsafe topic or digest."""
    if not _TOPIC.fullmatch(topic) or topic in (".", "..") or not _DIGEST.fullmatch(digest):
        raise ValueError(f"no blob has the name {topic!r} / {digest!r}")
    return BlobName(topic, digest)


def parse_path(path: str) -> BlobName | None:
    """Return the name of a blob from its path below the root; None for any other path."""
    parts = path.split("/")
    if len(parts) != 3 or not _DIGEST.fullmatch(parts[2]) or parts[1] != parts[2][:2]:
        return None
    try:
        return blob_name(parts[0], parts[2])
    except ValueError:
        return None


def root_problem(url: str) -> str | None:
    """Return the problem with the root of a blob store, or None."""
    split = urlsplit(url)
    if split.scheme not in SCHEMES or not url.startswith(f"{split.scheme}://"):
        return "must begin with file:/// or s3://"
    if split.query or split.fragment or not _PLAIN.fullmatch(split.path):
        return "must be a plain path, without escapes, query or fragment"
    if any(part in (".", "..") for part in split.path.split("/")):
        return "must not have . or .. in it"
    if split.scheme == "file" and (split.netloc or len(split.path) < 2):
        return "must be an absolute path: file:///folder"
    if split.scheme == "s3" and not re.fullmatch(r"[a-z0-9][a-z0-9.\-]{1,62}", split.netloc):
        return "must name a bucket: s3://bucket/prefix"
    return None


def is_below(url: str, root: str) -> bool:
    """Return whether a URL unambiguously names a blob below this root."""
    base = root.rstrip("/") + "/"
    return url.startswith(base) and parse_path(url[len(base) :]) is not None
