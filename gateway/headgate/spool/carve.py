"""Reads the rows of a damaged spool page by page, without SQLite and without its indexes.

SQLite gives up at the first thing that it does not understand: a letter of the schema, a page
above others, a cell. The rows are in pages of their own all the same, and each chunk has a checksum
of its own. So every page that is a table's and is not free is read, each cell by itself; a row's
columns say of which table it is (https://sqlite.org/fileformat2.html).

A chunk whose lane is damaged is tried with all other lanes: its checksum knows the right one. A
chunk that the index has and no page has is lost, and is counted.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from headgate.core.spool.chunk import unpack_topic
from headgate.core.topics.topic import TopicState
from headgate.spool.database import FILE, JournalDamagedError
from headgate.spool.entries import Raw
from headgate.spool.wal import PAGE_BYTES, Log, read_log

_TABLE, _TABLE_ABOVE, _INDEX, _INDEX_ABOVE = 13, 5, 10, 2  # kinds of b-tree pages
_ROOT, _FREE, _BELOW = 1, 2, 5  # what the pointer map says of pages of b-trees, and of free ones
_OVERFLOW: Final = (3, 4)
_MOST_LANES: Final = 2000  # that a damaged chunk is tried with
_INTEGERS: Final = (0, 1, 2, 3, 4, 6, 8)  # bytes of an integer, by its type
_LARGEST: Final = 1 << 40  # beyond it a number of a chunk is damaged

Value = int | float | str | bytes | None
Lane = tuple[str, int]
_Content = tuple[int, int, int]  # checksum, time, bytes: no two chunks have the same


class _UnreadableError(ValueError):
    """This is no cell."""


class _Cell(NamedTuple):
    """number: the rowid; 0 in an index."""

    number: int
    values: list[Value]


class _Pages:
    """The pages of a database, with what its log has of them.

    with_behind: also what SQLite ignores of the log.
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
        # A page that the log adds is one of its frames; a number beyond that is damaged.
        self.count = min(max([in_file, *self._overlay]), in_file + len(self._overlay))
        if log.size and not with_behind:  # the rest is what the file had before it shrank
            self.count = min(self.count, max(log.size, int.from_bytes(head[28:32], "big")))
        self._freed = self._free_list(int.from_bytes(head[32:36], "big"))
        self._map = (0, b"")  # the page of the pointer map that was read last

    def close(self) -> None:
        for file in (self._database, self._log):
            if file is not None:
                os.close(file)

    def content(self, page: int) -> bytes:
        """A page; filled up with zeros if the file ends before."""
        at, file = self._overlay.get(page), self._log
        if at is None:
            at, file = (page - 1) * self.bytes, self._database
        found = b"" if file is None or page < 1 else os.pread(file, self.bytes, at)
        return found.ljust(self.bytes, b"\0")

    def in_use(self) -> Iterator[int]:
        """The numbers of pages of b-trees."""
        return (page for page in range(3, self.count + 1) if self._is_in_use(page))

    def _is_in_use(self, page: int) -> bool:
        step = self.bytes // 5 + 1
        place = (page - 2) // step * step + 2
        if place == page:
            return False
        if self._map[0] != place:
            self._map = (place, self.content(place))
        kind = self._map[1][5 * (page - place - 1)]
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
        """The cells of a page as one of this kind; None for one that cannot be read."""
        return self._cells(self.content(page), kind)

    def cells_at(self, place: int) -> tuple[int, Iterator[_Cell | None]]:
        """The kind of a page in the log, and its cells as a table's."""
        content = b"" if self._log is None else os.pread(self._log, self.bytes, place)
        content = content.ljust(self.bytes, b"\0")
        return content[0], self._cells(content, _TABLE)

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
        most = (self.bytes - 12) * 64 // 255 - 23 if is_index else self.bytes - 35
        here = size
        if size > most:
            least = (self.bytes - 12) * 32 // 255 - 23
            here = least + (size - least) % (self.bytes - 4)
            here = here if here <= most else least
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


class Wreck:
    """What can be read of a damaged journal. Raises OSError.

    is_ours: anything of it can be read.
    missing: numbers of chunks that are lost: the index has them, and no page has.
    lost: topic and partition of each of these.  is_complete: nothing else is missing.
    topics: what Kafka last said of the topics that spool.
    """

    def __init__(self, folder: Path) -> None:
        log = read_log(folder / f"{FILE}-wal")
        self._pages = _Pages(folder, log, with_behind=log.is_damaged)
        self._unreadable = 0  # pages and cells of tables
        self._lanes: dict[int, Lane] = {}
        self._by_index: dict[int, Lane] = {}
        self._places: list[Lane] = []
        self.topics: list[TopicState] = []
        self._aside: list[tuple[int, int]] = []
        self._chunks: list[tuple[int, int]] = []  # the middle number of each page, and the page
        numbers, indexed = set[int](), dict[int, int]()
        for page in self._pages.in_use():
            self._look_at(page, numbers, indexed)
        self._chunks.sort()
        self._aside.sort()
        lanes = [*self._lanes.values(), *self._by_index.values()]
        self._places = list(dict.fromkeys(lanes))[:_MOST_LANES]
        self._newest = max((one for one in numbers if one < _LARGEST), default=0)
        self._newer, self._behind_at = None, list[int]()
        if log.behind and not log.is_damaged:
            self._newer = _Pages(folder, log, with_behind=True)
            self._behind_at = log.behind_at
        missing, extra = sorted(indexed.keys() - numbers), numbers - indexed.keys()
        self.missing = missing[: max(0, len(missing) - len(extra))]
        self.lost = [self._lane(indexed[number]) for number in self.missing]
        self.is_complete = not (log.behind or (self._unreadable and (extra or not indexed)))
        self.is_ours = bool(numbers or indexed or lanes or self._aside or self.topics)

    def close(self) -> None:
        """Close the files."""
        self._pages.close()
        if self._newer is not None:
            self._newer.close()

    def rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        """The chunks of one of `TABLES`, in order. topic: only its."""
        for one, _ in self.reasons() if table == "aside" else ((row, "") for row in self.chunks()):
            if topic in (None, one.topic):
                yield one

    def chunks(self) -> Iterator[Raw]:
        """What waits, in order, the numbers included."""
        seen, last = set[_Content](), 0
        for one in self._chunk_rows():
            content = _content_of(one)
            if content in seen:
                continue
            seen.add(content)
            # The order of the pages is right, and a number may be damaged.
            last = one.number if last < one.number < _LARGEST else last + 1
            yield one._replace(number=last)

    def newer(self) -> Iterator[Raw]:
        """Chunks of a last commit that SQLite ignores: cut short, or damaged."""
        found = dict[int, Raw]()
        known = {_content_of(one) for one in self._own_rows()} if self._behind_at else set()
        for place in self._behind_at:
            assert self._newer is not None
            kind, cells = self._newer.cells_at(place)
            for cell in cells:
                if cell is None or not _is_chunk(cell) or cell.number <= self._newest:
                    continue
                row = self._raw(cell)
                if _content_of(row) in known:  # of an earlier commit; its number is damaged
                    continue
                if row.is_whole() or (kind == _TABLE and cell.number not in found):
                    found[cell.number] = row
        return iter([found[number] for number in sorted(found)])

    def reasons(self) -> Iterator[tuple[Raw, str]]:
        """What was set aside, and why."""
        for _, page in self._aside:
            for cell in self._pages.cells(page, _TABLE):
                if cell is not None and _is_aside(cell):
                    *values, reason = cell.values
                    yield (
                        self._raw(_Cell(cell.number, [None, values[1], 0, *values[2:]])),
                        _shown(reason),
                    )

    def _chunk_rows(self) -> Iterator[Raw]:
        yield from self._own_rows()
        yield from self.newer()

    def _own_rows(self) -> Iterator[Raw]:
        for _, page in self._chunks:
            for cell in self._pages.cells(page, _TABLE):
                if cell is not None and _is_chunk(cell):
                    yield self._raw(cell)

    def _look_at(self, page: int, numbers: set[int], indexed: dict[int, int]) -> None:
        """Find out what a page has."""
        kind = self._pages.content(page)[0]
        if kind == _TABLE:
            self._unreadable += self._look_at_rows(page, numbers)
        elif kind in (_INDEX, _INDEX_ABOVE):
            found = [self._entries(page, each) for each in (kind, _INDEX, _INDEX_ABOVE)]
            indexed.update(sorted(found, key=len)[-1])
        elif kind != _TABLE_ABOVE or _has_rows(self._pages, page):  # its kind is damaged
            self._look_at_rows(page, numbers)
            indexed.update(self._entries(page, _INDEX))
            self._unreadable += 1

    def _look_at_rows(self, page: int, numbers: set[int]) -> int:
        """Returns how many cells cannot be read."""
        unreadable, chunks, aside = 0, list[int](), list[int]()
        for cell in self._pages.cells(page, _TABLE):
            if cell is None:
                unreadable += 1
            elif _is_chunk(cell):
                chunks.append(cell.number)
            elif _is_aside(cell):
                aside.append(cell.number)
            elif len(cell.values) == 3:
                _, topic, partition = cell.values
                if isinstance(topic, str) and isinstance(partition, int):
                    self._lanes[cell.number] = (topic, partition)
            elif len(cell.values) == 2 and isinstance(state := cell.values[1], bytes):
                found = unpack_topic(state)
                if found is not None and found.name == cell.values[0]:
                    self.topics.append(found)
            elif len(cell.values) != 2:  # as `sqlite_sequence` has
                unreadable += 1
        numbers.update(chunks)
        for found_rows, pages in ((chunks, self._chunks), (aside, self._aside)):
            if found_rows:
                pages.append((sorted(found_rows)[len(found_rows) // 2], page))
        return unreadable

    def _entries(self, page: int, kind: int) -> dict[int, int]:
        """Lanes of chunks, by number, as an index says; lanes' names are noted."""
        found = dict[int, int]()
        for cell in self._pages.cells(page, kind):
            match cell:
                case _Cell(_, [str(topic), int(partition), int(lane)]):
                    self._by_index[lane] = (topic, partition)
                case _Cell(_, [int(lane), int(number), int(rowid)]) if number == rowid:
                    found[number] = lane
        return found

    def _lane(self, lane: object) -> Lane:
        known = self._lanes if lane in self._lanes else self._by_index
        return known.get(lane, ("", 0)) if isinstance(lane, int) else ("", 0)

    def _raw(self, cell: _Cell) -> Raw:
        """With the lane of which its checksum is; else it is damaged, and what can be is kept."""
        _, lane, *rest, packed = cell.values
        partitions, events, at_ms, checksum = (
            each if isinstance(each, int) else 0 for each in rest
        )
        content = packed.encode() if isinstance(packed, str) else packed
        assert isinstance(content, bytes)
        events = events if 0 < events <= 1_000_000 else 1
        own, figures = self._lane(lane), (partitions, events, max(0, at_ms), checksum)
        row = Raw(cell.number, *own, *figures, content)
        for place in (own, *self._places):
            found = row._replace(topic=place[0], partition=place[1])
            if found.is_whole():
                return found
        return row


def _content_of(row: Raw) -> _Content:
    return row.checksum, row.at_ms, len(row.packed)


def look_at_log(path: Path) -> None:
    """Raise JournalDamagedError if SQLite would ignore chunks in a log. Raises OSError.

    Of a last commit nothing tells whether it was cut short before anybody had an answer to it, or
    damaged after that. If it has chunks, it counts as damaged.
    """
    log = read_log(path)
    if log.is_damaged:
        raise JournalDamagedError(f"{path} is damaged before its end")
    if not log.behind:
        return
    wreck = Wreck(path.parent)
    try:
        if next(wreck.newer(), None) is not None:
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


def _opened(path: Path) -> int | None:
    return os.open(path, os.O_RDONLY) if path.exists() else None


def _varint(content: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(8):
        byte = content[at + place]
        found = found << 7 | byte & 127
        if byte < 128:
            return found, at + place + 1
    return found << 8 | content[at + 8], at + 9


def _values(payload: bytes) -> list[Value]:
    """Of a record. Raises _UnreadableError, IndexError."""
    end, at = _varint(payload, 0)
    if end > len(payload):
        raise _UnreadableError
    types, found, place = list[int](), list[Value](), end
    while at < end:
        each, at = _varint(payload, at)
        types.append(each)
    for each in types:
        value: Value = None
        size = 0
        if 1 <= each <= 6:
            size = _INTEGERS[each]
            value = int.from_bytes(payload[place : place + size], "big", signed=True)
        elif each == 7:
            size = 8
            [value] = struct.unpack_from(">d", payload, place)
        elif each in (8, 9):
            value = each - 8
        elif each >= 12:
            size = (each - 12) // 2
            content = payload[place : place + size]
            value = _text(content) if each % 2 else content
        elif each:
            raise _UnreadableError
        place += size
        if place > len(payload):
            raise _UnreadableError
        found.append(value)
    return found


def _shown(reason: Value) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
