"""A real PostgreSQL server on loopback, from the wheel that carries one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.shop.postgres import running_postgres as running_in
from support.process.stack import free_port


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start an empty server; yields its URL for SQLAlchemy with asyncpg. Its data is not synced."""
    # below /tmp itself: pytest's folders are closed to others than root
    with (
        tempfile.TemporaryDirectory(prefix="headgate-postgres-") as folder,
        running_in(Path(folder), "-F", port=free_port()) as url,
    ):
        yield url
