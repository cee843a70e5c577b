"""One screen of `headgate top` as lines. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from headgate.core.terminal.figures import counted, duration, share, short
from headgate.core.terminal.style import Ink, Style
from headgate.core.terminal.table import cut, table
from headgate.top.pages import Health
from headgate.top.readings import Reading, View
from headgate.top.views import SORTS, Sort, listing, total

VIEW_KEYS = {"p": View.PRODUCERS, "t": View.TOPICS, "g": View.GROUPS}
SORT_KEYS = {
    "r": Sort.RATE, "b": Sort.BYTES, "x": Sort.REJECTS, "u": Sort.UNCHANGED, "n": Sort.NAME,
    "w": Sort.WORST,
}  # fmt: skip
_AROUND = 5  # lines that are no rows: two of the head, one empty, the titles, the keys
_MAX_NOTES = 4


class Trouble(NamedTuple):
    """Why there is nothing new, and since when."""

    text: str
    since_s: float
    since: datetime


class Shown(NamedTuple):
    """What is on the screen. readings: of the view, the newest last; none yet = not asked yet.

    first: the number of the first row that is shown.  at: of the newest reading.
    """

    url: str
    view: View
    sort: Sort
    interval_s: float
    readings: Sequence[Reading]
    at: datetime | None
    trouble: Trouble | None
    first: int


class Room(NamedTuple):
    """The terminal's size now."""

    columns: int
    rows: int


def rows_in(shown: Shown, room: Room) -> int:
    """How many rows of the table have room; one at least."""
    return max(1, room.rows - _AROUND - len(_notes(shown, room)))


def frame(shown: Shown, room: Room, style: Style, now: datetime, now_s: float) -> list[str]:
    """The lines, no more than there are and no wider. now_s: of the clock of `Trouble`."""
    lines = [*_head(shown, room, style, now_s), "", *_body(shown, room, style, now)]
    room_left = max(0, room.rows - 1)
    below = [""] * (room_left - len(lines))
    return [*lines[:room_left], *below, _keys(shown, room, style)]


def _head(shown: Shown, room: Room, style: Style, now_s: float) -> Iterator[str]:
    clock = "" if shown.at is None else f"  {shown.at:%H:%M:%S}"
    what = f"{shown.view} by {shown.sort}, every {shown.interval_s:g} s"
    text = f"headgate top{clock}  {what}  {shown.url}"
    yield style.paint(cut(text, room.columns), Ink.HEAD)
    if shown.trouble is not None:
        silent = duration(now_s - shown.trouble.since_s)
        head = f"since {shown.trouble.since:%H:%M:%S} ({silent}): {shown.trouble.text}"
        yield style.paint(cut(head, room.columns), Ink.BAD)
    elif not shown.readings:
        yield "asking..."
    else:
        text, ink = _summary(shown.readings)
        if shown.first:
            text = f"from row {shown.first + 1} on, {text}"
        yield style.paint(cut(text, room.columns), ink)


def _summary(readings: Sequence[Reading]) -> tuple[str, Ink]:
    newest = readings[-1]
    status, ink = _status(newest.health)
    parts = [status, counted(len(newest.names), newest.view.value[:-1])]
    if newest.view is not View.GROUPS:
        found = total(readings)
        parts += [
            f"{short(found.events_per_s)} events/s",
            f"{short(found.bytes_per_s, 'B')}/s",
            f"{share(found.unchanged)} unchanged",
            f"{short(found.refused_per_s)} rejects/s",
        ]
    return ", ".join(parts), ink


def _status(health: Health) -> tuple[str, Ink]:
    """What /ready says, and what is missing."""
    status, workers = health.status, health.workers
    wrong = [f"{name}: {one.detail}" for name, one in health.dependencies.items() if not one.ok]
    if workers is not None and workers.up < workers.wanted:
        wrong.append(f"{workers.up} of {counted(workers.wanted, 'worker')}")
    text = f"{status} ({'; '.join(wrong)})" if wrong else status
    if status in ("ready", "degraded"):
        return text, Ink.WARNING if wrong else Ink.PLAIN
    return text, Ink.BAD


def _body(shown: Shown, room: Room, style: Style, now: datetime) -> Iterator[str]:
    if not shown.readings:
        return
    found = listing(shown.readings, shown.sort, now)
    rows = found.rows[shown.first : shown.first + rows_in(shown, room)]
    yield from table(found.columns, rows, style, room.columns)
    for line in _notes(shown, room):
        yield style.paint(cut(line, room.columns), Ink.WARNING)


def _notes(shown: Shown, room: Room) -> Sequence[str]:
    """What stands below the rows: where there is too little room, no more than a third of it."""
    if not shown.readings:
        return ()
    newest, left = shown.readings[-1], room.rows - _AROUND
    said = newest.notes[:_MAX_NOTES]
    return said if len(newest.names) + len(said) <= left else said[: max(0, left // 3)]


def _keys(shown: Shown, room: Room, style: Style) -> str:
    """The keys that do something here, as many as there is room for."""
    sorts = {key: sort for key, sort in SORT_KEYS.items() if sort in SORTS[shown.view]}
    found, left = list[str](), room.columns
    for key, name in {"q": "quit", **VIEW_KEYS, **sorts}.items():
        text = f"{key} {name}"
        left -= len(text) + bool(found)
        if left < 0:
            break
        is_chosen = name in (shown.view, shown.sort)
        found.append(style.paint(text, Ink.CHOSEN if is_chosen else Ink.FAINT))
    return " ".join(found)
