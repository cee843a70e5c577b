"""Blobs as files: written to a temporary name, synced, renamed.

Calls block; `blobs.blobs.Blobs` makes them in threads.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from headgate.blobs.store import PENDING, StoredBlob
from headgate.model.oversize import BlobName, blob_name, parse_path


class FileBlobs:
    """Implementation of `store.ObjectStore` in a folder, which is created if necessary."""

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
        os.utime(
            self._path, (now_s, now_s)
        )  # its age counts from the commit, not from the first byte
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
