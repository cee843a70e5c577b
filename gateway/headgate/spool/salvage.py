"""Takes over what can be read of a damaged journal."""

from pathlib import Path
from typing import Final, NamedTuple

from headgate.spool.carve import Wreck
from headgate.spool.database import JournalError
from headgate.spool.entries import Raw
from headgate.spool.journal import Journal

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
    """Take over what can be read in a folder. Raises JournalError: the new journal cannot be
    written, or the old one cannot be opened."""
    try:
        wreck = Wreck(kept)
    except OSError as error:
        raise JournalError(f"{kept}: {error.strerror or error}") from error
    try:
        events, aside = 0, list[tuple[str, int]]()
        good, bad = list[Raw](), list[tuple[Raw, str]]()
        for one in wreck.chunks():
            if one.unpacked() is None:
                bad.append((one, _DAMAGED))
                aside.append((one.topic, one.events))
            else:
                good.append(one)
                events += one.events
            if len(good) + len(bad) >= _AT_ONCE:
                journal.adopt(good, bad)
                good, bad = [], []
        journal.adopt(good, bad)
        journal.adopt((), list(wreck.reasons()))
        journal.adopt((), [(Raw(0, *lane, 0, 1, 0, 0, b""), _LOST) for lane in wreck.lost])
        aside += [(one.topic, one.events) for one in wreck.unplaced]
        aside += [(topic, 1) for topic, _ in wreck.lost]
        journal.remember(wreck.topics)
        return Salvage(events, aside, wreck.is_ours and wreck.is_complete)
    finally:
        wreck.close()
