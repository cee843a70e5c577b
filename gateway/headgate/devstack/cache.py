"""Where downloaded and derived files are kept, and one-at-a-time access to them."""

import fcntl
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.3.1"
PARTIAL_PREFIX = "partial-"


def cache_directory(environment: Mapping[str, str], name: str = f"kafka-{KAFKA_VERSION}") -> Path:
    """Return a folder, that of this Kafka version: below $HEADGATE_CACHE, else the checkout's
    .cache, else (installed without a checkout) the user's cache."""
    if chosen := environment.get("HEADGATE_CACHE"):
        return Path(chosen).absolute() / name
    # Sources are in the checkout, and so is the environment that `make` installs into.
    for checkout in (Path(__file__).resolve().parents[3], Path(sys.prefix).parent):
        if (checkout / "gateway" / "headgate").is_dir():
            return checkout / ".cache" / name
    return Path.home() / ".cache" / "headgate" / name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel drops it when the process dies, however it dies.

    Removes what a holder that was killed has left half done: folders named PARTIAL_PREFIX...
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for partial in folder.glob(f"{PARTIAL_PREFIX}*"):
            shutil.rmtree(partial, ignore_errors=True)
        yield


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Make a folder beside the goal, on the same file system, for work that ends in one rename."""
    with tempfile.TemporaryDirectory(prefix=PARTIAL_PREFIX, dir=folder) as temporary:
        yield Path(temporary)


def short_digest(text: str) -> str:
    """Return 12 hex digits of the SHA-256 of `text`, for file names."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
