"""Damage to the files of a spool, byte by byte, as a failing disk or a hand would do it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from headgate.model.publish import Record
from headgate.spool.database import FILE, Append
from headgate.spool.journal import Journal

PAGE = 4096
LOG = f"{FILE}-wal"
AT_MS = 1_700_000_000_000


def append(number: int, size: int = 20, topic: str = "orders") -> Append:
    """A chunk of one event."""
    record = Record(topic, 0, b"k", b"%d:" % number + b"x" * size, [], number)
    return Append(topic, 0, 3, AT_MS, [record])


def fill(folder: Path, chunks: int, size: int = 20) -> None:
    """So many chunks of one event lie there, in the database file."""
    journal = Journal(folder)
    journal.commit([append(number, size) for number in range(chunks)], [])
    journal.close()


def overwrite(path: Path, at: int, content: bytes) -> None:
    """In place, as it lies there under whoever has it open."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def pages_of(folder: Path, name: str, kind: int) -> list[int]:
    """Numbers of the b-tree pages of a table or an index. kind: of pages, 13 = a table's leaf,
    10 = an index's."""
    database = sqlite3.connect(folder / FILE)
    [(root,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
    database.close()
    raw = (folder / FILE).read_bytes()
    found, queue = [], [root]
    while queue:
        page = queue.pop(0)
        content = raw[(page - 1) * PAGE : page * PAGE]
        if content[0] == kind:
            found.append(page)
        if content[0] in (2, 5):
            cells = int.from_bytes(content[3:5], "big")
            for cell in range(cells):
                at = int.from_bytes(content[12 + 2 * cell : 14 + 2 * cell], "big")
                queue.append(int.from_bytes(content[at : at + 4], "big"))
            queue.append(int.from_bytes(content[8:12], "big"))
    return found


def break_page(folder: Path, page: int) -> None:
    """Nothing of it can be read any more."""
    overwrite(folder / FILE, (page - 1) * PAGE, b"\xff" * PAGE)
