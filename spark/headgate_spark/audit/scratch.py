"""The folder with the data that an audit has read: beside the result, removed with its run."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate_spark.job.command_line import USAGE, JobError

PREFIX = ".headgate-reading-"  # folders with this prefix are removed: for audits only
_OWNER = "owner"  # locked as long as the run lives, on any machine
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """Create a folder below `out`, which executors on other machines reach as they reach `out`.

    Raises:
        JobError: The folder cannot be created.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_dead(out)
        folder, lock = _owned(out)
    except OSError as error:
        raise JobError(f"--out {out}: {error}", USAGE) from error
    try:
        _must_rename(folder, out)
        yield folder
    finally:
        # Tasks may still be writing: the rest is removed when Spark has ended.
        _remove(folder, lock)


def _must_rename(folder: Path, out: Path) -> None:
    """Raise JobError if a file cannot replace another, as on mounted object stores.

    Spark needs it as soon as it has read everything, and the result needs it at the end.
    """
    first, second = folder / "renamed", folder / "replaced"
    try:
        for file in (first, second):
            file.write_text("")
        first.replace(second)
        second.unlink()
    except OSError as error:
        raise JobError(
            f"--out {out}: files cannot be renamed there ({error}). Give a folder on a local disk "
            "or on NFS, and copy the result afterwards",
            USAGE,
        ) from error


def remove_dead(out: Path) -> None:
    """Remove the folders of ended runs, such as those of killed ones.

    A folder that cannot be removed, or whose run may still be alive, stays: that is no reason to
    end an audit.
    """
    for folder in out.glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove(folder, _locked(folder))


def _owned(out: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=out))
        with suppress(BlockingIOError, FileNotFoundError):  # another run took it for a dead one's
            lock = _lock_of(folder)
            if _is_there(folder, lock):
                return folder, lock
            os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:  # also after a signal: the next run leaves a locked folder alone
        os.close(lock)
    with suppress(OSError):
        folder.rmdir()  # NFS keeps a name for an open file, and the folder with it


def _lock_of(folder: Path) -> int:
    """Lock as `_locked` does; without support for locks no run removes the folder of another."""
    try:
        return _locked(folder)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return os.open(folder / _OWNER, os.O_RDWR)


def _locked(folder: Path) -> int:
    """Lock the folder. Raises OSError if another run has the lock, or locks are not supported."""
    lock = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _is_there(folder: Path, lock: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat((folder / _OWNER).stat(), os.fstat(lock))
    return False
