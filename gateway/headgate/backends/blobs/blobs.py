"""The blob store for the event loop: bounded in number, in threads of its own."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from headgate.backends.blobs.files import FileBlobs
from headgate.backends.blobs.store import ObjectStore, Pending
from headgate.backends.heap import give_back
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.chunks import blob_name
from headgate.core.oversize.strategies import StoredBlob
from headgate.core.refusal import Refused

log = logging.getLogger("headgate.backends.blobs")

T = TypeVar("T")

_RETRY_AFTER_S = 5
_FAILING_S = 30.0  # how long a failure counts where no blob was stored since
# What a stream has passed on is free, but in the heaps of the threads it went through: 10 to 20 MB
# of a body of 100 MB stayed there.
_TRIM_BYTES = 2_097_152
# Why is in the log: the store's own words name paths, buckets and accounts.
_UNAVAILABLE = Failure(
    Reason.BLOBS_UNAVAILABLE,
    "the blob store does not take the value; nothing was published",
    None,
    _RETRY_AFTER_S,
)
_CLOSED = Failure(Reason.DRAINING, "this instance is shutting down", None, 1)


def open_store(url: str) -> ObjectStore:
    """The store that `blobs.url` names (checked: `core.oversize.chunks.root_problem`).

    Raises ImportError when it needs a package that is not there.
    """
    if url.startswith("s3://"):
        from headgate.backends.blobs.objects import ObjectBlobs  # with fsspec, 2 MiB

        return ObjectBlobs(url)
    return FileBlobs(Path(url.removeprefix("file://")))


class Blobs:
    """uploads: how many threads, and so how many uploads at a time; others wait.

    The store is opened by its first use: a bucket that is away must not keep the gateway from
    starting.
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
        """Whether it takes values, and in words why not."""
        since_s = self._clock() - self._failed_s
        if since_s < _FAILING_S:
            return False, f"it failed {since_s:.0f} s ago and has stored nothing since"
        return True, "no failure"

    def stored(self) -> None:
        """A blob is there."""
        self._failed_s = -math.inf

    async def put(self, topic: str, value: bytes) -> StoredBlob:
        """Have the value in the store, durably. Raises Refused (blobs_unavailable)."""
        # Through a list, because the pool's queue keeps its arguments: who gives up while it waits
        # there has its bytes back in the budget, and a store that hangs must not hold them.
        values = [value]
        try:
            blob = await self.run(self._put, topic, values)
        finally:
            values.clear()
        self.stored()
        return blob

    async def begin(self, inspect: Callable[[bytes], None] = lambda piece: None) -> "BlobStream":
        """A blob whose content comes in pieces. Raises Refused (overloaded, blobs_unavailable).

        inspect: gets each piece before it is written, in the same thread; may raise Refused.
        """
        if self._streams >= self._uploads:
            detail = f"blobs.uploads = {self._uploads} bodies are being stored already"
            raise Refused(Failure(Reason.OVERLOADED, detail, {"limit": "blobs.uploads"}, 1))
        self._streams += 1
        # One thread for all of it: threads have heaps of their own, and buffers of megabytes that
        # wander from one to the other leave a hole in each.
        thread = ThreadPoolExecutor(1, thread_name_prefix="blob-stream")
        try:
            pending = await self.run(self._begin, thread=thread)
        except BaseException:
            self.ended(thread)
            raise
        return BlobStream(self, self._url, pending, thread, inspect)

    def close(self) -> None:
        """Uploads under way end by themselves; nothing waits for them."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self,
        work: "Callable[..., T]",
        *arguments: object,
        thread: ThreadPoolExecutor | None = None,
    ) -> T:
        """Blocking work of the store, in one of its threads or this one. Raises Refused."""
        loop = asyncio.get_running_loop()
        try:
            pool = thread or self._pool
            future = loop.run_in_executor(pool, self._translated, work, arguments)
        except RuntimeError:  # the pool is shut down
            raise Refused(_CLOSED) from None
        return await future

    def ended(self, thread: ThreadPoolExecutor) -> None:
        """A stream has ended, but for what it left to its thread."""
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
            log.warning("blob store failed: %r", error)
            raise Refused(_UNAVAILABLE) from error

    def _opened(self) -> ObjectStore:
        if self._store is None:  # two threads may do it: they are alike
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
    """One blob on its way. End it with `commit` or `abort`, always."""

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
        """Raises Refused (blobs_unavailable, or what `inspect` raises)."""
        self.size += len(data)
        await self._blobs.run(self._write, data, thread=self._thread)

    async def commit(self, topic: str) -> StoredBlob:
        """Give it the name that its content has. Raises Refused (blobs_unavailable)."""
        name = blob_name(topic, self._sha256.hexdigest())
        await self._blobs.run(self._pending.commit, name, thread=self._thread)
        self._blobs.ended(self._thread)
        self._blobs.stored()
        return StoredBlob(f"{self._url}/{name.path}", self.size, name.digest)

    async def abort(self) -> None:
        """Leave nothing behind; what cannot be removed now `blobs gc` removes."""
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
