"""Every byte of a spool's files with one bit changed: what a start makes of it.

A start may open the file, salvage it, or set it aside. It never fails, never publishes anything
that was not waiting, never changes the order, and says at CRITICAL what is missing.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.model.record import Record
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


def made(folder: Path, *, is_in_log: bool) -> Damaged:
    """24 chunks wait; as many were published and forgotten; two are aside, one is of many pages."""
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
        journal.commit(kept[8:16], numbers[4:])
        journal.commit([], [], [(append(100), "too large"), (append(101), "forbidden")])
        journal.commit(kept[16:], [])
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


def places(size: int, share: int, seed: int) -> Iterator[tuple[int, int]]:
    """Byte and bit: of every byte, or of one in so many."""
    chosen = random.Random(seed)
    for at in range(size):
        if chosen.randrange(share) == 0:
            yield at, chosen.randrange(8)


@pytest.mark.timeout(3600)  # every byte
@pytest.mark.parametrize("is_in_log", [False, True], ids=["database", "log"])
@pytest.mark.parametrize("share", scaled(800, 1))
async def test_a_start_makes_the_best_of_any_bit_that_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_in_log: bool, share: int
) -> None:
    case = made(tmp_path, is_in_log=is_in_log)
    ended, seed = Counter[str](), int.from_bytes(os.urandom(4))
    raw = (case.folder / case.file).read_bytes()
    for at, bit in places(len(raw), share, seed):
        folder = tmp_path / f"case-{at}"
        shutil.copytree(case.folder, folder)
        overwrite(folder / case.file, at, bytes([raw[at] ^ 1 << bit]))
        caplog.clear()
        try:
            published, aside, disk = await started(folder)
            lines = [one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL]
            ended[judged(case, published, aside, disk, lines)] += 1
        except Exception as error:
            raise AssertionError(
                f"seed {seed}: {case.file}, byte {at}, bit {bit}: {error!r}"
            ) from error
        shutil.rmtree(folder)
    sys.stdout.write(f"seed {seed}: {dict(ended)}\n")
    assert sum(ended.values()) > 10


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
@pytest.mark.parametrize("frames", scaled(1, 100))
async def test_a_changed_header_of_a_frame_loses_and_repeats_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, frames: int
) -> None:
    """An older copy of a page must not be taken for another page: its events were published."""
    case = made(tmp_path, is_in_log=True)
    raw = (case.folder / case.file).read_bytes()
    headers = range(32, len(raw), 24 + 4096)
    for at, bit in itertools.product(headers[:frames], range(64)):
        folder = tmp_path / f"case-{at}-{bit}"
        shutil.copytree(case.folder, folder)
        overwrite(folder / case.file, at + bit // 8, bytes([raw[at + bit // 8] ^ 1 << bit % 8]))
        caplog.clear()
        published, aside, disk = await started(folder)
        lines = [one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL]
        assert judged(case, published, aside, disk, lines) == "salvaged, all of it", (at, bit)
        assert published == case.waiting, (at, bit)
        shutil.rmtree(folder)
