"""The blob store: a folder or an S3 bucket, and its front for the event loop with its threads."""

import asyncio
import hashlib
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

from headgate.backends.system import give_back, sync_folder
from headgate.errors_in_words import connection_error
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.oversize import BlobName, StoredBlob, blob_name, parse_path

log = logging.getLogger("headgate.blobs")

T = TypeVar("T")

# ---- the stores, whose calls block and may raise the store's `errors`


PENDING = ".pending"  # folder below the root for blobs without a name; no topic has this name


class BlobEntry(NamedTuple):
    """A stored blob; `modified_s` is its last use by an event, in seconds since 1970."""

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

    def blobs(self, topic: str) -> Iterator[BlobEntry]: ...

    def delete(self, name: BlobName, unless_after_s: float) -> bool:
        """Delete a blob unless it was modified after `unless_after_s`; return the success."""
        ...

    def sweep_pending(self, before_s: float) -> int:
        """Remove blobs that were begun before a time and have no name; return their number."""
        ...


# ---- blobs as files: written to a temporary name, synced, renamed


class FileBlobs:
    """Implementation of `ObjectStore` in a folder, which is created if necessary."""

    errors: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pending = root / PENDING

    def put(self, name: BlobName, value: bytes) -> None:
        if self._refresh(name, len(value)):
            return
        pending = self.begin()
        try:
            pending.write(value)
            pending.commit(name)
        except BaseException:
            pending.abort()
            raise

    def begin(self) -> "PendingFile":
        self._pending.mkdir(parents=True, exist_ok=True)
        return PendingFile(self._root, self._pending / secrets.token_hex(16))

    def blobs(self, topic: str) -> Iterator[BlobEntry]:
        folder = self._root / blob_name(topic, "0" * 64).topic
        for digits in sorted(_names(folder)):
            for digest in sorted(_names(folder / digits)):
                name = parse_path(f"{topic}/{digits}/{digest}")
                with suppress(FileNotFoundError):  # another sweep may be running
                    if name is not None:
                        status = (folder / digits / digest).stat()
                        yield BlobEntry(name, status.st_size, status.st_mtime)

    def topics(self) -> list[str]:
        return sorted(name for name in _names(self._root) if name != PENDING)

    def delete(self, name: BlobName, unless_after_s: float) -> bool:
        """Delete a blob unless it was modified after a time; return whether it is gone.

        The file is renamed first. A gateway may refresh the blob at this moment. If it does so
        before the rename, the new time is noticed here. Otherwise it finds no blob and writes it
        again.
        """
        path = self._root / name.path
        removed = self._pending / f"gone-{secrets.token_hex(16)}"
        removed.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.rename(removed)
        except FileNotFoundError:
            return False
        if removed.stat().st_mtime > unless_after_s:
            removed.rename(path)
            return False
        removed.unlink()
        return True

    def sweep_pending(self, before_s: float) -> int:
        swept = 0
        for name in _names(self._pending):
            with suppress(FileNotFoundError):
                if (self._pending / name).stat().st_mtime < before_s:
                    (self._pending / name).unlink()
                    swept += 1
        return swept

    def _refresh(self, name: BlobName, size: int) -> bool:
        """Renew the age of an existing blob for `blobs gc`; return whether it exists."""
        path = self._root / name.path
        try:
            if path.stat().st_size != size:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True


class PendingFile:
    """A blob that is being written, without a name until `commit`."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root = root
        self._path = path
        self._file: BinaryIO = path.open("xb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self, name: BlobName) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        final = self._root / name.path
        for folder in (final.parent.parent, final.parent):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                sync_folder(folder.parent)
        now_s = time.time()
        # its age counts from the commit, not from the first byte
        os.utime(self._path, (now_s, now_s))
        self._path.replace(final)
        sync_folder(final.parent)

    def abort(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - Path.iterdir would be a list of objects
    except (FileNotFoundError, NotADirectoryError):
        return []


# ---- blobs as objects of an S3 bucket
#
# Credentials, region and endpoint come from the usual sources of AWS: environment
# (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...), shared files, instance role.


# The minimum size of a part of a multipart upload; a stream holds 2-3 parts.
_PART_BYTES = 5 * 1024 * 1024
# An older object is written again, which renews its age. This is far less than the minimum age at
# which `blobs gc` removes blobs.
_YOUNG_S = 6 * 3600.0
_TIMEOUTS = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2}}


class ObjectBlobs:
    """Implementation of `ObjectStore` below `s3://bucket/prefix`.

    Raises:
        ImportError: s3fs is missing.
    """

    def __init__(self, url: str) -> None:
        import fsspec  # 2 MiB
        from botocore.exceptions import BotoCoreError, ClientError  # in the extra headgate[s3]

        self.errors: tuple[type[Exception], ...] = (OSError, BotoCoreError, ClientError)
        self._root = url.removeprefix("s3://").rstrip("/")
        self._fs: Any = fsspec.filesystem(
            "s3", use_listings_cache=False, skip_instance_cache=True, config_kwargs=_TIMEOUTS
        )

    def put(self, name: BlobName, value: bytes) -> None:
        path = f"{self._root}/{name.path}"
        stored = self._info(path)
        if stored is not None and stored.size == len(value) and _is_young(stored):
            return
        self._fs.pipe_file(path, value)

    def begin(self) -> "PendingObject":
        return PendingObject(self._fs, self._root)

    def topics(self) -> list[str]:
        folders = (path.rsplit("/", 1)[-1] for path in self._list(self._root))
        return sorted(name for name in folders if name != PENDING)

    def blobs(self, topic: str) -> Iterator[BlobEntry]:
        for folder in sorted(self._list(f"{self._root}/{topic}")):
            for path, facts in sorted(self._list(folder).items()):
                name = parse_path(path[len(self._root) + 1 :])
                if name is not None:
                    yield BlobEntry(name, int(facts["size"]), _modified_s(facts))

    def delete(self, name: BlobName, unless_after_s: float) -> bool:
        """Delete a blob unless it was modified after a time; return whether it was deleted.

        S3 has no conditional delete by age, so the age is read immediately before.
        """
        path = f"{self._root}/{name.path}"
        stored = self._info(path)
        if stored is None or stored.modified_s > unless_after_s:
            return False
        self._fs.rm_file(path)
        return True

    def sweep_pending(self, before_s: float) -> int:
        swept = 0
        for path, facts in self._list(f"{self._root}/{PENDING}").items():
            if _modified_s(facts) < before_s:
                self._fs.rm_file(path)
                swept += 1
        return swept

    def _info(self, path: str) -> BlobEntry | None:
        try:
            facts = self._fs.info(path, refresh=True)
        except FileNotFoundError:
            return None
        name = parse_path(path[len(self._root) + 1 :])
        if name is None or facts["type"] != "file":
            return None
        return BlobEntry(name, int(facts["size"]), _modified_s(facts))

    def _list(self, path: str) -> dict[str, dict[str, Any]]:
        try:
            entries = self._fs.ls(path, detail=True, refresh=True)
        except FileNotFoundError:
            return {}
        return {each["name"]: each for each in entries if each["name"] != path}


class PendingObject:
    """A multipart upload with a temporary name; `commit` copies it inside the bucket."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._root = root
        self._path = f"{root}/{PENDING}/{secrets.token_hex(16)}"
        self._file = fs.open(self._path, "wb", block_size=_PART_BYTES)

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self, name: BlobName) -> None:
        self._file.close()
        self._fs.cp_file(self._path, f"{self._root}/{name.path}")
        with suppress(OSError):  # `blobs gc` removes the rest
            self._fs.rm_file(self._path)

    def abort(self) -> None:
        if self._file.closed:
            self._fs.rm_file(self._path)
        else:
            self._file.discard()
            self._file.closed = True  # otherwise its finaliser would upload the rest


def _modified_s(facts: dict[str, Any]) -> float:
    return float(facts["LastModified"].timestamp()) if "LastModified" in facts else time.time()


def _is_young(blob: BlobEntry) -> bool:
    return time.time() - blob.modified_s < _YOUNG_S


# ---- the front for the event loop: a limited number of uploads, in their own threads

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
