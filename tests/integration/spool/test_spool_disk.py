"""A small file system of its own under the journal: full, read-only, and gone for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.spool.journal import Journal
from headgate.spool.reading import Reader

_CODE = """
import os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from headgate.spool.database import JournalError
from headgate.spool.journal import Journal
from support.spool.damage import append
folder, out = Path(sys.argv[1]) / "spool", Path(sys.argv[2])
{body}
"""

_FILL = """
journal, told = Journal(folder), []
try:
    for number in range(10_000):
        told += journal.commit([append(number, 5000)], [])
except JournalError as error:
    print(len(told), error)
for _ in range(3):
    try:
        journal.commit([append(0, 200_000)], [])
        raise AssertionError("there is no room")
    except JournalError:
        pass
numbers = [number for number, _ in told]
read = journal.read("orders", 0, 0, None, 10**9, 10**12)
assert [one.number for one in read] == numbers, (len(read), len(numbers))
"""


def on_small_disk(tmp_path: Path, body: str) -> str:
    """Run it as root of a namespace of its own, where anybody may mount."""
    folder, out = tmp_path / "disk", tmp_path / "out"
    folder.mkdir()
    code = _CODE.format(paths=sys.path, body=body)
    found = subprocess.run(
        ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8m none "$1" && shift && exec "$@"',
         "sh", str(folder), sys.executable, "-c", code, str(folder), str(out)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if found.returncode and "unshare" in found.stderr:
        pytest.skip(f"no namespaces here: {found.stderr}")
    assert not found.returncode, found.stderr
    return found.stdout


def test_a_full_disk_keeps_what_it_took_and_takes_nothing_more(tmp_path: Path) -> None:
    told, _, why = on_small_disk(tmp_path, _FILL).partition(" ")
    assert 100 < int(told) < 1600
    assert "full" in why


def test_what_a_full_disk_has_can_be_done_and_gives_room_again(tmp_path: Path) -> None:
    body = """
journal.commit([], numbers)
while journal.shrink():
    pass
[(number, _)] = journal.commit([append(7, 50_000)], [])
assert [one.number for one in journal.read("orders", 0, 0, None, 10**9, 10**12)] == [number]
"""
    on_small_disk(tmp_path, _FILL + body)


def test_what_a_full_disk_has_can_be_dropped_after_a_start(tmp_path: Path) -> None:
    body = """
journal.close()
again = Journal(folder)
assert again.drop(None) == len(numbers)
again.commit([append(7, 50_000)], [])
again.close()
"""
    on_small_disk(tmp_path, _FILL + body)


def test_a_start_on_a_full_disk_has_all_of_it(tmp_path: Path) -> None:
    body = """
import shutil
shutil.copytree(folder, out)
journal.close()
again = Journal(folder)
read = again.read("orders", 0, 0, None, 10**9, 10**12)
assert [one.number for one in read] == numbers
again.close()
"""
    told = int(on_small_disk(tmp_path, _FILL + body).split()[0])
    left = Journal(tmp_path / "out")  # as a kill would have left it
    assert len(left.read("orders", 0, 0, None, 10**9, 10**12)) == told
    left.close()


def test_a_disk_that_becomes_read_only_takes_nothing_and_can_be_read(tmp_path: Path) -> None:
    body = """
import ctypes, errno
journal = Journal(folder)
[(number, _)] = journal.commit([append(1)], [])
libc = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT, MS_RDONLY = 32, 1
journal.close()
flags = MS_REMOUNT | MS_RDONLY
assert libc.mount(b"none", bytes(folder.parent), b"tmpfs", flags, None) == 0, ctypes.get_errno()
try:
    Journal(folder)
    raise AssertionError("it was opened")
except JournalError as error:
    print(error)
assert libc.mount(b"none", bytes(folder.parent), b"tmpfs", MS_REMOUNT, None) == 0
journal = Journal(folder)
assert len(journal.read("orders", 0, 0, None, 10**9, 10**12)) == 1
journal.commit([append(2)], [])
"""
    assert "ead-only" in on_small_disk(tmp_path, body)


def test_whoever_reads_a_read_only_folder_is_told_to_copy_it(tmp_path: Path) -> None:
    body = """
import ctypes, shutil
from headgate.spool.reading import Reader
journal = Journal(folder)
journal.commit([append(1)], [])
left = folder.parent / "left"  # as a kill would have left it
shutil.copytree(folder, left, ignore=shutil.ignore_patterns("room", "*-shm"))
journal.close()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"none", bytes(folder.parent), b"tmpfs", 33, None) == 0, ctypes.get_errno()
try:
    Reader(left).close()
    raise AssertionError("it was opened")
except JournalError as error:
    print(error)
shutil.copytree(left, out)
"""
    assert "copy the whole folder" in on_small_disk(tmp_path, body)
    contents = Reader(tmp_path / "out")
    assert len(list(contents.events())) == 1
    contents.close()
