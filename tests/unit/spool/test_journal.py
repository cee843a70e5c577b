"""The journal: what a commit leaves on disk, whatever happens to process or file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headgate.model.publish import Record
from headgate.spool.database import (
    FILE,
    Append,
    JournalDamagedError,
    JournalError,
    Raw,
    checksum_of,
    pack,
)
from headgate.spool.journal import Journal
from headgate.spool.reading import Reader
from support.spool.database import database_of

EVENTS = (500, 1_000_000)


def record(number: int, size: int = 20, partition: int = 0) -> Record:
    value = b"%d" % number + b"x" * size
    return Record("orders", partition, b"k", value, [("a", b"b"), ("a", b"c")], number)


def append(*records: Record, partition: int = 0) -> Append:
    return Append("orders", partition, 3, 1_700_000_000_000, records)


def raw(records: list[Record]) -> Raw:
    columns, packed = ("orders", 0, 3, len(records), 1_700_000_000_000), pack(records)
    return Raw(1, *columns, checksum_of(packed, *columns), packed)


def values(journal: Journal, partition: int = 0) -> list[bytes | None]:
    found = journal.read("orders", partition, 0, None, 10**9, 10**12)
    return [event[1] for chunk in found for event in chunk.packed or ()]


def test_a_chunk_comes_back_as_it_was() -> None:
    null = Record("orders", 0, None, None, [("ключ", None), ("a", b"")], 7)
    records = [record(1), null, record(3)]
    assert raw(records).unpacked() == [
        (one.key, one.value, one.headers, one.timestamp_ms) for one in records
    ]


def test_a_chunk_of_which_any_byte_changed_is_damaged() -> None:
    chunk = raw([record(1), record(2)])
    for at in range(len(chunk.packed)):
        changed = bytearray(chunk.packed)
        changed[at] ^= 1 << random.randrange(8)
        assert chunk._replace(packed=bytes(changed)).unpacked() is None


@pytest.mark.parametrize(
    "change", [{"topic": "other"}, {"partition": 1}, {"partitions": 2}, {"events": 1}, {"at_ms": 0}]
)
def test_a_chunk_of_which_anything_else_is_said_is_damaged(change: dict[str, Any]) -> None:
    assert raw([record(1), record(2)])._replace(**change).unpacked() is None


def test_what_was_committed_is_there_after_a_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    written = journal.commit([append(record(1), record(2)), append(record(3), partition=1)], [])
    assert len(written) == 2
    journal.close()
    again = Journal(tmp_path)
    assert values(again) == [record(1).value, record(2).value]
    assert values(again, 1) == [record(3).value]
    [one, other] = again.contents.lanes()
    assert (one.topic, one.partition, one.events, one.partitions) == ("orders", 0, 2, {3: (2, 1)})
    assert other.bytes == written[1][1]
    again.close()


def test_what_is_done_is_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    [(first, _), _] = journal.commit([append(record(1)), append(record(2))], [])
    journal.commit([], [first])
    assert values(journal) == [record(2).value]
    journal.close()


def test_a_lane_is_read_in_order_some_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(10):
        journal.commit([append(record(number), record(100 + number))], [])
    first = journal.read("orders", 0, 0, None, 5, 10**9)
    assert [chunk.events for chunk in first] == [2, 2]
    following = journal.read("orders", 0, first[-1].number, 6, 100, 10**9)
    assert [chunk.number for chunk in following] == [3, 4, 5]
    large = journal.read("orders", 0, 0, None, 100, 1)
    assert len(large) == 1  # at least one, whatever its size
    journal.close()


def test_chunks_that_were_placed_by_another_count_are_not_read_together(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.commit([append(record(1)), append(record(2))._replace(partitions=5)], [])
    assert [one.partitions for one in journal.read("orders", 0, 0, None, *EVENTS)] == [3]
    journal.close()


def test_another_process_cannot_use_the_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match="another process"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_people_may_read_beside_the_gateway(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.commit([append(record(1))], [])
    contents = Reader(tmp_path)
    assert [one[3] for one in contents.events()] == [
        (b"k", record(1).value, [("a", b"b"), ("a", b"c")], 1)
    ]
    journal.commit([append(record(2))], [])
    assert sum(one.events for one in contents.lanes()) == 2
    contents.close()
    journal.close()


def test_a_damaged_chunk_is_told_from_the_others_and_can_be_set_aside(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    [(first, _), _] = journal.commit([append(record(1)), append(record(2))], [])
    journal.close()
    with database_of(tmp_path) as database:
        changed = "CAST(x'00' || substr(events, 2) AS BLOB)"
        database.execute(f"UPDATE chunks SET events = {changed} WHERE number = 1")
    journal = Journal(tmp_path)
    assert [one.packed is None for one in journal.read("orders", 0, 0, None, *EVENTS)] == [
        True,
        False,
    ]
    journal.set_aside(first, "damaged")
    [aside] = journal.contents.aside()
    assert (aside.topic, aside.events, aside.reason) == ("orders", 1, "damaged")
    assert values(journal) == [record(2).value]
    journal.close()


def test_a_file_that_is_none_of_ours_is_said_to_be_damaged(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(random.randbytes(8192))
    with pytest.raises(JournalDamagedError):
        Journal(tmp_path)


def test_a_damaged_page_is_said_to_be_damage(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.commit([append(*(record(number, 5000) for number in range(20)))], [])
    journal.close()
    raw = bytearray((tmp_path / FILE).read_bytes())
    raw[4096:20480] = random.randbytes(16384)  # the tables' first pages
    (tmp_path / FILE).write_bytes(raw)
    with pytest.raises(JournalDamagedError), closing(Journal(tmp_path)) as damaged:
        damaged.contents.lanes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(JournalError, match=str(tmp_path)):
            Journal(tmp_path / "spool")
    finally:
        tmp_path.chmod(0o700)


_FULL = """
import resource, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from unit.spool.test_journal import append, record, values
from headgate.spool.database import JournalError
from headgate.spool.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal._files.keep_room()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
told = 0
try:
    while True:
        journal.commit([append(record(told, 5000))], [])
        told += 1
except JournalError as error:
    print(told, error.is_certain)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.commit([append(record(1000))], [])
assert len(values(journal)) == told + 1
journal.close()
"""


def test_a_full_disk_takes_nothing_more_and_loses_nothing(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _FULL.format(paths=sys.path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = int(found.stdout.split()[0])
    assert told > 3
    journal = Journal(tmp_path)
    assert len(values(journal)) == told + 1
    journal.close()


_KILLED = """
import random, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from unit.spool.test_journal import append, record
from headgate.spool.journal import Journal
journal = Journal(Path(sys.argv[1]))
number, alive = int(sys.argv[2]), []
while True:
    some = [record(number + place, 2000) for place in range(random.randrange(1, 50))]
    done = [alive.pop(0)] if len(alive) > 3 else []
    print("?", *(f"{{first}}+{{count}}" for _, first, count in done), flush=True)
    [(chunk, _)] = journal.commit([append(*some)], [one for one, *_ in done])
    alive.append((chunk, number, len(some)))
    number += len(some)
    print(number, *(f"{{first}}+{{count}}" for _, first, count in done), flush=True)
"""


def test_a_kill_at_any_moment_leaves_all_that_was_told_and_nothing_twice(tmp_path: Path) -> None:
    number, done = 0, set[int]()
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", _KILLED.format(paths=sys.path), str(tmp_path), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.split())
            if len(lines) >= random.randrange(5, 60):
                break
        process.send_signal(signal.SIGKILL)
        lines += [line.split() for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdout.close()
        perhaps = set[int]()  # it was killed before it could say so
        for word, *ended in lines:
            for each in ended:
                first, count = map(int, each.split("+"))
                (perhaps if word == "?" else done).update(range(first, first + count))
        told = max(int(word) for word, *_ in lines if word != "?")
        journal = Journal(tmp_path)
        found = [int((value or b"").rstrip(b"x")) for value in values(journal)]
        journal.close()
        assert len(found) == len(set(found))
        assert set(range(told)) - done - perhaps <= set(found)
        done |= perhaps - set(found)
        assert not done & set(found)
        number = max(found) + 1
