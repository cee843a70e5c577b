"""The journal when a statement fails, and beside those who read it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.model.publish import Record
from headgate.spool.database import FILE, Append, JournalError
from headgate.spool.journal import Journal
from headgate.spool.reading import Reader
from support.gateway.fakes import topic_state

STATES = [topic_state("orders" + "x" * 200 + str(number)) for number in range(100)]


def append(number: int, size: int = 20) -> Append:
    record = Record("orders", 0, b"k", b"%d" % number + b"x" * size, [], number)
    return Append("orders", 0, 3, 1_700_000_000_000, [record])


def fill(journal: Journal) -> None:
    """From now on nothing fits: SQLite says so as it does of a full disk."""
    database = journal._database
    [pages] = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")


def free(journal: Journal) -> None:
    journal._database.execute("PRAGMA max_page_count = 1000000")


@pytest.mark.parametrize(
    "call",
    [
        lambda journal: journal.remember(STATES),
        lambda journal: journal.set_aside(1, "r" * 100_000),
        lambda journal: journal.commit([append(2, 100_000)], []),
    ],
    ids=["remember", "set_aside", "commit"],
)
def test_what_failed_leaves_nothing_open(tmp_path: Path, call: Callable[[Journal], object]) -> None:
    journal = Journal(tmp_path)
    [(first, _)] = journal.commit([append(1)], [])
    fill(journal)
    with pytest.raises(JournalError):
        call(journal)
    free(journal)
    journal.commit([append(3)], [])
    found = journal.read("orders", 0, 0, None, 1000, 1 << 20)
    assert [one.number for one in found] == [first, first + 1]
    journal.close()


def test_whoever_reads_slowly_does_not_let_the_wal_grow(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(100):
        journal.commit([append(number, 1000)], [])
    contents = Reader(tmp_path)
    events = contents.events()
    read = [next(events)]
    sizes = []
    for number in range(100, 1200):
        journal.commit([append(number, 10_000)], [])
        sizes.append((tmp_path / f"{FILE}-wal").stat().st_size)
    assert max(sizes) < 8_000_000  # a checkpoint comes every 1,000 pages of 4 kB
    read += events
    assert len(read) == 1200
    contents.close()
    journal.close()


def test_an_export_of_one_topic_leaves_out_the_others(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(60):
        journal.commit([append(number)._replace(topic=f"t{number % 3}")], [])
    contents = Reader(tmp_path)
    assert len(list(contents.events("t1"))) == 20
    assert {name for name, *_ in contents.events("t1")} == {"t1"}
    assert not list(contents.events("none"))
    contents.close()
    journal.close()


def test_the_file_shrinks_step_by_step_and_waits_for_no_reader(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    numbers = [journal.commit([append(number, 100_000)], [])[0][0] for number in range(200)]
    journal.commit([], numbers)
    reader = sqlite3.connect(tmp_path / FILE)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM lanes").fetchall()
    began_s = time.monotonic()
    steps = 1
    while journal.shrink():
        steps += 1
    assert time.monotonic() - began_s < 4.0  # a busy reader would be waited for 5 s
    assert steps > 1
    reader.close()
    journal.shrink()
    assert (tmp_path / FILE).stat().st_size < 100_000
    journal.close()
