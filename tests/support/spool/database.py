"""The spool's file, opened beside the spool."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from headgate.spool.database import FILE


@contextmanager
def database_of(folder: Path) -> Iterator[sqlite3.Connection]:
    """Commits at the end and closes, which sqlite3's own context does not."""
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        yield database
