"""The folder of a journal: made, locked, and looked at whether its files are still ours.

SQLite goes on writing to a file that was deleted: what it says is on disk is gone with the process.
So whoever answers `spooled` asks before and after each commit whether the files have their names.

To forget what was published takes room in the log, and so does a start. So some is kept on the disk
in a file, which is given away for that alone; nothing is added before it is there again.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headgate.spool.carve import look_at_log
from headgate.spool.database import (
    FILE,
    JournalDamagedError,
    JournalFullError,
    JournalGoneError,
    JournalInUseError,
    look_at_header,
)

LOG: Final = f"{FILE}-wal"
FILES: Final = (FILE, LOG, f"{FILE}-shm")
LOCK: Final = "lock"
_MADE: Final = b"a spool was made here\n"
_OTHERS: Final = 0o007
_ROOM: Final = "room"
_ROOM_BYTES: Final = 4 << 20  # beyond what the log grows by until it begins again


class Place:
    """is_missing: a file was made here once, and is gone. Raises OSError, JournalError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, int]] = {}
        self._has_room = False
        _make(folder)
        self._lock = _locked(folder)
        try:
            path = folder / FILE
            is_new = not path.exists() or not path.stat().st_size
            _look_at(path, folder / LOG, is_new)
            self.is_missing = is_new and bool(os.pread(self._lock, 1, 0))
            if is_new:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            for name in FILES:
                _keep_from_others(folder / name)
        except BaseException:
            os.close(self._lock)
            raise

    def opened(self) -> None:
        """SQLite has opened its files: from now on they are these."""
        if not os.pread(self._lock, 1, 0):
            os.pwrite(self._lock, _MADE, 0)
        _sync(self._folder)
        self._known = {name: _identity(self._folder / name) for name in (LOCK, FILE, LOG)}

    def check(self, *, certain: bool) -> None:
        """Raises JournalGoneError. certain: nothing was written since the last time."""
        for name, known in self._known.items():
            try:
                found = _identity(self._folder / name)
            except OSError as error:
                why = error.strerror or str(error)
                text = f"{self._folder / name} is gone: {why}"
                raise JournalGoneError(text, is_certain=certain) from error
            if found != known:
                text = f"{self._folder / name} was replaced by another file"
                raise JournalGoneError(text, is_certain=certain)

    def keep_room(self) -> None:
        """There is some. Raises JournalFullError."""
        if self._has_room:
            return
        path = self._folder / _ROOM
        try:
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(opened, 0, _ROOM_BYTES)
            finally:
                os.close(opened)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise JournalFullError(f"{path}: {error.strerror or error}") from error
        self._has_room = True

    def give_room(self) -> bool:
        """Some for what makes room; False where there is none."""
        try:
            (self._folder / _ROOM).unlink()
        except OSError:
            return False
        self._has_room = False
        return True

    @contextlib.contextmanager
    def spared(self) -> Iterator[None]:
        """SQLite deletes its log by name when it closes; here not if that is another's by now."""
        log, aside = self._folder / LOG, self._folder / f"{LOG}-spared"
        with contextlib.suppress(OSError):
            if LOG in self._known and _identity(log) != self._known[LOG]:
                log.rename(aside)
        yield
        with contextlib.suppress(OSError):
            aside.rename(log)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock)


def move(folder: Path, to: Path) -> None:
    """Put the files of a journal that is not open elsewhere. Raises OSError."""
    to.mkdir(mode=0o700)
    for name in FILES:
        if (folder / name).exists():
            (folder / name).rename(to / name)
    with contextlib.suppress(FileNotFoundError):
        os.truncate(folder / LOCK, 0)
    _sync(folder)


def kept_in(folder: Path) -> list[str]:
    """The folders of damaged journals that lie there, the oldest first."""
    return sorted({one.parent.name for one in folder.glob(f"damaged-*/{FILE}*")})


def _look_at(path: Path, log: Path, is_new: bool) -> None:
    """Raises JournalDamagedError: what SQLite would not notice."""
    if is_new and log.exists() and log.stat().st_size:
        raise JournalDamagedError(f"{path} is missing, and its log is here")
    if not is_new:
        look_at_header(path, has_log=log.exists() and log.stat().st_size > 0)
    look_at_log(log)


def _make(folder: Path) -> None:
    """With its parents, each known to the disk."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for one in missing:
        _sync(one.parent)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _keep_from_others(path: Path) -> None:
    with contextlib.suppress(OSError):  # there is none, or it is another user's
        mode = path.stat().st_mode & 0o777
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116
    return found.st_dev, found.st_ino


def _locked(folder: Path) -> int:
    found = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(found)
        raise JournalInUseError(f"{folder}: another process uses it") from error
    except BaseException:
        os.close(found)
        raise
    return found
