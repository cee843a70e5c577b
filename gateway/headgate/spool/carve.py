"""A reader of damaged spools: it reads the rows page by page, without SQLite and its indexes.

SQLite gives up at the first damage: a letter of the schema, an interior page, a cell. The rows are
in leaf pages all the same, and each chunk has its own checksum. So the reader tries every table
page that is not free, cell by cell. The columns of a row identify its table
(https://sqlite.org/fileformat2.html).

If the lane of a chunk is damaged, the reader tries all other lanes: the checksum matches only the
right one. The checksum does not cover the number, which orders the chunks. So a number needs a
second proof (`_numbers`). A chunk in the index without a page is lost, and is counted.
"""

import bisect
import itertools
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headgate.model.topics import TopicState
from headgate.spool.database import FILE, JournalDamagedError, Raw, checksum_of, unpack_topic

# ---- SQLite's write-ahead log, read without SQLite: its pages, and commits that SQLite ignores
#
# When SQLite opens a file, it reads the log up to the first damaged frame and drops the rest. That
# is right for a commit that a power loss cut short: it is the last one, and no client has a
# response, because each commit is synced before the next begins. If a whole commit of the same log
# follows later, clients have responses for it, and the log is damaged before it.
#
# A frame's checksum also distinguishes a frame that was never written completely from one with a
# changed bit: it is a linear code, so `_one_bit` finds the bit. Such a frame counts as written, and
# its commit is not dropped. The page number of a frame is mended. Otherwise an older copy of a page
# could count as another page, and its chunks as waiting chunks. Content is not mended: each chunk
# has its own checksum.
#
# The checksum is weak for the upper bits of its words: the sums are Fibonacci numbers times the
# changed bit, modulo 2**32, so that bit 31 has the same effect in every third word, and bit 23 in
# every 768th. A wrong checksum can then mean a changed page number or a changed content. `carve`
# reads such a log both ways.


_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, number, 2 salts, 2 checksums
_FRAME: Final = struct.Struct(">6I")  # page, pages after a commit (else 0), 2 salts, 2 checksums
_MAGIC: Final = 0x377F0682  # last bit: checksums use big-endian words
_WORD: Final = 0xFFFFFFFF
PAGE_BYTES: Final = 4096  # SQLite's default, used if the header is impossible

Sums = tuple[int, int]


class Log(NamedTuple):
    """The contents of a write-ahead log.

    Attributes:
        pages: Offset of the newest content of each page, in whole commits.
        behind: The same for later frames of the same log, behind damage of more than one bit.
        behind_at: Offsets of all these frames: the number of a page may be damaged, too.
        size: Pages of the database after the last whole commit; 0 if there is none.
        is_damaged: SQLite would ignore at least one whole commit.
        has_hole: At least one whole commit follows damage of more than one bit.
        is_doubtful: One changed bit is in the page number of a frame, or in its content.
    """

    pages: dict[int, int]
    behind: dict[int, int]
    behind_at: list[int]
    size: int
    is_damaged: bool
    has_hole: bool
    is_doubtful: bool


class _Frame(NamedTuple):
    """A frame's header, mended if one bit explains its checksum.

    Attributes:
        numbers: Possible page numbers.
        committed: Pages of the database after this frame's commit; 0 if it ends none.
        sums: Possible checksums, for the next frame.
        is_exact: Whether nothing was mended.
    """

    numbers: list[int]
    committed: int
    sums: list[Sums]
    is_exact: bool


def read_log(log: Path, *, mends_numbers: bool = False) -> Log:
    """Read all frames of a log.

    Args:
        log: Path of the log.
        mends_numbers: Mend a page number even if a change of the content explains the checksum.

    Raises:
        OSError: The log cannot be read.
    """
    pages, behind, behind_at, pages_after = dict[int, int](), dict[int, int](), list[int](), 0
    is_damaged = has_hole = is_doubtful = has_commit = False
    size = log.stat().st_size if log.exists() else 0
    if size <= _HEADER.size:
        return Log(pages, behind, behind_at, 0, False, False, False)
    with log.open("rb") as file:
        order, page_bytes, salts, sums, is_exact = _start(file.read(_HEADER.size + _FRAME.size))
        file.seek(_HEADER.size)
        is_whole, is_mended, open_pages = True, not is_exact, dict[int, int]()
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            at = file.tell()
            content = file.read(page_bytes)
            if len(content) < page_bytes:
                break
            page, committed, *of_frame, _, _ = _FRAME.unpack(head)
            differing = sum((a ^ b).bit_count() for a, b in zip(salts, of_frame, strict=True))
            frame = _frame(order, head, content, sums) if is_whole and differing <= 1 else None
            if frame is not None:
                page = frame.numbers[-1 if mends_numbers else 0]
                committed, sums = frame.committed, frame.sums
                is_mended |= not frame.is_exact or differing == 1
                is_doubtful |= len(frame.numbers) > 1
                open_pages[page] = at
                if committed:
                    pages.update(open_pages)
                    open_pages, pages_after = {}, committed
                    is_damaged |= is_mended
                continue
            is_whole = False
            if salts[0] == of_frame[0] or salts[1] == of_frame[1]:  # one salt may be damaged
                behind.update({**open_pages, page: at})
                behind_at.extend([*open_pages.values(), at])
                open_pages = {}
                has_hole |= has_commit
                has_commit |= committed != 0
    is_damaged |= has_hole
    return Log(pages, behind, behind_at, pages_after, is_damaged, has_hole, is_doubtful)


def _start(head: bytes) -> tuple[str, int, list[int], list[Sums], bool]:
    """Read the header of a log.

    Args:
        head: Header of the log, and of its first frame, which always belongs to this log.

    Returns:
        Byte order of the checksums, as for `struct`; bytes of a page; salts; possible checksums of
        the header; and whether the header is undamaged.
    """
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(head)
    order = ">" if magic & 1 else "<"
    computed = _checksum(order, head[:24], (0, 0))
    if magic & ~1 == _MAGIC and computed == (first, second):
        return order, page_bytes, salts, [computed], True
    order = ">" if sys.byteorder == "big" else "<"  # the log is this machine's
    computed = _checksum(order, head[:24], (0, 0))
    *_, salt, other_salt, _, _ = _FRAME.unpack(head[_HEADER.size :].ljust(_FRAME.size, b"\0"))
    return order, PAGE_BYTES, [salt, other_salt], [(first, second), computed], False


def _frame(order: str, head: bytes, content: bytes, before: list[Sums]) -> _Frame | None:
    """Check a frame, and mend its header if one changed bit explains its checksum.

    Args:
        order: Byte order of the checksums, as for `struct`.
        head: Header of the frame.
        content: Content of the page.
        before: Possible checksums of the frame before.

    Returns:
        The frame; None if no single bit explains its checksum.
    """
    page, committed, _, _, *sums = _FRAME.unpack(head)
    wanted, covered = (sums[0], sums[1]), head[:8] + content
    computed = [_checksum(order, covered, each) for each in before]
    if wanted in computed:
        return _Frame([page], committed, [wanted], True)
    for each in computed:
        bits = _one_bit(order, covered, each, wanted)
        in_sums = sum((a ^ b).bit_count() for a, b in zip(each, wanted, strict=True)) == 1
        if not (bits or in_sums):
            continue
        numbers, is_certain = [page], True
        for bit in bits:
            if bit >= 64:
                continue
            mended = (int.from_bytes(head[:8], "big") ^ 1 << 63 - bit).to_bytes(8, "big")
            number, other = struct.unpack(">2I", mended)
            is_certain = len(bits) == 1 and not in_sums
            if bit < 32:
                numbers = [number] if is_certain else [page, number]
            else:  # each whole log ends with a commit; a larger size is in the database's header
                committed = other if is_certain else min(filter(None, (committed, other)))
        return _Frame(numbers, committed, [wanted, each] if in_sums else [wanted], False)
    return None


def _one_bit(order: str, covered: bytes, computed: Sums, wanted: Sums) -> list[int]:
    """Return the bits each of which alone would make a checksum right, counted from the left.

    Args:
        order: Byte order of the words, as for `struct`.
        covered: Content that the checksum covers.
        computed: Checksum of the content.
        wanted: Checksum of the content before the change.
    """
    first, second = ((a - b) & _WORD for a, b in zip(wanted, computed, strict=True))
    words = struct.unpack(f"{order}{len(covered) // 4}I", covered)
    x, y, bits = 0, 1, list[int]()  # effect of the word on the checksum; one of them is odd
    for at in range(len(words) - 1, -1, -1):
        odd, of_odd = (x, first) if x & 1 else (y, second)
        change = of_odd * pow(odd, -1, _WORD + 1) & _WORD
        if change * x & _WORD == first and change * y & _WORD == second:
            for size, is_set in ((change, 0), (-change & _WORD, 1)):
                bit = size.bit_length() - 1
                if size.bit_count() == 1 and words[at] >> bit & 1 == is_set:
                    bits.append(
                        at * 32 + (31 - bit if order == ">" else bit // 8 * 8 + 7 - bit % 8)
                    )
        x, y = y, x + y & _WORD
    return bits


def _checksum(order: str, content: bytes, before: Sums) -> Sums:
    words = len(content) // 4
    first, second = before
    values = struct.unpack(f"{order}{words}I", content[: words * 4])
    for even, odd in zip(values[::2], values[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


# ---- pages of the database, and their cells

_TABLE, _TABLE_ABOVE, _INDEX, _INDEX_ABOVE = 13, 5, 10, 2  # kinds of b-tree pages
_ROOT, _FREE, _BELOW = 1, 2, 5  # types in the pointer map, of b-tree pages and free pages
_OVERFLOW: Final = (3, 4)
_MAX_LANES: Final = 2000  # tried for a damaged chunk
_INTEGERS: Final = (0, 1, 2, 3, 4, 6, 8)  # bytes of an integer, by its type
_LARGEST: Final = 1 << 40  # a larger chunk number is damaged
_UNPLACED: Final = "damaged: its place among others is not known"

Value = int | float | str | bytes | None
Lane = tuple[str, int]
_Content = tuple[int, int, int]  # checksum, time, bytes: no two chunks have the same


class _UnreadableError(ValueError):
    """Content that is no cell."""


class _Cell(NamedTuple):
    """A cell of a b-tree page.

    Attributes:
        number: The rowid; 0 in an index.
    """

    number: int
    values: list[Value]


class _Claim(NamedTuple):
    """A cell's number and lane of its chunk.

    Attributes:
        lane: None if the checksum matches no lane.
    """

    number: int
    lane: Lane | None
    content: _Content


class _Pages:
    """The pages of a database, each in its newest version from file or log.

    Args:
        folder: Folder of the database.
        log: Contents of the log.
        with_behind: Use the frames that SQLite ignores, too.
    """

    def __init__(self, folder: Path, log: Log, *, with_behind: bool) -> None:
        self._overlay = log.pages | log.behind if with_behind else log.pages
        self._database = _opened(folder / FILE)
        self._log = _opened(folder / f"{FILE}-wal")
        size = 0 if self._database is None else os.fstat(self._database).st_size
        self.bytes = PAGE_BYTES
        head = self.content(1)
        page_bytes = int.from_bytes(head[16:18], "big")
        if 512 <= page_bytes <= 32768 and page_bytes & (page_bytes - 1) == 0:
            self.bytes = page_bytes
        in_file = -(-size // self.bytes)
        # Each page that the log adds is one of its frames; a larger number is damaged.
        self.count = min(max([in_file, *self._overlay]), in_file + len(self._overlay))
        if log.size and not with_behind:  # the rest is from before the file shrank
            self.count = min(self.count, max(log.size, int.from_bytes(head[28:32], "big")))
        self._freed = self._free_list(int.from_bytes(head[32:36], "big"))
        self._map = (0, b"")  # the pointer map page that was read last

    def close(self) -> None:
        for file in (self._database, self._log):
            if file is not None:
                os.close(file)

    def content(self, page: int) -> bytes:
        """Return a page, padded with zeros if the file ends before."""
        at, file = self._overlay.get(page), self._log
        if at is None:
            at, file = (page - 1) * self.bytes, self._database
        page_content = b"" if file is None or page < 1 else os.pread(file, self.bytes, at)
        return page_content.ljust(self.bytes, b"\0")

    def in_use(self) -> Iterator[int]:
        """Return the numbers of the b-tree pages."""
        return (page for page in range(3, self.count + 1) if self._is_in_use(page))

    def _is_in_use(self, page: int) -> bool:
        step = self.bytes // 5 + 1
        map_page = (page - 2) // step * step + 2
        if map_page == page:
            return False
        if self._map[0] != map_page:
            self._map = (map_page, self.content(map_page))
        kind = self._map[1][5 * (page - map_page - 1)]
        if kind in (_ROOT, _BELOW):
            return True
        return kind not in (_FREE, *_OVERFLOW) and page not in self._freed

    def _free_list(self, trunk: int) -> set[int]:
        freed = set[int]()
        while 1 < trunk <= self.count and trunk not in freed:
            freed.add(trunk)
            words = struct.unpack(f">{self.bytes // 4}I", self.content(trunk))
            trunk = words[0]
            freed.update(words[2 : 2 + words[1]])
        return freed

    def cells(self, page: int, kind: int) -> Iterator[_Cell | None]:
        """Yield the cells of a page, read as a page of this kind; None for an unreadable cell."""
        return self._cells(self.content(page), kind)

    def cells_at(self, offset: int, kind: int) -> tuple[int, Iterator[_Cell | None]]:
        """Return the kind of a page in the log, and its cells, read as a page of another kind.

        Args:
            offset: Offset of the page in the log.
            kind: Kind of page that the cells are read as.
        """
        content = b"" if self._log is None else os.pread(self._log, self.bytes, offset)
        content = content.ljust(self.bytes, b"\0")
        return content[0], self._cells(content, kind)

    def _cells(self, content: bytes, kind: int) -> Iterator[_Cell | None]:
        head = 12 if kind in (_TABLE_ABOVE, _INDEX_ABOVE) else 8
        count = min(int.from_bytes(content[3:5], "big"), (self.bytes - head) // 2)
        for at in struct.unpack_from(f">{count}H", content, head):
            try:
                yield self._cell(content, at + (head == 12) * 4, is_index=kind != _TABLE)
            except (_UnreadableError, IndexError, struct.error):
                yield None

    def _cell(self, content: bytes, at: int, *, is_index: bool) -> _Cell:
        size, at = _varint(content, at)
        number, at = (0, at) if is_index else _varint(content, at)
        if size > self.count * self.bytes:
            raise _UnreadableError
        # The part of a payload in the cell itself: U, X, M and K of SQLite's file format.
        max_local = (self.bytes - 12) * 64 // 255 - 23 if is_index else self.bytes - 35
        here = size
        if size > max_local:
            min_local = (self.bytes - 12) * 32 // 255 - 23
            here = min_local + (size - min_local) % (self.bytes - 4)
            here = here if here <= max_local else min_local
        parts, following = [content[at : at + here]], 0
        if here < size:
            following = int.from_bytes(content[at + here : at + here + 4], "big")
        size -= here
        while size > 0:
            if not 1 < following <= self.count:
                raise _UnreadableError
            content = self.content(following)
            following = int.from_bytes(content[:4], "big")
            parts.append(content[4 : 4 + size])
            size -= self.bytes - 4
        return _Cell(number, _values(b"".join(parts)))


# ---- the chunks in these pages


class Wreck:
    """The readable contents of a damaged journal. Raises OSError.

    Attributes:
        is_ours: Some contents are readable.
        missing: Numbers of lost chunks: the index has them, but no page.
        lost: Topic and partition of each lost chunk.
        is_complete: Nothing else is missing.
        unplaced: Chunks that are undamaged, but whose place in the order is unknown.
        contradictions: Signs of damage: rows of tables and entries of indexes that differ, rows
            that exist twice, and unreadable cells.
    """

    def __init__(self, folder: Path, log: Log) -> None:
        self._pages = _Pages(folder, log, with_behind=log.has_hole)
        self._other: Wreck | None = None
        self._unreadable = 0  # pages and cells of tables
        self._lanes: dict[int, Lane] = {}
        self._by_index: dict[int, Lane] = {}
        self.contradictions = set[tuple[str, int, int]]()
        self._rows_seen = set[tuple[int, int]]()
        self._places: list[Lane] = []
        self._topics: dict[str, TopicState] = {}
        self._aside: list[tuple[int, int]] = []
        self._chunks: list[int] = []  # pages with chunks
        self.unplaced: list[Raw] = []
        indexed = dict[int, int]()
        for page in self._pages.in_use():
            self._look_at(page, indexed)
        self._aside.sort()
        lanes = [*self._lanes.values(), *self._by_index.values()]
        self._places = list(dict.fromkeys(lanes))[:_MAX_LANES]
        self.contradictions.update(
            ("lane", lane, 0)
            for lane in self._lanes.keys() | self._by_index.keys()
            if self._lanes.get(lane) != self._by_index.get(lane)
        )
        self._order, self._known = self._ordered(indexed)
        numbers = {number for number, _, _ in self._order}
        self._newer, self._behind = None, list[Raw]()
        if log.behind and not log.has_hole:
            self._newer = _Pages(folder, log, with_behind=True)
            newest = max((number for number in numbers if number < _LARGEST), default=0)
            self._behind = self._read_behind(self._newer, log.behind_at, indexed, newest)
        missing, extra = sorted(indexed.keys() - numbers), numbers - indexed.keys()
        self.missing = missing[: max(0, len(missing) - len(extra) - len(self.unplaced))]
        self.lost = [self._lane(indexed[number]) for number in self.missing]
        self.is_complete = not (log.behind or (self._unreadable and (extra or not indexed)))
        self.is_ours = bool(numbers or indexed or lanes or self._aside or self._topics)

    def close(self) -> None:
        """Close the files."""
        self._pages.close()
        if self._newer is not None:
            self._newer.close()
        if self._other is not None:
            self._other.close()

    @property
    def topics(self) -> list[TopicState]:
        """Return the last known states of the topics that spool."""
        return list(self._topics.values())

    def keep_aside_of(self, other: "Wreck") -> None:
        """Return the chunks that were set aside in another reading of the same log, too."""
        self._other = other
        self._topics = other._topics | self._topics

    def rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        """Yield the chunks of one of `TABLES`, in order.

        Args:
            table: Name of the table.
            topic: Only chunks of this topic; None for all.
        """
        for row, _ in self.reasons() if table == "aside" else ((row, "") for row in self.chunks()):
            if topic in (None, row.topic):
                yield row

    def chunks(self) -> Iterator[Raw]:
        """Yield the waiting chunks, in order, with ascending numbers."""
        last = 0
        for row in self._chunk_rows():
            # The order of the pages is right, but a number may be damaged.
            last = row.number if last < row.number < _LARGEST else last + 1
            yield row._replace(number=last)

    def newer(self) -> Iterator[Raw]:
        """Return the chunks of a last commit that SQLite ignores: it is cut short, or damaged."""
        return iter(self._behind)

    def reasons(self) -> Iterator[tuple[Raw, str]]:
        """Yield the chunks that were set aside, each with the reason."""
        seen = set[tuple[int, _Content]]()
        for row, reason in self._aside_rows():
            seen.add((row.number, _content_of(row)))
            yield row, reason
        for row, reason in self._other._aside_rows() if self._other is not None else ():
            if (row.number, _content_of(row)) not in seen:
                yield row, reason
        for row in self.unplaced:
            checksum = checksum_of(row.packed, row.topic, row.partition, 0, row.events, row.at_ms)
            yield row._replace(partitions=0, checksum=checksum), _UNPLACED

    def _aside_rows(self) -> Iterator[tuple[Raw, str]]:
        for _, page in self._aside:
            for cell in self._pages.cells(page, _TABLE):
                if cell is not None and _is_aside(cell):
                    *values, reason = cell.values
                    yield (
                        self._raw(_Cell(cell.number, [None, values[1], 0, *values[2:]])),
                        _shown(reason),
                    )

    def _chunk_rows(self) -> Iterator[Raw]:
        for page, places in itertools.groupby(self._order, key=lambda each: each[1]):
            rows = list(self._rows_of(self._pages.cells(page, _TABLE)))
            for number, _, at in places:
                yield rows[at]._replace(number=number)
        yield from self._behind

    def _rows_of(self, cells: Iterable[_Cell | None]) -> Iterator[Raw]:
        return (self._raw(cell) for cell in cells if cell is not None and _is_chunk(cell))

    def _ordered(self, indexed: dict[int, int]) -> tuple[list[tuple[int, int, int]], set[_Content]]:
        """Return the chunks in order, and the contents of all.

        Args:
            indexed: Lane id of each chunk in the index, by number.

        Returns:
            Number, page and index in the page of each chunk; and the contents.
        """
        claims = [
            [_claim(row) for row in self._rows_of(self._pages.cells(page, _TABLE))]
            for page in self._chunks
        ]
        lanes = {number: self._lane(lane) for number, lane in indexed.items()}
        ranked = list[tuple[int, int, int, int, _Content]]()  # the surest first
        unplaced = list[tuple[int, int, _Content]]()
        for page, of_page, numbers in zip(
            self._chunks, claims, _numbers(claims, lanes), strict=True
        ):
            for at, (claim, number) in enumerate(zip(of_page, numbers, strict=True)):
                is_indexed = claim.lane is not None and lanes.get(claim.number) == claim.lane
                if not is_indexed:
                    self.contradictions.add(("row", claim.number, claim.content[0]))
                if number is None:
                    unplaced.append((page, at, claim.content))
                else:
                    is_sure = claim.lane is not None and lanes.get(number) == claim.lane
                    rank = 0 if is_sure else 1 if claim.lane is not None else 2
                    ranked.append((rank, number, page, at, claim.content))
        rows = {claim.number for of_page in claims for claim in of_page}
        self.contradictions.update(("entry", number, 0) for number in indexed.keys() - rows)
        order, chunks, contents = (
            list[tuple[int, int, int]](),
            set[tuple[int, _Content]](),
            dict[_Content, int](),
        )
        for rank, number, page, at, content in sorted(ranked):
            # Equal chunks of one millisecond have equal contents, and so has a copy of a page.
            is_copy = rank > 0 and contents.get(content, page) != page
            if not is_copy and (number, content) not in chunks:
                order.append((number, page, at))
                chunks.add((number, content))
                contents.setdefault(content, page)
        for page, at, content in unplaced:
            if content not in contents:
                contents[content] = page
                rows_of_page = list(self._rows_of(self._pages.cells(page, _TABLE)))
                self.unplaced.append(rows_of_page[at])
        return sorted(order), set(contents)

    def _read_behind(
        self, pages: _Pages, places: list[int], indexed: dict[int, int], newest: int
    ) -> list[Raw]:
        """Return the chunks of a last commit that SQLite ignores, in order.

        Args:
            pages: Pages with the frames that SQLite ignores.
            places: Offsets of these frames in the log.
            indexed: Lane id of each chunk in the index, by number.
            newest: Newest chunk number that SQLite knows.
        """
        indexed = dict(indexed)
        for offset in places:
            entries = (_entries(pages.cells_at(offset, kind)[1]) for kind in (_INDEX, _INDEX_ABOVE))
            for entry, lane in max(entries, key=len).items():
                if entry > newest:
                    indexed[entry] = lane
        rows, are_tables = list[list[Raw]](), list[bool]()
        for offset in places:
            kind, cells = pages.cells_at(offset, _TABLE)
            rows.append(list(self._rows_of(cells)))
            are_tables.append(kind == _TABLE)
        numbers = _numbers(
            [[_claim(row) for row in of_page] for of_page in rows],
            {number: self._lane(lane) for number, lane in indexed.items()},
        )
        behind, unplaced = dict[int, Raw](), list[Raw]()
        for of_page, found_numbers, is_table in zip(rows, numbers, are_tables, strict=True):
            for row, number in zip(of_page, found_numbers, strict=True):
                is_indexed = number is not None and number > newest and number in indexed
                if _content_of(row) in self._known and not is_indexed:
                    continue  # the chunk is from an earlier commit
                if number is None and row.number > newest:
                    unplaced.append(row)
                elif (
                    number is not None
                    and number > newest
                    and (row.is_whole() or (is_table and number not in behind))
                ):
                    behind[number] = row._replace(number=number)
        contents = {_content_of(row) for row in behind.values()}
        self.unplaced += [row for row in unplaced if _content_of(row) not in contents]
        return [behind[number] for number in sorted(behind)]

    def _look_at(self, page: int, indexed: dict[int, int]) -> None:
        """Note the contents of a page."""
        kind = self._pages.content(page)[0]
        if kind == _TABLE:
            self._unreadable += self._look_at_rows(page)
        elif kind in (_INDEX, _INDEX_ABOVE):
            entries = [self._entries(page, each) for each in (kind, _INDEX, _INDEX_ABOVE)]
            indexed.update(sorted(entries, key=len)[-1])
        elif kind != _TABLE_ABOVE or _has_rows(self._pages, page):  # a damaged kind
            self._look_at_rows(page)
            indexed.update(self._entries(page, _INDEX))
            self._unreadable += 1
            self.contradictions.add(("page", page, 0))

    def _look_at_rows(self, page: int) -> int:
        """Note the rows of a page; return the number of unreadable cells."""
        unreadable, has_chunks, aside = 0, False, list[int]()
        for at, cell in enumerate(self._pages.cells(page, _TABLE)):
            if cell is None:
                unreadable += 1
                self.contradictions.add(("cell", page, at))
                continue
            row = (_table(cell), cell.number)
            if row in self._rows_seen:
                self.contradictions.add(("twice", *row))
            self._rows_seen.add(row)
            if _is_chunk(cell):
                has_chunks = True
            elif _is_aside(cell):
                aside.append(cell.number)
            elif len(cell.values) == 3:
                _, topic, partition = cell.values
                if isinstance(topic, str) and isinstance(partition, int):
                    self._lanes[cell.number] = (topic, partition)
            elif len(cell.values) == 2 and isinstance(state := cell.values[1], bytes):
                topic_state = unpack_topic(state)
                if topic_state is not None and topic_state.name == cell.values[0]:
                    self._topics.setdefault(topic_state.name, topic_state)
            elif len(cell.values) != 2:  # rows of `sqlite_sequence` have 2 columns
                unreadable += 1
        if has_chunks:
            self._chunks.append(page)
        if aside:
            self._aside.append((sorted(aside)[len(aside) // 2], page))
        return unreadable

    def _entries(self, page: int, kind: int) -> dict[int, int]:
        """Return the lane ids of chunks in an index, by number, and note the lanes' names."""
        cells = list(self._pages.cells(page, kind))
        for cell in cells:
            match cell:
                case _Cell(_, [str(topic), int(partition), int(lane)]):
                    self._by_index[lane] = (topic, partition)
        return _entries(cells)

    def _lane(self, lane: object) -> Lane:
        lanes = self._lanes if lane in self._lanes else self._by_index
        return lanes.get(lane, ("", 0)) if isinstance(lane, int) else ("", 0)

    def _raw(self, cell: _Cell) -> Raw:
        """Return a cell's chunk, with the lane that matches its checksum.

        If no lane matches, the chunk is damaged, and its readable columns are kept.
        """
        _, lane, *rest, packed = cell.values
        partitions, events, at_ms, checksum = (
            each if isinstance(each, int) else 0 for each in rest
        )
        content = packed.encode() if isinstance(packed, str) else packed
        assert isinstance(content, bytes)
        events = events if 0 < events <= 1_000_000 else 1
        own, figures = self._lane(lane), (partitions, events, max(0, at_ms), checksum)
        row = Raw(cell.number, *own, *figures, content)
        for candidate in (own, *self._places):
            attempt = row._replace(topic=candidate[0], partition=candidate[1])
            if attempt.is_whole():
                return attempt
        return row


def _entries(cells: Iterable[_Cell | None]) -> dict[int, int]:
    """Return the lane ids of chunks in an index's cells, by number."""
    lanes = dict[int, int]()
    for cell in cells:
        match cell:
            case _Cell(_, [int(lane), int(number), int(rowid)]) if number == rowid:
                lanes[number] = lane
    return lanes


def _numbers(pages: list[list[_Claim]], indexed: Mapping[int, Lane]) -> list[list[int | None]]:
    """Return the number of each chunk, page by page; None if its place in the order is unknown.

    Args:
        pages: Claims of the chunks of each page.
        indexed: Lane of each chunk in the index, by number.
    """
    numbering = _Numbering(pages, indexed)
    numbered = [[numbering.number_of(page, at) for at in range(len(page))] for page in pages]
    owners = dict[int, _Content]()
    for page, numbers in zip(pages, numbered, strict=True):
        for at, placed in enumerate(numbers):
            if placed is None or page[at].lane is None:
                continue
            if owners.setdefault(placed, page[at].content) != page[at].content:
                numbers[at] = None
    return numbered


class _Numbering:
    """Numbers of chunks, by the claims of all pages and by the index.

    A number is confirmed if the index has it for the chunk's lane, by checksum, and no other chunk
    of the lane claims it; or if it fits between its neighbours. A chunk with an unconfirmed number
    gets another one if the index has a free number for its lane that fits.

    Args:
        pages: Claims of the chunks of each page.
        indexed: Lane of each chunk in the index, by number.
    """

    def __init__(self, pages: list[list[_Claim]], indexed: Mapping[int, Lane]) -> None:
        self._indexed = indexed
        self._contents = dict[int, set[_Content]]()
        self._of_lanes = dict[tuple[int, Lane | None], set[_Content]]()
        for claim in itertools.chain.from_iterable(pages):
            self._contents.setdefault(claim.number, set()).add(claim.content)
            self._of_lanes.setdefault((claim.number, claim.lane), set()).add(claim.content)
        self._order = sorted(self._contents)
        confirmed = {claim.number for page in pages for claim in page if self._is_confirmed(claim)}
        self._free = dict[Lane, list[int]]()
        for number in sorted(indexed.keys() - confirmed):
            self._free.setdefault(indexed[number], []).append(number)

    def number_of(self, page: list[_Claim], at: int) -> int | None:
        """Return the number of a page's chunk; None if its place in the order is unknown."""
        number, lane, _ = claim = page[at]
        if lane is None or self._is_confirmed(claim):
            return number  # a chunk without a lane is set aside in any case
        others = self._free.get(lane, [])
        if len(page) == 1:
            is_unique = len(self._contents[number]) == 1
            return number if is_unique and not others and number < _LARGEST else None
        candidates = self._candidates(page, at, others)
        return next((each for each in candidates if self._fits(each, page, at)), None)

    def _is_confirmed(self, claim: _Claim) -> bool:
        """Return whether the index confirms the number."""
        number, lane = claim.number, claim.lane
        owner = self._indexed.get(number)
        claimed = self._contents[number] if lane is None else self._of_lanes[number, lane]
        return len(claimed) == 1 and owner is not None and lane in (None, owner)

    def _fits(self, number: int, page: list[_Claim], at: int) -> bool:
        """Return whether the claims next to the number are those of the chunk's neighbours."""
        order = self._order
        if not 0 < number < _LARGEST:
            return False
        if at > 0:
            below = bisect.bisect_left(order, number) - 1
            if below < 0 or order[below] != page[at - 1].number:
                return False
        if at + 1 < len(page):
            above = bisect.bisect_right(order, number)
            if above == len(order) or order[above] != page[at + 1].number:
                return False
        return True

    def _candidates(self, page: list[_Claim], at: int, others: list[int]) -> Iterator[int]:
        """Yield the numbers that can fit: all others have another claim between the neighbours."""
        order = self._order
        yield page[at].number
        if at > 0:
            above = bisect.bisect_right(order, page[at - 1].number)
            yield from _from(others, page[at - 1].number + 1)
            yield from _from(others, order[above] if above < len(order) else _LARGEST)
        else:
            below = bisect.bisect_left(order, page[at + 1].number) - 1
            yield from _from(others, order[below] if below >= 0 else 1)


def _from(numbers: list[int], least: int) -> list[int]:
    """Return the first of the sorted numbers that is not smaller, if there is one."""
    at = bisect.bisect_left(numbers, least)
    return numbers[at : at + 1]


def _claim(row: Raw) -> _Claim:
    lane = (row.topic, row.partition) if row.is_whole() else None
    return _Claim(row.number, lane, _content_of(row))


def _content_of(row: Raw) -> _Content:
    return row.checksum, row.at_ms, len(row.packed)


def carve(folder: Path) -> Wreck:
    """Read a damaged journal.

    If a changed bit can be in the page number of a frame or in its content, the page number counts
    as changed if that removes contradictions and adds none. The chunks that were set aside are
    those of both readings, because no index confirms them.

    Raises:
        OSError: The files cannot be read.
    """
    path = folder / f"{FILE}-wal"
    log = read_log(path)
    wreck = Wreck(folder, log)
    if not log.is_doubtful:
        return wreck
    other = Wreck(folder, read_log(path, mends_numbers=True))
    if other.contradictions < wreck.contradictions:
        wreck, other = other, wreck
    wreck.keep_aside_of(other)
    return wreck


def look_at_log(path: Path) -> None:
    """Check a log for chunks that SQLite would ignore.

    A last commit may have been cut short before any client had a response, or damaged after that.
    If it has chunks, it counts as damaged.

    Raises:
        JournalDamagedError: SQLite would ignore chunks.
        OSError: The log cannot be read.
    """
    log = read_log(path)
    if log.is_damaged:
        raise JournalDamagedError(f"{path} is damaged before its end")
    if not log.behind:
        return
    wreck = carve(path.parent)
    try:
        if next(wreck.newer(), None) is not None or wreck.unplaced:
            raise JournalDamagedError(f"the last commit in {path} is damaged, or was cut short")
    finally:
        wreck.close()


def _has_rows(pages: _Pages, page: int) -> bool:
    return any(cell is not None and _is_chunk(cell) for cell in pages.cells(page, _TABLE))


def _is_chunk(cell: _Cell) -> bool:
    match cell.values:
        case [None, _, _, _, _, int() | None, bytes() | str()]:
            return cell.number > 0
    return False


def _is_aside(cell: _Cell) -> bool:
    match cell.values:
        case [None, _, _, _, _, bytes(), str() | bytes()]:
            return True
    return False


def _table(cell: _Cell) -> int:
    """Return a number that differs between the tables of rows."""
    is_topic = bool(cell.values) and isinstance(cell.values[-1], bytes)  # or a chunk
    return 4 * len(cell.values) + 2 * _is_aside(cell) + is_topic


def _opened(path: Path) -> int | None:
    return os.open(path, os.O_RDONLY) if path.exists() else None


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = content[at + index]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + index + 1
    return value << 8 | content[at + 8], at + 9


def _values(payload: bytes) -> list[Value]:
    """Decode the values of a SQLite record.

    Raises:
        _UnreadableError: The payload is no record.
        IndexError: The payload is too short.
    """
    end, at = _varint(payload, 0)
    if end > len(payload):
        raise _UnreadableError
    types, values, position = list[int](), list[Value](), end
    while at < end:
        each, at = _varint(payload, at)
        types.append(each)
    for each in types:
        value: Value = None
        size = 0
        if 1 <= each <= 6:
            size = _INTEGERS[each]
            value = int.from_bytes(payload[position : position + size], "big", signed=True)
        elif each == 7:
            size = 8
            [value] = struct.unpack_from(">d", payload, position)
        elif each in (8, 9):
            value = each - 8
        elif each >= 12:
            size = (each - 12) // 2
            content = payload[position : position + size]
            value = _text(content) if each % 2 else content
        elif each:
            raise _UnreadableError
        position += size
        if position > len(payload):
            raise _UnreadableError
        values.append(value)
    return values


def _shown(reason: Value) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
