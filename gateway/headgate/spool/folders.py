"""Which folders a gateway has spooled to, so that none is forgotten with events in it.

If `[spool]` is taken out of the configuration, or names another folder, what lies in the former one
would be published behind newer events at best. So a gateway notes its folder where its state is
kept, and a start looks into those that its configuration does not name any more.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from headgate.core.terminal import counted
from headgate.spool.database import FILE, JournalError
from headgate.spool.place import LOCK
from headgate.spool.reading import Reader

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
