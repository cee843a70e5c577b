"""Whether SQLite's write-ahead log has commits that SQLite will not see.

When it opens a file, SQLite reads the log as far as every frame is whole, and forgets what is
behind. That is right for a commit that a loss of power cut short: it is the last one, and nobody
was told of it, for each commit is synced before the next begins. If more of the same log follows
behind a whole commit, that commit was answered, and the log is damaged before it.
"""

import struct
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, number, 2 salts, 2 checksums
_FRAME: Final = struct.Struct(">6I")  # page, pages after a commit (else 0), 2 salts, 2 checksums
_MAGIC: Final = 0x377F0682  # its last bit: checksums are of big-endian words
_WORD: Final = 0xFFFFFFFF


def has_lost_commits(log: Path) -> bool:
    """See the module. Raises OSError."""
    size = log.stat().st_size if log.exists() else 0
    if size <= _HEADER.size:
        return False
    with log.open("rb") as file:
        head = file.read(_HEADER.size)
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(head)
        order = ">" if magic & 1 else "<"
        if magic & ~1 != _MAGIC or _checksum(order, head[:24], (0, 0)) != (first, second):
            return True
        checksum, is_whole, has_commit = (first, second), True, False
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            page = file.read(page_bytes)
            if len(page) < page_bytes:
                return False
            _, committed, *of_frame, first, second = _FRAME.unpack(frame)
            if is_whole:
                checksum = _checksum(order, frame[:8] + page, checksum)
                is_whole = of_frame == salts and checksum == (first, second)
            if not is_whole and of_frame == salts:
                if has_commit:
                    return True
                has_commit = committed != 0
    return False


def _checksum(order: str, content: bytes, before: tuple[int, int]) -> tuple[int, int]:
    words = len(content) // 4
    first, second = before
    found = struct.unpack(f"{order}{words}I", content[: words * 4])
    for even, odd in zip(found[::2], found[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
