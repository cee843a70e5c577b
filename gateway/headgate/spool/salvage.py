"""Takes over what can be read of a journal that SQLite finds damaged."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from headgate.spool.database import JournalError
from headgate.spool.journal import Journal
from headgate.spool.reading import TABLES, Contents, Gap, Raw

log = logging.getLogger("headgate.spool")

_AT_ONCE: Final = 50  # chunks of a transaction
_DAMAGED: Final = "damaged"
_LOST: Final = "its page on disk is damaged: one event or more, see the folder damaged-*"


class Salvage(NamedTuple):
    """events: those that are published.  aside: topics and events of what is not.
    is_complete: all that lay there is known."""

    events: int
    aside: list[tuple[str, int]]
    is_complete: bool


def salvage(kept: Path, journal: Journal) -> Salvage:
    """Of the damaged one that was put there, to the new one. Raises JournalError: the latter takes
    it not."""
    try:
        contents = Contents.of(kept)
    except JournalError:
        return Salvage(0, [], False)
    try:
        return _take_over(contents, journal)
    finally:
        contents.close()


def _take_over(contents: Contents, journal: Journal) -> Salvage:
    events, aside = 0, list[tuple[str, int]]()
    for table in TABLES:
        good, bad = list[Raw](), list[tuple[Raw, str]]()
        for one in _read(contents, table):
            if one.unpacked() is None:
                bad.append((_clean(one), _DAMAGED))
                aside.append((bad[-1][0].topic, bad[-1][0].events))
            elif table == "chunks":
                good.append(one)
                events += one.events
            else:
                bad.append((one, "set aside before the journal was damaged"))
            if len(good) + len(bad) >= _AT_ONCE:
                journal.adopt(good, bad)
                good, bad = [], []
        journal.adopt(good, bad)
    missing = contents.missing()
    journal.adopt((), [(Raw(0, *place, 0, 1, 0, 0, b""), _LOST) for place in missing])
    aside += [(topic, 1) for topic, _ in missing]
    return Salvage(events, aside, not contents.gaps)


def _read(contents: Contents, table: str) -> Iterator[Raw]:
    try:
        yield from contents.rows(table)
    except JournalError as error:
        log.warning("spool: the rest of the damaged journal's %s: %s", table, error)
        contents.gaps.append(Gap(table, 1, None))


def _clean(one: Raw) -> Raw:
    """Damage may have made anything of it."""
    partition, _, events, at_ms, checksum = (
        each if isinstance(each, int) else 0 for each in one[2:7]
    )
    packed = one.packed if isinstance(one.packed, bytes) else b""
    return Raw(one.number, str(one.topic), partition, 0, events, at_ms, checksum, packed)
