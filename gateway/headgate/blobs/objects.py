"""Blobs as objects of an S3 bucket. Blocking; `blobs.blobs.Blobs` calls it in threads.

Credentials, region and endpoint come from the usual sources of AWS: environment
(AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...), shared files, instance role.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import fsspec

from headgate.blobs.store import PENDING, StoredBlob
from headgate.model.oversize import BlobName, parse_path

_PART_BYTES = (
    5 * 1024 * 1024
)  # minimum size of a part of a multipart upload; a stream holds 2-3 parts
# An older object is written again, which renews its age. This is far less than the minimum age at
# which `blobs gc` removes blobs.
_YOUNG_S = 6 * 3600.0
_TIMEOUTS = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2}}


class ObjectBlobs:
    """Implementation of `store.ObjectStore` below `s3://bucket/prefix`.

    Raises:
        ImportError: s3fs is missing.
    """

    def __init__(self, url: str) -> None:
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


def _modified_s(found: dict[str, Any]) -> float:
    return float(found["LastModified"].timestamp()) if "LastModified" in found else time.time()


def _is_young(found: StoredBlob) -> bool:
    return time.time() - found.modified_s < _YOUNG_S
