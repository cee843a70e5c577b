"""Blob stores: a folder, or an S3 bucket.

All calls block, and may raise the store's `errors`; `blobs.blobs.Blobs` makes them in threads.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from headgate.model.oversize import BlobName, blob_name, parse_path

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

    def blobs(self, topic: str) -> Iterator[StoredBlob]:
        folder = self._root / blob_name(topic, "0" * 64).topic
        for digits in sorted(_names(folder)):
            for digest in sorted(_names(folder / digits)):
                name = parse_path(f"{topic}/{digits}/{digest}")
                with suppress(FileNotFoundError):  # another sweep may be running
                    if name is not None:
                        status = (folder / digits / digest).stat()
                        yield StoredBlob(name, status.st_size, status.st_mtime)

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
                _sync_folder(folder.parent)
        now_s = time.time()
        # its age counts from the commit, not from the first byte
        os.utime(self._path, (now_s, now_s))
        self._path.replace(final)
        _sync_folder(final.parent)

    def abort(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, because a power failure could lose a new name otherwise."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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

    def blobs(self, topic: str) -> Iterator[StoredBlob]:
        for folder in sorted(self._list(f"{self._root}/{topic}")):
            for path, facts in sorted(self._list(folder).items()):
                name = parse_path(path[len(self._root) + 1 :])
                if name is not None:
                    yield StoredBlob(name, int(facts["size"]), _modified_s(facts))

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

    def _info(self, path: str) -> StoredBlob | None:
        try:
            facts = self._fs.info(path, refresh=True)
        except FileNotFoundError:
            return None
        name = parse_path(path[len(self._root) + 1 :])
        if name is None or facts["type"] != "file":
            return None
        return StoredBlob(name, int(facts["size"]), _modified_s(facts))

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


def _is_young(blob: StoredBlob) -> bool:
    return time.time() - blob.modified_s < _YOUNG_S
