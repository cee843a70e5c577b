"""Interface of blob stores. All calls block, and may raise the store's `errors`."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headgate.model.oversize import BlobName

PENDING = ".pending"  # folder below the root for blobs without a name; no topic has this name


class StoredBlob(NamedTuple):
    """A blob; `modified_s` is the time of its last use by an event, in seconds since 1970."""

    name: BlobName
    size: int
    modified_s: float


class Pending(Protocol):
    """A blob that is being written."""

    def write(self, data: bytes) -> None: ...

    def commit(self, name: BlobName) -> None:
        """Name the blob durably, so that it survives a crash."""
        ...

    def abort(self) -> None: ...


class ObjectStore(Protocol):
    """A folder or the prefix of a bucket."""

    errors: tuple[type[Exception], ...]

    def put(self, name: BlobName, value: bytes) -> None:
        """Store the blob durably, and renew its age for `blobs gc`."""
        ...

    def begin(self) -> Pending: ...

    def topics(self) -> list[str]: ...

    def blobs(self, topic: str) -> Iterator[StoredBlob]: ...

    def delete(self, name: BlobName, unless_after_s: float) -> bool:
        """Delete a blob unless it was modified after `unless_after_s`; return the success."""
        ...

    def sweep_pending(self, before_s: float) -> int:
        """Remove blobs that were begun before a time and have no name; return their number."""
        ...
