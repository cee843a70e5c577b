"""The blob store for the event loop: a limited number of uploads, in their own threads."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from headgate.backends.heap import give_back
from headgate.blobs.stores import FileBlobs, ObjectBlobs, ObjectStore, Pending
from headgate.errors_in_words import connection_error
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.oversize import StoredBlob, blob_name

log = logging.getLogger("headgate.blobs")

T = TypeVar("T")

_RETRY_AFTER_S = 5
_FAILING_S = 30.0  # time for which a failure counts if no blob was stored since
# The memory of written pieces is free, but stays in the heaps of the threads: 10 to 20 MB for a
# body of 100 MB.
_TRIM_BYTES = 2_097_152
# The log has the reason, because the store's own messages contain paths, buckets and accounts.
_UNAVAILABLE = Failure(
    Reason.BLOBS_UNAVAILABLE,
    "the blob store does not take the value; nothing was published",
    retry_after_s=_RETRY_AFTER_S,
)
_CLOSED = Failure(Reason.DRAINING, "this instance is shutting down", retry_after_s=1)


def open_store(url: str) -> ObjectStore:
    """Open the store of `blobs.url`, which `model.oversize.root_problem` has checked.

    Raises:
        ImportError: The store needs a package that is missing.
    """
    if url.startswith("s3://"):
        return ObjectBlobs(url)
    return FileBlobs(Path(url.removeprefix("file://")))


class Blobs:
    """The blob store, opened at its first use: the gateway starts also if it is unavailable.

    Args:
        url: The root of the store.
        uploads: The number of threads and of simultaneous uploads; further uploads wait.
        make: Opens the store.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        url: str,
        uploads: int,
        make: Callable[[str], ObjectStore] = open_store,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url.rstrip("/")
        self._make = make
        self._store: ObjectStore | None = None
        self._pool = ThreadPoolExecutor(uploads, thread_name_prefix="blobs")
        self._uploads = uploads
        self._streams = 0
        self._clock = clock
        self._failed_s = -math.inf

    def health(self) -> tuple[bool, str]:
        """Return whether the store accepts values, and a text with the reason if not."""
        since_s = self._clock() - self._failed_s
        if since_s < _FAILING_S:
            return False, f"it failed {since_s:.0f} s ago and has stored nothing since"
        return True, "no failure"

    def stored(self) -> None:
        """Record that a blob was stored, which ends a failure."""
        self._failed_s = -math.inf

    async def put(self, topic: str, value: bytes) -> StoredBlob:
        """Store a value durably. Raises Refused (blobs_unavailable)."""
        # The value is passed in a list, because the pool's queue keeps its arguments. If the caller
        # gives up, its bytes return to the budget, so a store that hangs must not hold the value.
        values = [value]
        try:
            blob = await self.run(self._put, topic, values)
        finally:
            values.clear()
        self.stored()
        return blob

    async def begin(self, inspect: Callable[[bytes], None] = lambda piece: None) -> "BlobStream":
        """Begin a blob whose content arrives in pieces.

        Args:
            inspect: Receives each piece before it is written, in the same thread; may raise
            Refused.

        Raises:
            Refused: overloaded or blobs_unavailable.
        """
        if self._streams >= self._uploads:
            detail = f"blobs.uploads = {self._uploads} bodies are being stored already"
            raise Refused(
                Failure(Reason.OVERLOADED, detail, {"limit": "blobs.uploads"}, retry_after_s=1)
            )
        self._streams += 1
        # One thread for the whole blob: each thread has its own heap, and buffers of megabytes that
        # move between threads would fragment all heaps.
        thread = ThreadPoolExecutor(1, thread_name_prefix="blob-stream")
        try:
            pending = await self.run(self._begin, thread=thread)
        except BaseException:
            self.ended(thread)
            raise
        return BlobStream(self, self._url, pending, thread, inspect)

    def close(self) -> None:
        """Shut down the threads without waiting for the current uploads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self,
        work: "Callable[..., T]",
        *arguments: object,
        thread: ThreadPoolExecutor | None = None,
    ) -> T:
        """Run blocking work in one of the store's threads, or in `thread`. Raises Refused."""
        loop = asyncio.get_running_loop()
        try:
            pool = thread or self._pool
            future = loop.run_in_executor(pool, self._translated, work, arguments)
        except RuntimeError:  # the pool is shut down
            raise Refused(_CLOSED) from None
        return await future

    def ended(self, thread: ThreadPoolExecutor) -> None:
        """End a stream; its thread still finishes its remaining work."""
        self._streams -= 1
        thread.shutdown(wait=False)

    def _translated(self, work: "Callable[..., T]", arguments: tuple[object, ...]) -> T:
        try:
            errors = self._opened().errors
        except ImportError as error:
            self._failed_s = self._clock()
            log.warning("blob store cannot be opened: %s; install headgate[s3]", error)
            raise Refused(_UNAVAILABLE) from error
        try:
            return work(*arguments)
        except errors as error:
            self._failed_s = self._clock()
            log.warning("blob store failed: %s", connection_error(error))
            raise Refused(_UNAVAILABLE) from error

    def _opened(self) -> ObjectStore:
        if self._store is None:  # two threads may open equal stores
            self._store = self._make(self._url)
        return self._store

    def _put(self, topic: str, values: list[bytes]) -> StoredBlob:
        value = values.pop()
        digest = hashlib.sha256(value).hexdigest()
        name = blob_name(topic, digest)
        self._opened().put(name, value)
        return StoredBlob(f"{self._url}/{name.path}", len(value), digest)

    def _begin(self) -> Pending:
        return self._opened().begin()


class BlobStream:
    """A blob that is being written. Always end it with `commit` or `abort`."""

    def __init__(
        self,
        blobs: Blobs,
        url: str,
        pending: Pending,
        thread: ThreadPoolExecutor,
        inspect: Callable[[bytes], None],
    ) -> None:
        self._inspect = inspect
        self._blobs = blobs
        self._url = url
        self._pending = pending
        self._thread = thread
        self._sha256 = hashlib.sha256()
        self.size = 0
        self._kept = 0

    async def write(self, data: bytes) -> None:
        """Write a piece. Raises Refused (blobs_unavailable, or a refusal by `inspect`)."""
        self.size += len(data)
        await self._blobs.run(self._write, data, thread=self._thread)

    async def commit(self, topic: str) -> StoredBlob:
        """Name the blob after its content. Raises Refused (blobs_unavailable)."""
        name = blob_name(topic, self._sha256.hexdigest())
        await self._blobs.run(self._pending.commit, name, thread=self._thread)
        self._blobs.ended(self._thread)
        self._blobs.stored()
        return StoredBlob(f"{self._url}/{name.path}", self.size, name.digest)

    async def abort(self) -> None:
        """Remove the blob; `blobs gc` removes it later if that fails."""
        try:
            await self._blobs.run(self._pending.abort, thread=self._thread)
        except Refused:
            return
        finally:
            self._blobs.ended(self._thread)

    def _write(self, data: bytes) -> None:
        self._inspect(data)
        self._sha256.update(data)
        self._pending.write(data)
        self._kept += len(data)
        if self._kept >= _TRIM_BYTES:
            self._kept = 0
            give_back()
