"""What a place for blobs must be able to do. All calls block, and raise its `errors`."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headgate.core.oversize.chunks import BlobName

PENDING = ".pending"  # below the root: blobs that have no name yet; no topic has this name


class StoredBlob(NamedTuple):
    """A blob. modified_s: seconds since 1970 of the last event that referred to it."""

    name: BlobName
    size: int
    modified_s: float


class Pending(Protocol):
    """A blob that is being written."""

    def write(self, data: bytes) -> None: ...

    def commit(self, name: BlobName) -> None:
        """Give it its name, durably: afterwards it is there, whatever crashes."""
        ...

    def abort(self) -> None: ...


class ObjectStore(Protocol):
    """A folder or a bucket's prefix."""

    errors: tuple[type[Exception], ...]

    def put(self, name: BlobName, value: bytes) -> None:
        """Have the blob, durably, and modified just now (`blobs gc` goes by that)."""
        ...

    def begin(self) -> Pending: ...

    def topics(self) -> list[str]: ...

    def blobs(self, topic: str) -> Iterator[StoredBlob]: ...

    def delete(self, name: BlobName, unless_after_s: float) -> bool:
        """Tell whether it is gone now; not if it was modified after `unless_after_s`."""
        ...

    def sweep_pending(self, before_s: float) -> int:
        """Remove what was begun before then and never got a name; how many."""
        ...
