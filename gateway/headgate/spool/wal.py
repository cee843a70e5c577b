"""SQLite's write-ahead log, read without SQLite: the pages it has, and commits that SQLite ignores.

When it opens a file, SQLite reads the log as far as every frame is whole, and forgets what is
behind. That is right for a commit that a loss of power cut short: it is the last one, and no client
has an answer to it, for each commit is synced before the next begins. If more of the same log
follows behind a whole commit, that commit was answered, and the log is damaged before it. Whether a
last commit is cut short or damaged cannot be seen here: `carve.look_at_log` looks into it.

One changed bit in the header of a frame is found by the frame's checksum, and mended. Without that
an older copy of a page could count as another page, and its chunks as chunks that still wait.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, number, 2 salts, 2 checksums
_FRAME: Final = struct.Struct(">6I")  # page, pages after a commit (else 0), 2 salts, 2 checksums
_MAGIC: Final = 0x377F0682  # its last bit: checksums are of big-endian words
_WORD: Final = 0xFFFFFFFF
PAGE_BYTES: Final = 4096  # SQLite's default; where a header says something impossible


class Log(NamedTuple):
    """pages: the place of the newest content of each page, in commits that SQLite takes.

    behind: the same of what follows in the same log, which SQLite ignores.  behind_at: the places
    of all of that, for the number of a page may be damaged, too.
    size: pages of the database after the last commit that SQLite takes; 0 = there is none.
    is_damaged: at least one whole commit lies behind damage, or a frame was mended.
    """

    pages: dict[int, int]
    behind: dict[int, int]
    behind_at: list[int]
    size: int
    is_damaged: bool


def has_lost_commits(log: Path) -> bool:
    """Whether whole commits lie behind damage. Raises OSError."""
    return read_log(log).is_damaged


def read_log(log: Path) -> Log:
    """Read all frames of a log. Raises OSError."""
    found = Log({}, {}, [], 0, False)
    size = log.stat().st_size if log.exists() else 0
    if size <= _HEADER.size:
        return found
    with log.open("rb") as file:
        head = file.read(_HEADER.size)
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(head)
        order = ">" if magic & 1 else "<"
        is_whole = magic & ~1 == _MAGIC and _checksum(order, head[:24], (0, 0)) == (first, second)
        is_damaged, has_commit, checksum = not is_whole, False, (first, second)
        if not is_whole:  # the first frame is always one of this log
            page_bytes = PAGE_BYTES
            salts = list(_FRAME.unpack(file.read(_FRAME.size).ljust(_FRAME.size, b"\0"))[2:4])
            file.seek(_HEADER.size)
        pages, behind, open_pages, pages_after = found.pages, found.behind, dict[int, int](), 0
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            at = file.tell()
            content = file.read(page_bytes)
            if len(content) < page_bytes:
                break
            page, committed, *of_frame, first, second = _FRAME.unpack(frame)
            if is_whole:
                before, checksum = checksum, (first, second)
                is_whole = of_frame == salts
                if is_whole and _checksum(order, frame[:8] + content, before) != checksum:
                    mended = _mended(order, frame[:8], content, before, checksum)
                    is_whole = mended is not None
                    is_damaged |= is_whole
                    page, committed = mended or (page, committed)
            if is_whole:
                open_pages[page] = at
                if committed:
                    pages.update(open_pages)
                    open_pages, pages_after = {}, committed
            elif salts[0] == of_frame[0] or salts[1] == of_frame[1]:  # one may be damaged
                behind.update({**open_pages, page: at})
                found.behind_at.extend([*open_pages.values(), at])
                open_pages = {}
                is_damaged |= has_commit
                has_commit |= committed != 0
    return found._replace(size=pages_after, is_damaged=is_damaged)


def _mended(
    order: str, head: bytes, content: bytes, before: tuple[int, int], wanted: tuple[int, int]
) -> tuple[int, int] | None:
    """Page and commit of a frame's header with the one bit changed that makes its checksum right;
    None if there is no such bit."""
    bits = int.from_bytes(head, "big")
    for bit in range(64):
        changed = (bits ^ 1 << bit).to_bytes(8, "big")
        if _checksum(order, changed + content, before) == wanted:
            return struct.unpack(">2I", changed)
    return None


def _checksum(order: str, content: bytes, before: tuple[int, int]) -> tuple[int, int]:
    words = len(content) // 4
    first, second = before
    found = struct.unpack(f"{order}{words}I", content[: words * 4])
    for even, odd in zip(found[::2], found[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
