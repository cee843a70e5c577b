"""Starts with one changed bit anywhere in a spool's files.

A start may open the file, salvage it, or set it aside. It never fails, never publishes anything
that was not waiting, never changes the order, and says at CRITICAL what is missing.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.model.publish import Record
from headgate.spool.carve import _checksum, _one_bit
from headgate.spool.database import FILE, Append
from headgate.spool.disk import Disk, SpoolOptions
from headgate.spool.journal import Journal
from support.gateway.fakes import topic_state
from support.scale import scaled
from support.spool.damage import LOG, overwrite

AT_MS = 1_700_000_000_000
LANES = (("orders", 0), ("orders", 1), ("deals", 0), ("clicks", 2))
OPTIONS = (1 << 30, 10**12, 1000)
Values = dict[tuple[str, int], list[bytes | None]]


class Damaged(NamedTuple):
    """folder: what a kill leaves behind.  file: that is to be damaged.

    waiting: what has to be published, by lane, in order.

    aside: events that were set aside before.
    """

    folder: Path
    file: str
    waiting: Values
    aside: int


def append(number: int, size: int = 30) -> Append:
    topic, partition = LANES[number % len(LANES)]
    value = b"%d:" % number + b"x" * size
    record = Record(topic, partition, b"k%d" % (number % 7), value, [("a", b"b")], number)
    return Append(topic, partition, 3, AT_MS + number, [record])


def made(folder: Path, *, is_in_log: bool, forgets_last: bool = False) -> Damaged:
    """Leave 24 chunks that wait, two that are aside, and eight that were published and forgotten.

    One of the chunks has many pages.

    Args:
        folder: Folder for the journal.
        is_in_log: The log is damaged, and not the database.
        forgets_last: The last commit of the log forgets chunks, and writes none.
    """
    journal = Journal(folder / "open")
    gone = [append(number) for number in range(8)]
    kept = [append(number, 6000 if number == 20 else 30) for number in range(8, 32)]
    numbers = [number for number, _ in journal.commit(gone, [])]
    journal.remember([topic_state(name, 3) for name in ("orders", "deals", "clicks")])
    if not is_in_log:
        journal.commit(kept, numbers)
        journal.commit([], [], [(append(100), "too large"), (append(101), "forbidden")])
        [(large, _)] = journal.commit([append(102, 9000)], [])
        journal.commit([], [large])  # its pages are free, and still have what it had
        journal._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    else:
        journal._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        journal.commit(kept[:8], numbers[:4])
        journal.commit(kept[8:16], [] if forgets_last else numbers[4:])
        journal.commit([], [], [(append(100), "too large"), (append(101), "forbidden")])
        journal.commit(kept[16:], [])
        if forgets_last:
            journal.commit([], numbers[4:])
    shutil.copytree(folder / "open", folder / "killed", ignore=shutil.ignore_patterns("room"))
    journal.close()
    waiting: Values = {lane: [] for lane in LANES}
    for chunk in kept:
        waiting[chunk.topic, chunk.partition] += [one.value for one in chunk.records]
    return Damaged(folder / "killed", LOG if is_in_log else FILE, waiting, 2)


async def started(folder: Path) -> tuple[Values, int, Disk]:
    """What a start publishes, by lane, and how many events are aside."""
    disk = Disk(SpoolOptions(folder, *OPTIONS), lambda: AT_MS)
    published: Values = {lane: [] for lane in LANES}
    try:
        found = await disk.open()
        for lane in found:
            after, left = 0, lane.events
            while left > 0:
                chunks = await disk.read(lane.topic, lane.partition, after, None, (500, 1 << 20))
                assert chunks, "the start counted events that cannot be read"
                for chunk in chunks:
                    after, left = chunk.number, left - chunk.events
                    if chunk.packed is None:
                        await disk.set_aside(chunk.number, "damaged")
                    for event in chunk.packed or ():
                        published.setdefault((lane.topic, lane.partition), []).append(event[1])
        await disk.check()
        assert disk._journal is not None
        aside = sum(one.events for one in disk._journal.contents.aside())
    finally:
        await disk.close()
    return published, aside, disk


def judged(case: Damaged, published: Values, aside: int, disk: Disk, lines: list[str]) -> str:
    """Check what a start made of it. Returns what that was, for the statistics."""
    for lane, values in published.items():
        wanted = iter(case.waiting.get(lane, []))
        assert all(value in wanted for value in values), f"{lane}: {values}"
    all_waiting = sum(map(len, case.waiting.values()))
    missing = all_waiting - sum(map(len, published.values()))
    if not lines:
        assert aside - case.aside == missing
        return "opened" if not missing else "opened, and chunks set aside"
    if disk.salvaged is None:
        assert disk.lasting is not None
        assert missing == 0
        return "opened, and found damaged in the background"
    lost = sum(events for _, events in disk.salvaged.aside)
    assert disk.salvaged.events == all_waiting - missing
    assert disk.kept
    assert f"{disk.salvaged.events} of its events" in lines[0]
    if disk.salvaged.is_complete:
        assert lost >= missing
        assert aside >= missing
    return "salvaged, all of it" if not missing else "salvaged, and said what is lost"


KINDS: dict[str, dict[str, bool]] = {
    "database": {"is_in_log": False},
    "log": {"is_in_log": True},
    "forgetting-log": {"is_in_log": True, "forgets_last": True},
}


async def tried(case: Damaged, caplog: pytest.LogCaptureFixture, at: int, bit: int) -> str:
    """Change one bit, start, and judge the start. Returns its kind, for the statistics."""
    folder = case.folder.parent / "case"
    shutil.copytree(case.folder, folder)
    raw = (folder / case.file).read_bytes()
    overwrite(folder / case.file, at, bytes([raw[at] ^ 1 << bit]))
    caplog.clear()
    try:
        published, aside, disk = await started(folder)
        lines = [line.getMessage() for line in caplog.records if line.levelno == logging.CRITICAL]
        return judged(case, published, aside, disk, lines)
    except Exception as error:
        raise AssertionError(f"{case.file}, byte {at}, bit {bit}: {error!r}") from error
    finally:
        shutil.rmtree(folder)


def places(raw: bytes, seed: int, share: int) -> Iterator[tuple[int, int]]:
    """Yield bytes and bits: all eight bits of the bytes in use, and one of each 16 other bytes.

    Args:
        raw: Content of the file. A run of 16 equal bytes is free space, or the end of an event.
        seed: Seed of the choice.
        share: One of so many places is chosen.
    """
    chosen = random.Random(seed)
    runs = {at for run in re.finditer(rb"(?s)(.)\1{15,}", raw) for at in range(*run.span())}
    for at in range(len(raw)):
        for bit in range(8):
            if chosen.randrange(share * (8 * 16 if at in runs else 1)) == 0:
                yield at, bit


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", scaled(800, 1))
async def test_a_start_makes_the_best_of_any_bit_that_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, share: int
) -> None:
    case = made(tmp_path, **KINDS[kind])
    ended, seed = Counter[str](), int.from_bytes(os.urandom(4))
    for at, bit in places((case.folder / case.file).read_bytes(), seed, share):
        ended[await tried(case, caplog, at, bit)] += 1
    sys.stdout.write(f"seed {seed}: {dict(ended)}\n")
    assert sum(ended.values()) > 10


def confusable(raw: bytes, bits: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield bytes and bits of a log's contents whose change a change of a page number undoes.

    Args:
        raw: Content of the log.
        bits: Bits of the last byte of a page number.
    """
    order = ">" if raw[3] & 1 else "<"
    for at in range(32, len(raw), 24 + 4096):
        covered = raw[at : at + 8] + raw[at + 24 : at + 24 + 4096]
        own = _checksum(order, covered, (0, 0))
        for bit in bits:
            other = bytearray(covered)
            other[3] ^= 1 << bit
            for undone in _one_bit(
                order, bytes(other), _checksum(order, bytes(other), (0, 0)), own
            ):
                if undone >= 64:
                    yield at + 16 + undone // 8, 7 - undone % 8


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["log", "forgetting-log"])
@pytest.mark.parametrize("bits", scaled([0], range(8)))
async def test_a_change_of_content_is_not_taken_for_another_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, bits: Sequence[int]
) -> None:
    """SQLite's checksums cannot distinguish these changes from a change of the page number."""
    case = made(tmp_path, **KINDS[kind])
    raw = (case.folder / case.file).read_bytes()
    ended = Counter[str]()
    for at, bit in confusable(raw, bits):
        ended[await tried(case, caplog, at, bit)] += 1
    sys.stdout.write(f"{dict(ended)}\n")
    assert sum(ended.values()) >= 10


@pytest.mark.parametrize("bit", range(8))
async def test_a_number_that_has_changed_in_the_last_commit_changes_no_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bit: int
) -> None:
    case = made(tmp_path, is_in_log=True)
    log = case.folder / case.file
    raw = log.read_bytes()
    # The last commit begins with its page of chunks; chunk 25 is the first new one there.
    at = raw.rindex(b"24:xxx")
    at = raw.rindex(b"\x19\x08\x00", at - 60, at)  # its number, and the header of its row
    overwrite(log, at, bytes([raw[at] ^ 1 << bit]))
    published, aside, disk = await started(case.folder)
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL]
    judged(case, published, aside, disk, lines)
    assert bit == 7 or published == case.waiting  # with bit 7 the row cannot be read


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["log", "forgetting-log"])
@pytest.mark.parametrize("frames", scaled(1, 100))
async def test_a_changed_header_of_a_frame_loses_and_repeats_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, frames: int
) -> None:
    """An older copy of a page must not be taken for another page: its events were published."""
    case = made(tmp_path, **KINDS[kind])
    raw = (case.folder / case.file).read_bytes()
    headers = range(32, len(raw), 24 + 4096)
    for at, bit in itertools.product(headers[:frames], range(64)):
        ended = await tried(case, caplog, at + bit // 8, bit % 8)
        assert ended == "salvaged, all of it", (at, bit)


@pytest.mark.parametrize("is_in_last", [False, True], ids=["earlier", "last"])
async def test_equal_chunks_of_one_millisecond_are_all_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_in_last: bool
) -> None:
    equal = append(8)
    journal = Journal(tmp_path / "open")
    journal.remember([topic_state("orders", 3)])
    journal.commit([append(0), equal, append(4)], [])
    journal.commit([equal], [])
    journal.commit([append(12)], [])
    shutil.copytree(tmp_path / "open", tmp_path / "killed")
    journal.close()
    values = [append(number).records[0].value for number in (0, 8, 4, 8, 12)]
    case = Damaged(tmp_path / "killed", LOG, {("orders", 0): values}, 0)
    size = (case.folder / LOG).stat().st_size
    at = size - 4096 - 24 if is_in_last else 32
    assert await tried(case, caplog, at, 0) == "salvaged, all of it"
