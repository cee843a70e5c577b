"""Tables for people: columns as wide as what stands in them, or as the terminal lets them be."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from headgate.core.terminal.style import PLAIN, Ink, Style
from headgate.core.terminal.text import fitted, padded, shown, width

_GAP = "  "
_MIN_WIDTH = 6  # a column that is made narrower says nothing any more


class Column(NamedTuple):
    """right: figures, which line up at their end.  gives_way: made narrower where there is too
    little room."""

    title: str
    right: bool = False
    gives_way: bool = False
    ink: Ink = Ink.HEAD


class Cell(NamedTuple):
    """A text of any origin, and what it means."""

    text: str
    ink: Ink = Ink.PLAIN


Row: TypeAlias = Sequence[str | Cell]


def table(
    columns: Sequence[Column], rows: Iterable[Row], style: Style = PLAIN, room: int | None = None
) -> Iterator[str]:
    """The lines, titles first. room: columns of the terminal; None = as wide as it gets.

    No line is wider than the room, and none holds a sequence that is not ours.
    """
    titles = [Cell(column.title.upper(), column.ink) for column in columns]
    cells = [titles, *([_cell(one) for one in row] for row in rows)]
    widths = [max(width(row[number].text) for row in cells) for number in range(len(columns))]
    if room is not None:
        widths = _narrowed(columns, widths, room)
    for row in cells:
        yield _line(columns, row, widths, style)


def _cell(given: str | Cell) -> Cell:
    text, ink = given if isinstance(given, Cell) else (given, Ink.PLAIN)
    return Cell(shown(text), ink)


def _line(
    columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], style: Style
) -> str:
    parts, skipped = list[str](), ""
    for column, cell, room in zip(columns, row, widths, strict=True):
        if not room:
            continue
        text = padded(cell.text, room, right=column.right)
        bare = text.strip(" ")
        before, _, after = text.partition(bare) if bare else (text, "", "")
        parts.append(skipped + before + style.paint(bare, cell.ink))
        skipped = after + _GAP  # written only if something follows
    return "".join(parts).rstrip(" ")


def _narrowed(columns: Sequence[Column], widths: list[int], room: int) -> list[int]:
    """First the columns that give way, the widest first; then the last ones are cut off."""
    found = list(widths)
    excess = sum(found) + len(_GAP) * (len(found) - 1) - room
    giving = [number for number, column in enumerate(columns) if column.gives_way]
    while excess > 0 and giving:
        widest = max(giving, key=found.__getitem__)
        if found[widest] <= _MIN_WIDTH:
            break
        found[widest] -= 1
        excess -= 1
    left = room
    for number, wanted in enumerate(found):
        found[number] = max(0, min(wanted, left))
        left -= found[number] + len(_GAP)
    return found


def cut(text: str, room: int) -> str:
    """One line of any origin in this room."""
    return fitted(shown(text), room)


def facts(pairs: Iterable[tuple[str, str]], style: Style = PLAIN) -> Iterator[str]:
    """Names and values, a line each."""
    found = list(pairs)
    room = max((width(shown(name)) for name, _ in found), default=0)
    for name, value in found:
        yield f"{style.paint(padded(shown(name), room), Ink.HEAD)}{_GAP}{shown(value)}"
