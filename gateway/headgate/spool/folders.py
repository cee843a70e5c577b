"""Which folders a gateway has spooled to, so that none is forgotten with events in it.

If `[spool]` is taken out of the configuration, or names another folder, what lies in the former one
would be published behind newer events at best. So a gateway notes its folder where its state is
kept, and a start looks into those that its configuration does not name any more.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from headgate.core.terminal import counted
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

# The folder of a journal: made, locked, and looked at whether its files are still ours.
#
# SQLite goes on writing to a file that was deleted: what it says is on disk is gone with the
# process. So whoever answers `spooled` asks before and after each commit whether the files have
# their names.
#
# To forget what was published takes room in the log, and so does a start. So some is kept on the
# disk in a file, which is given away for that alone; nothing is added before it is there again.


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


log = logging.getLogger("headgate.spool")

_MOST: Final = 100  # folders that are noted


class LeftBehind(NamedTuple):
    """A folder that the configuration does not name. events: that wait there; None = not known."""

    folder: Path
    events: int | None

    def __str__(self) -> str:
        count = "events" if self.events is None else counted(self.events, "spooled event")
        return f"{count} in {self.folder}"


def events_in(folder: Path) -> int | None:
    """How many events wait in a folder; None if it cannot be read."""
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
    """The folders of gateways with one configuration file, in a note of theirs.

    The note is in $STATE_DIRECTORY, as systemd gives it, or else below $XDG_STATE_HOME or the home
    directory. Where that cannot be written, nothing is noted.
    """

    def __init__(self, config: Path, environ: Mapping[str, str]) -> None:
        name = sha256(os.fsencode(config.resolve())).hexdigest()[:16]
        self._note = _state_folder(environ) / f"spool-folders-{name}"

    def left_behind(self, current: str | None) -> list[LeftBehind]:
        """Those that have events, and are neither the current one nor another process'."""
        own = None if current is None else Path(current).resolve()
        found = list[LeftBehind]()
        for folder in self._noted():
            if folder != own and not _is_in_use(folder):
                events = events_in(folder)
                if events != 0:
                    found.append(LeftBehind(folder, events))
        return found

    def note(self, current: str | None) -> None:
        """Note the current folder, and forget those that have nothing."""
        own = [] if current is None else [Path(current).resolve()]
        others = [one for one in self._noted() if _is_in_use(one) or events_in(one) != 0]
        self._write([*others, *own])

    def forget(self, left: Iterable[LeftBehind]) -> None:
        """Forget these, whatever they have."""
        abandoned = {one.folder for one in left}
        self._write([one for one in self._noted() if one not in abandoned])

    def _noted(self) -> list[Path]:
        try:
            lines = self._note.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError:
            return []
        return [Path(line) for line in lines if line]

    def _write(self, folders: list[Path]) -> None:
        lines = list(dict.fromkeys(map(str, folders)))[-_MOST:]
        if lines == [str(one) for one in self._noted()]:
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
            log.info("folder of the spool cannot be recorded: %s", error)


def _state_folder(environ: Mapping[str, str]) -> Path:
    if given := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given)
    if given := environ.get("XDG_STATE_HOME", ""):
        return Path(given) / "headgate"
    try:
        return Path.home() / ".local" / "state" / "headgate"
    except RuntimeError:  # a user without an entry
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
