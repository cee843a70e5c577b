"""The spool's journal beside the least that any log on disk costs.

python loadtest/micro/spool_journal.py [--folder DIR] [--seconds 3]

For chunks of 1, 10 and 500 events of 700 bytes, each in a commit of its own: `journal` is
`headgate.spool.journal` (SQLite, synced); `log` appends the same bytes with a length and a checksum
to a file and syncs that (fdatasync): no index, no reading back, nothing is ever deleted. Processor
time and time for each event, in turns.
"""

import argparse
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from headgate.model.publish import Record
from headgate.spool.database import Append, pack
from headgate.spool.journal import Journal

SIZES = (1, 10, 500)
ROUNDS = 3
_HEAD = struct.Struct(">II")


def chunk(events: int, first: int) -> Append:
    headers = [("hg-event-id", b"0" * 36), ("content-type", b"application/json")]
    records = [
        Record("orders", 0, b"%d" % number, b"x" * 648, headers, 1_700_000_000_000)
        for number in range(first, first + events)
    ]
    return Append("orders", 0, 12, 1_700_000_000_000, records)


def into_journal(folder: Path) -> tuple[Callable[[Append], None], Callable[[], None]]:
    """As the spool does it: what is done is forgotten with a later commit."""
    journal, done = Journal(folder), list[int]()

    def commit(append: Append) -> None:
        [(number, _)] = journal.commit([append], done)
        done[:] = [number]

    return commit, journal.close


def into_log(folder: Path) -> tuple[Callable[[Append], None], Callable[[], None]]:
    opened = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def commit(append: Append) -> None:
        packed = pack(append.records)
        os.write(opened, _HEAD.pack(len(packed), crc32(packed)) + packed)
        os.fdatasync(opened)

    return commit, lambda: os.close(opened)


def measured(commit: Callable[[Append], None], events: int, seconds: float) -> tuple[float, float]:
    """Processor time and time of an event, in microseconds."""
    chunks = [chunk(events, number * events) for number in range(20)]
    cpu, began, count = time.process_time(), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        commit(chunks[count % len(chunks)])
        count += 1
    total = count * events
    spent = time.process_time() - cpu, time.monotonic() - began
    return spent[0] / total * 1e6, spent[1] / total * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each (3)")
    options = parser.parse_args()
    print("| events a chunk | which | us of processor an event | us an event |")  # noqa: T201
    print("|---:|---|---:|---:|")  # noqa: T201
    for events in SIZES:
        found: dict[str, list[tuple[float, float]]] = {"journal": [], "log": []}
        for _ in range(ROUNDS):
            for name, opening in (("journal", into_journal), ("log", into_log)):
                with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                    commit, close = opening(Path(folder))
                    found[name].append(measured(commit, events, options.seconds / ROUNDS))
                    close()
        for name, runs in found.items():
            cpu, wall = (sorted(column)[ROUNDS // 2] for column in zip(*runs, strict=True))
            print(f"| {events} | {name} | {cpu:.1f} | {wall:.1f} |")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
