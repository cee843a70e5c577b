"""Text, colours, tables, figures and progress for terminals. Only `ProgressLine` writes output.

Untrusted text becomes one line of known width without control sequences. Any Kafka client can
choose the name of a consumer group, so a name may hold an escape sequence.
"""

import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, TextIO, TypeAlias

from headgate.model.text import one_line

_CUT = "…"
_MAX_MARKS = 2  # per character: more combining marks would cover the adjacent lines


def shown(text: str) -> str:
    r"""Replace all characters that control a terminal by escapes such as `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    pieces, marks = list[str](), _MAX_MARKS  # a combining mark needs a character before it
    for char in unicodedata.normalize("NFC", text):
        marks = marks + 1 if unicodedata.combining(char) else 0
        if char.isprintable() and marks <= _MAX_MARKS:
            pieces.append(char)
        else:
            pieces.append(char.encode("unicode_escape").decode())
    return "".join(pieces)


def width(text: str) -> int:
    """Return the number of columns that a result of `shown` takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def fitted(text: str, columns: int) -> str:
    """Shorten a result of `shown` to this many columns; a shortened text ends with an ellipsis."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    taken, remaining = list[str](), columns - 1
    for char in text:
        remaining -= _width(char)
        if remaining < 0:
            break
        taken.append(char)
    return "".join(taken) + _CUT


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Pad or shorten a text to exactly this many columns.

    Args:
        text: A result of `shown`.
        columns: The width.
        right: Whether to align the text to the right.
    """
    cut = fitted(text, columns)
    space = " " * (columns - width(cut))
    return space + cut if right else cut + space


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# ---- colours, if the terminal supports them and the user has not disabled them


class Ink(StrEnum):
    """Meaning of a text; the value is its SGR parameters (ECMA-48)."""

    PLAIN = ""
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    HEAD = "1"
    CHOSEN = "1;7"
    FAINT = "2"


class Style(NamedTuple):
    """Capabilities of one output stream.

    Attributes:
        is_terminal: Whether the stream can move its cursor.
        has_colours: Whether the stream shows colours.
    """

    is_terminal: bool = False
    has_colours: bool = False

    def paint(self, text: str, ink: Ink) -> str:
        """Return the text in this ink; unchanged if the stream has no colours."""
        if not (self.has_colours and ink and text):
            return text
        return f"\x1b[{ink.value}m{text}\x1b[0m"


PLAIN = Style()


def style_of(environ: Mapping[str, str], *, is_terminal: bool) -> Style:
    """Return the style of a stream.

    A stream without TERM, or with TERM=dumb, is no terminal. NO_COLOR disables colours
    (no-color.org).
    """
    able = is_terminal and environ.get("TERM", "dumb") != "dumb"
    return Style(able, able and not environ.get("NO_COLOR"))


# ---- figures with three digits, and counted nouns

_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_NONE = "-"  # also for NaN and infinity


def short(number: float | None, unit: str = "") -> str:
    """Format a number as `950`, `1.25k` or `3.04M`; with a unit as `1.25 kB`; None as `-`."""
    if number is None or not isfinite(number):
        return _NONE
    size, power = abs(number), 0
    while size >= 999.5 and power < len(_THOUSANDS) - 1:
        size, power = size / 1000, power + 1
    digits = 0 if power == 0 and (size >= 100 or size == int(size)) else _digits(size)
    text = f"{'-' if number < 0 else ''}{size:.{digits}f}"
    return f"{text} {_THOUSANDS[power]}{unit}" if unit else f"{text}{_THOUSANDS[power]}"


def share(part: float | None) -> str:
    """Format 0.5 as `50 %` and None as `-`."""
    if part is None or not isfinite(part):
        return _NONE
    digits = 1 if 0 < part < 0.0995 else 0
    return f"{100 * part:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Format seconds as `42 s`, `3 min 20 s`, `2 h 5 min` or `3 d 4 h`; None as `-`."""
    if seconds is None or not isfinite(seconds):
        return _NONE
    total_s = round(seconds)
    for size, name, below, lesser in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if total_s >= size:
            rest = total_s % size // below
            return f"{total_s // size} {name}" + (f" {rest} {lesser}" if rest else "")
    return f"{total_s} s"


def _digits(size: float) -> int:
    return 2 if size < 9.995 else 1 if size < 99.95 else 0


# ---- tables: columns as wide as their contents, or as the terminal allows

_GAP = "  "
_MIN_WIDTH = 6  # a narrower column is useless


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: The heading.
        right: Whether to align cells to the right, as for figures.
        gives_way: Whether to shrink the column if the table is too wide.
        ink: The ink of the heading.
    """

    title: str
    right: bool = False
    gives_way: bool = False
    ink: Ink = Ink.HEAD


class Cell(NamedTuple):
    """An untrusted text and its meaning."""

    text: str
    ink: Ink = Ink.PLAIN


Row: TypeAlias = Sequence[str | Cell]


def table(
    columns: Sequence[Column], rows: Iterable[Row], style: Style = PLAIN, room: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table, titles first.

    No line is wider than the room, and no cell can add a control sequence.

    Args:
        columns: The columns.
        rows: The cells of each row.
        style: The style of the output stream.
        room: Columns of the terminal; None for no limit.
    """
    titles = [Cell(column.title.upper(), column.ink) for column in columns]
    cells = [titles, *([_cell(value) for value in row] for row in rows)]
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
    """Shrink the columns that may shrink, the widest first, then cut off the last columns."""
    narrowed = list(widths)
    excess = sum(narrowed) + len(_GAP) * (len(narrowed) - 1) - room
    giving = [number for number, column in enumerate(columns) if column.gives_way]
    while excess > 0 and giving:
        widest = max(giving, key=narrowed.__getitem__)
        if narrowed[widest] <= _MIN_WIDTH:
            break
        narrowed[widest] -= 1
        excess -= 1
    remaining = room
    for number, wanted in enumerate(narrowed):
        narrowed[number] = max(0, min(wanted, remaining))
        remaining -= narrowed[number] + len(_GAP)
    return narrowed


def cut(text: str, room: int) -> str:
    """Shorten an untrusted line to this many columns."""
    return fitted(shown(text), room)


def facts(pairs: Iterable[tuple[str, str]], style: Style = PLAIN) -> Iterator[str]:
    """Yield one line for each name and its value."""
    rows = list(pairs)
    room = max((width(shown(name)) for name, _ in rows), default=0)
    for name, value in rows:
        yield f"{style.paint(padded(shown(name), room), Ink.HEAD)}{_GAP}{shown(value)}"


# ---- progress: a line that is redrawn on a terminal, else a new line at intervals

_SPAN_S = 30.0  # span of a rate: long enough for polls that are seconds apart
_LOG_EVERY_S = 10.0
_REDRAW_EVERY_S = 0.1
_TURN_S = 2.0  # time for each of several tasks that share a terminal's line
_BAR = 20  # characters


class Amount(NamedTuple):
    """An amount that grows; `unit` is `B` for bytes."""

    done: float
    unit: str


class Step(NamedTuple):
    """State of a task for the progress display.

    Attributes:
        what: Name of the task.
        done: The amount that is done.
        total: The whole amount; None if it is not known.
        unit: Unit of the amounts, `B` for bytes.
        more: Text to append.
        also: Other amounts to show; if there are any, the rates are theirs.
    """

    what: str
    done: float
    total: float | None
    unit: str
    more: str = ""
    also: Sequence[Amount] = ()

    @property
    def part(self) -> float | None:
        """Return the done part from 0 to 1, also if the total has grown; None without a total."""
        return min(1.0, self.done / self.total) if self.total else None


class Pace:
    """Rate over the last half minute, from readings of a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def note(self, now_s: float, done: float) -> None:
        """Record the amount that is done; an amount below the previous one starts again."""
        seen = self._seen
        if seen and done < seen[-1][1]:
            seen.clear()
        seen.append((now_s, done))
        while len(seen) > 2 and seen[1][0] <= now_s - _SPAN_S:
            seen.popleft()

    @property
    def per_s(self) -> float | None:
        """Return the rate per second; None before the second reading."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (then_s, before), (now_s, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now_s - then_s)


class _TaskProgress:
    """One of the tasks that share a line: its rates, and the time of its last output."""

    def __init__(self) -> None:
        self._pace, self._also = Pace(), dict[str, Pace]()
        self.written_s, self.is_done = float("-inf"), False

    def note(self, now_s: float, step: Step) -> None:
        self._pace.note(now_s, step.done)
        for amount in step.also:
            self._also.setdefault(amount.unit, Pace()).note(now_s, amount.done)

    def text(self, step: Step, *, has_bar: bool) -> str:
        also = [self._also[amount.unit].per_s for amount in step.also]
        return progress_text(step, self._pace.per_s, also, has_bar=has_bar)


def progress_text(
    step: Step, per_s: float | None, also_per_s: Sequence[float | None] = (), *, has_bar: bool
) -> str:
    """Format a progress line.

    Example: `orders: copying [#####...............] 25 %, 1.2k of 4.8k records, 310/s, 11 s left`.

    Args:
        step: The task.
        per_s: The rate of the task; None if it is not known.
        also_per_s: The rate of each of `step.also`.
        has_bar: Whether to draw a bar.
    """
    parts = list[str]()
    if step.part is not None:
        filled = int(_BAR * step.part)
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if has_bar else ""
        parts.append(f"{bar}{share(step.part)}")
    parts.append(_amount(step))
    if per_s is not None and not step.also:
        parts.append(_rate(per_s, step.unit))
    for amount, its_per_s in zip(step.also, also_per_s, strict=True):
        rate = "" if its_per_s is None else f" ({_rate(its_per_s, amount.unit)})"
        parts.append(f"{_counted(amount.done, amount.unit)}{rate}")
    if per_s and step.total is not None and step.done < step.total:
        parts.append(f"{duration((step.total - step.done) / per_s)} left")
    if step.more:
        parts.append(step.more)
    return f"{step.what}: {', '.join(parts)}"


def _amount(step: Step) -> str:
    done_text = _counted(step.done, step.unit)
    if step.total is None:
        return done_text
    done = done_text if step.unit == "B" else short(step.done)
    return f"{done} of {_counted(step.total, step.unit)}"


def _counted(number: float, unit: str) -> str:
    return short(number, "B") if unit == "B" else f"{short(number)} {unit}"


def _rate(per_s: float, unit: str) -> str:
    return f"{short(per_s, 'B' if unit == 'B' else '')}/s"


class ProgressLine:
    """Writer of permanent lines and, below them, a progress line.

    Several tasks may share the line; each has its own `what`.

    Args:
        out: The output stream.
        style: The style of the stream.
        clock: Monotonic clock, in seconds.
        room: Returns the current columns of the terminal.
        lock: Held during each write, because several threads write.
        prefix: Text before every line.
        is_quiet: Whether to write only essential lines.
    """

    def __init__(
        self,
        out: TextIO,
        style: Style,
        clock: Callable[[], float],
        room: Callable[[], int],
        lock: AbstractContextManager[object],
        prefix: str = "",
        *,
        is_quiet: bool = False,
    ) -> None:
        self._out, self._style, self._clock, self._room = out, style, clock, room
        self._lock, self._prefix, self._is_quiet = lock, prefix, is_quiet
        self._courses: dict[str, _TaskProgress] = {}
        self._what, self._since_s, self._drawn = "", float("-inf"), ""

    @property
    def is_terminal(self) -> bool:
        """Return whether the stream can redraw a line."""
        return self._style.is_terminal

    def say(self, line: str) -> None:
        """Write a permanent line."""
        with self._lock:
            self._write(f"{self._erased()}{self._prefix}{one_line(line)}\n{self._drawn}")

    def note(self, line: str) -> None:
        """Write a permanent line unless the output is quiet."""
        if not self._is_quiet:
            self.say(line)

    def show(self, step: Step) -> None:
        """Update the progress line; the last state stays until `end`."""
        if self._is_quiet:
            return
        with self._lock:
            now_s, is_done = self._clock(), step.part == 1.0
            is_new = step.what not in self._courses
            course = self._courses.setdefault(step.what, _TaskProgress())
            course.note(now_s, step)
            is_end, course.is_done = is_done and not course.is_done, is_done
            if is_new or is_end or self._is_due(step.what, course, now_s):
                course.written_s = now_s
                self._show(step.what, course.text(step, has_bar=self.is_terminal), now_s)

    def end(self, what: str | None = None) -> None:
        """Erase the progress line; with `what`, only if the line shows this task."""
        with self._lock:
            if what is None:
                self._courses.clear()
            else:
                self._courses.pop(what, None)
            if self._drawn and what in (None, self._what):
                self._write(self._erased())
                self._what, self._drawn = "", ""

    def _is_due(self, what: str, course: _TaskProgress, now_s: float) -> bool:
        if not self.is_terminal:
            return now_s - course.written_s >= _LOG_EVERY_S
        is_other = what != self._what and bool(self._drawn)
        if is_other and now_s - self._since_s < _TURN_S:
            return False
        return now_s - course.written_s >= _REDRAW_EVERY_S

    def _show(self, what: str, text: str, now_s: float) -> None:
        if not self.is_terminal:
            self._write(f"{self._prefix}{one_line(text)}\n")
            return
        if what != self._what:
            self._what, self._since_s = what, now_s
        erased = self._erased()
        self._drawn = cut(f"{self._prefix}{text}", self._room() - 1)
        self._write(f"{erased}{self._drawn}")

    def _erased(self) -> str:
        return "\r\x1b[K" if self._drawn else ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
