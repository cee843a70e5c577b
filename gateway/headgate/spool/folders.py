"""Folders of spools: a journal's folder with its lock, and the note of all folders in use.

If `[spool]` is removed from the configuration, or names another folder, events may remain in the
former folder. At best they would be published behind newer events. So a gateway notes its folder in
its state directory, and a start checks the folders that its configuration no longer names.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from headgate.backends.system import sync_folder
from headgate.model.text import counted
from headgate.spool.carve import look_at_log
from headgate.spool.database import (
    FILE,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    JournalGoneError,
    JournalInUseError,
    look_at_header,
)
from headgate.spool.reading import Reader

log = logging.getLogger("headgate.spool")

# ---- the folder of a journal: its lock, and the identity of its files
#
# SQLite continues to write to a deleted file, whose contents are lost when the process ends. So
# before and after each commit of `spooled` events the names must still lead to the same files.
#
# To delete published chunks takes room in the log, and so does a start. So a file reserves some
# room on the disk for that alone. The journal takes no events before the room is reserved again.


LOG: Final = f"{FILE}-wal"
FILES: Final = (FILE, LOG, f"{FILE}-shm")
LOCK: Final = "lock"
_MADE: Final = b"a spool was made here\n"
_OTHERS: Final = 0o007
_ROOM: Final = "room"
_ROOM_BYTES: Final = 4 << 20  # beyond what the log grows by until it begins again


class JournalFolder:
    """A journal's folder, locked for this process.

    Attributes:
        is_missing: The folder had a file once, and has none now.

    Raises:
        OSError: The folder cannot be used.
        JournalError: Another process uses the folder, or its files are damaged.
    """

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
        """Note the identity of the files, which SQLite has opened."""
        if not os.pread(self._lock, 1, 0):
            os.pwrite(self._lock, _MADE, 0)
        sync_folder(self._folder)
        self._known = {name: _identity(self._folder / name) for name in (LOCK, FILE, LOG)}

    def check(self, *, certain: bool) -> None:
        """Check that the files are still those that SQLite has opened.

        Args:
            certain: Nothing was written since the last check.

        Raises:
            JournalGoneError: A file was deleted or replaced.
        """
        for name, opened in self._known.items():
            try:
                current = _identity(self._folder / name)
            except OSError as error:
                why = error.strerror or str(error)
                text = f"{self._folder / name} is gone: {why}"
                raise JournalGoneError(text, is_certain=certain) from error
            if current != opened:
                text = f"{self._folder / name} was replaced by another file"
                raise JournalGoneError(text, is_certain=certain)

    def keep_room(self) -> None:
        """Reserve room on the disk.

        Raises:
            JournalFullError: The disk has no room.
        """
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
        """Release the reserved room; return False if there is none."""
        try:
            (self._folder / _ROOM).unlink()
        except OSError:
            return False
        self._has_room = False
        return True

    @contextlib.contextmanager
    def spared(self) -> Iterator[None]:
        """Protect the log of another journal while SQLite closes.

        SQLite deletes its log by name, even if the file of that name is no longer its own.
        """
        log, aside = self._folder / LOG, self._folder / f"{LOG}-spared"
        with contextlib.suppress(OSError):
            if LOG in self._known and _identity(log) != self._known[LOG]:
                log.rename(aside)
        yield
        with contextlib.suppress(OSError):
            aside.rename(log)

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)


def move(folder: Path, to: Path) -> None:
    """Move the files of a journal that is not open.

    Args:
        folder: Folder of the journal.
        to: New folder, which must not exist.

    Raises:
        OSError: The files cannot be moved.
    """
    to.mkdir(mode=0o700)
    for name in FILES:
        if (folder / name).exists():
            (folder / name).rename(to / name)
    with contextlib.suppress(FileNotFoundError):
        os.truncate(folder / LOCK, 0)
    sync_folder(folder)


def kept_in(folder: Path) -> list[str]:
    """Return the names of the folders with damaged journals, the oldest first."""
    return sorted({path.parent.name for path in folder.glob(f"damaged-*/{FILE}*")})


def _look_at(path: Path, log: Path, is_new: bool) -> None:
    """Raise JournalDamagedError for damage that SQLite would not notice."""
    if is_new and log.exists() and log.stat().st_size:
        raise JournalDamagedError(f"{path} is missing, and its log is here")
    if not is_new:
        look_at_header(path, has_log=log.exists() and log.stat().st_size > 0)
    look_at_log(log)


def _make(folder: Path) -> None:
    """Create a folder and its parents, and sync each to disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in missing:
        sync_folder(path.parent)


def _keep_from_others(path: Path) -> None:
    with contextlib.suppress(OSError):  # the file does not exist, or belongs to another user
        mode = path.stat().st_mode & 0o777
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116
    return status.st_dev, status.st_ino


def _locked(folder: Path) -> int:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise JournalInUseError(f"{folder}: another process uses it") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


# ---- the note of all folders in use

_MAX_NOTED: Final = 100  # largest number of noted folders


class LeftBehind(NamedTuple):
    """A folder that the configuration does not name.

    Attributes:
        events: Number of events that wait there; None if unknown.
    """

    folder: Path
    events: int | None

    def __str__(self) -> str:
        count = "events" if self.events is None else counted(self.events, "spooled event")
        return f"{count} in {self.folder}"


def events_in(folder: Path) -> int | None:
    """Return the number of events that wait in a folder; None if it cannot be read."""
    if not any((folder / name).exists() for name in (FILE, f"{FILE}-wal")):
        return 0
    try:
        reader = Reader(folder)
    except JournalError:
        return None
    try:
        return sum(lane.events for lane in reader.lanes())
    except JournalError:
        return None
    finally:
        reader.close()


class SpoolFolders:
    """A note of the spool folders of gateways with one configuration file.

    The note is in $STATE_DIRECTORY, which systemd sets, or else below $XDG_STATE_HOME or the home
    directory. If that directory is not writable, there is no note.
    """

    def __init__(self, config: Path, environ: Mapping[str, str]) -> None:
        name = sha256(os.fsencode(config.resolve())).hexdigest()[:16]
        self._note = _state_folder(environ) / f"spool-folders-{name}"

    def left_behind(self, current: str | None) -> list[LeftBehind]:
        """Return the noted folders with events, except the current one and those in use.

        Args:
            current: Folder of the current configuration; None without a spool.
        """
        own = None if current is None else Path(current).resolve()
        remaining = list[LeftBehind]()
        for folder in self._noted():
            if folder != own and not _is_in_use(folder):
                events = events_in(folder)
                if events != 0:
                    remaining.append(LeftBehind(folder, events))
        return remaining

    def note(self, current: str | None) -> None:
        """Note the current folder, and forget folders without events."""
        own = [] if current is None else [Path(current).resolve()]
        others = [noted for noted in self._noted() if _is_in_use(noted) or events_in(noted) != 0]
        self._write([*others, *own])

    def forget(self, folders: Iterable[LeftBehind]) -> None:
        """Forget these folders, even if they have events."""
        abandoned = {noted.folder for noted in folders}
        self._write([noted for noted in self._noted() if noted not in abandoned])

    def _noted(self) -> list[Path]:
        try:
            lines = self._note.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError:
            return []
        return [Path(line) for line in lines if line]

    def _write(self, folders: list[Path]) -> None:
        lines = list(dict.fromkeys(map(str, folders)))[-_MAX_NOTED:]
        if lines == [str(noted) for noted in self._noted()]:
            return
        try:
            if not lines:
                self._note.unlink(missing_ok=True)
                return
            self._note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._note.with_name(f"{self._note.name}.{os.getpid()}")
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            fresh.touch(mode=0o600)
            text = "".join(f"{line}\n" for line in lines)
            fresh.write_text(text, encoding="utf-8", errors="surrogateescape")
            fresh.replace(self._note)
        except OSError as error:
            log.warning("folder of the spool cannot be recorded: %s", error)


def _state_folder(environ: Mapping[str, str]) -> Path:
    if given := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given)
    if given := environ.get("XDG_STATE_HOME", ""):
        return Path(given) / "headgate"
    try:
        return Path.home() / ".local" / "state" / "headgate"
    except RuntimeError:  # the user has no entry in the password database
        return Path("/nonexistent")


def _is_in_use(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except OSError:
        pass
    return False
