"""Notices that files were replaced, for whoever cannot send SIGHUP: a mounted ConfigMap, say."""

import asyncio
from collections.abc import Callable
from pathlib import Path

# Of what a name leads to: Kubernetes replaces a mounted file by turning a symbolic link above it.
_Sign = tuple[int, int, int, int]


class FileWatch:
    """Knows the state that files had when they were added: add them before they are read."""

    def __init__(self) -> None:
        self._acted_on: dict[Path, _Sign | None] = {}
        self._seen: dict[Path, _Sign | None] = {}

    def add(self, *files: str | Path) -> None:
        """Watch these as well."""
        for file in map(Path, files):
            self._acted_on[file] = self._seen[file] = _sign(file)

    async def run(self, period_s: float, ask: Callable[[], None]) -> None:
        """Look again and again, and ask once for each new state."""
        while True:
            await asyncio.sleep(period_s)
            if await asyncio.to_thread(self.look):
                ask()

    def look(self) -> bool:
        """Is this a new state, and the second look that finds it? One alone may see half a file."""
        found = {file: _sign(file) for file in self._seen}
        is_settled = found == self._seen
        is_new = found != self._acted_on
        self._seen = found
        if is_settled and is_new:
            self._acted_on = found
        return is_settled and is_new


def _sign(file: Path) -> _Sign | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
