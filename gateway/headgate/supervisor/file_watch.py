"""Detection of replaced files, for deployments without SIGHUP, such as a mounted ConfigMap."""

import asyncio
from collections.abc import Callable
from pathlib import Path

# Signature of the link's target: Kubernetes replaces a mounted file by turning a link above it.
_Sign = tuple[int, int, int, int]


class FileWatch:
    """A poll of files for changes since they were added. Add files before you read them."""

    def __init__(self) -> None:
        self._acted_on: dict[Path, _Sign | None] = {}
        self._seen: dict[Path, _Sign | None] = {}

    def add(self, *files: str | Path) -> None:
        """Watch more files."""
        for file in map(Path, files):
            self._acted_on[file] = self._seen[file] = _sign(file)

    async def run(self, period_s: float, ask: Callable[[], None]) -> None:
        """Poll the files until cancelled, and call `ask` once for each new state."""
        while True:
            await asyncio.sleep(period_s)
            if await asyncio.to_thread(self.look):
                ask()

    def look(self) -> bool:
        """Return whether this is the second look in a row that finds a new state.

        A single look may see half a file.
        """
        signs = {file: _sign(file) for file in self._seen}
        is_settled = signs == self._seen
        is_new = signs != self._acted_on
        self._seen = signs
        if is_settled and is_new:
            self._acted_on = signs
        return is_settled and is_new


def _sign(file: Path) -> _Sign | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
