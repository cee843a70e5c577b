"""The parent's private folder, and the removal of folders that killed parents left behind.

It holds a copy of the configuration, which may contain passwords, so it must not stay. The parent
holds a lock on a file in it until its end, however it ends. A process that gets the lock of another
folder may remove that folder.
"""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger("headgate.private_folder")

_PREFIX = "headgate-"
_LOCK = "parent.lock"
_LONGEST = 60  # bytes


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder (0700) for as long as the context lasts, and remove abandoned ones."""
    above = _short_folder()
    _remove_left(above)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=above) as made:
        folder = Path(made)
        new = folder / f"{_LOCK}.new"
        with new.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(folder / _LOCK)  # visible only once it is locked
            yield folder


def _short_folder() -> Path:
    """Return a directory with a path short enough for sockets.

    A unix socket's path has at most 107 bytes, and TMPDIR may be too long.
    """
    usual = tempfile.gettempdir()
    return Path(usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp")


def _remove_left(above: Path) -> None:
    for lock in above.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or removed meanwhile
            folder = lock.parent
            if folder.stat().st_uid == os.getuid() and _is_free(lock):
                shutil.rmtree(folder)
                log.info("removed the folder of a killed parent", extra={"path": str(folder)})


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
