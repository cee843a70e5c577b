"""Text, colours, tables, figures and progress for terminals. Pure: writes nothing but progress.

Text of any origin becomes one line of known width without control sequences: names of consumer
groups come from any Kafka client, and one may hold an escape sequence.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, TextIO, TypeAlias

_CUT = "…"
_MAX_MARKS = 2  # on one character: more would cover the lines above and below


# C0 without tab and newline, DEL, C1, ends of lines, and what turns the direction of text.
_ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_FURTHER_LINE = re.compile(r"\n(?=[^ \n])")


def escaped(text: str) -> str:
    r"""A whole output without control characters: each becomes `\u001b`, which JSON reads back.

    Newlines and tabs stay: the output itself has them.
    """
    if text.isprintable():
        return text
    return _ACTED_ON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    r"""The same of a text that is one line: it begins no other. An end of a line becomes `\n`."""
    return escaped(text).replace("\n", "\\n")


def indented(text: str) -> str:
    """The same of a text that may have more lines: none of those after the first looks like a line
    of its own."""
    return _FURTHER_LINE.sub("\n  ", escaped(text))


def shown(text: str) -> str:
    r"""The text without anything that a terminal acts on; that is written as `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    found, marks = list[str](), _MAX_MARKS  # none without a character before it
    for char in unicodedata.normalize("NFC", text):
        marks = marks + 1 if unicodedata.combining(char) else 0
        if char.isprintable() and marks <= _MAX_MARKS:
            found.append(char)
        else:
            found.append(char.encode("unicode_escape").decode())
    return "".join(found)


def width(text: str) -> int:
    """How many columns it takes. text: of `shown`."""
    return len(text) if text.isascii() else sum(map(_width, text))


def fitted(text: str, columns: int) -> str:
    """No more than so many columns: what is too long ends with an ellipsis. text: of `shown`."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    taken, left = list[str](), columns - 1
    for char in text:
        left -= _width(char)
        if left < 0:
            break
        taken.append(char)
    return "".join(taken) + _CUT


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Exactly so many columns. right: the text stands at the right."""
    cut = fitted(text, columns)
    space = " " * (columns - width(cut))
    return space + cut if right else cut + space


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# ---- Colours: only if the terminal has them and the user has not disabled them


class Ink(StrEnum):
    """What a text means; the value is its SGR parameters (ECMA-48)."""

    PLAIN = ""
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    HEAD = "1"
    CHOSEN = "1;7"
    FAINT = "2"


class Style(NamedTuple):
    """How to write to one stream. is_terminal: one that can move its cursor."""

    is_terminal: bool = False
    has_colours: bool = False

    def paint(self, text: str, ink: Ink) -> str:
        """The text in this ink, if there is any."""
        if not (self.has_colours and ink and text):
            return text
        return f"\x1b[{ink.value}m{text}\x1b[0m"


PLAIN = Style()


def style_of(environ: Mapping[str, str], *, is_terminal: bool) -> Style:
    """The style of a stream. TERM=dumb, or none at all, is no terminal; NO_COLOR takes the colours
    away (no-color.org)."""
    able = is_terminal and environ.get("TERM", "dumb") != "dumb"
    return Style(able, able and not environ.get("NO_COLOR"))


# ---- Figures with three digits, and counted nouns

_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_NONE = "-"  # also for what is no number


def short(number: float | None, unit: str = "") -> str:
    """`950`, `1.25k`, `12.5k`, `3.04M`; with a unit `1.25 kB`. None: `-`."""
    if number is None or not isfinite(number):
        return _NONE
    size, power = abs(number), 0
    while size >= 999.5 and power < len(_THOUSANDS) - 1:
        size, power = size / 1000, power + 1
    digits = 0 if power == 0 and (size >= 100 or size == int(size)) else _digits(size)
    text = f"{'-' if number < 0 else ''}{size:.{digits}f}"
    return f"{text} {_THOUSANDS[power]}{unit}" if unit else f"{text}{_THOUSANDS[power]}"


def counted(number: int, name: str, many: str = "") -> str:
    """`1 record`, `2 records`, `1,234 records`. many: where an s does not do."""
    return f"{number:,} {name if number == 1 else many or name + 's'}"


def share(part: float | None) -> str:
    """0.5 as `50 %`; None, of nothing: `-`."""
    if part is None or not isfinite(part):
        return _NONE
    digits = 1 if 0 < part < 0.0995 else 0
    return f"{100 * part:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """`42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. None: `-`."""
    if seconds is None or not isfinite(seconds):
        return _NONE
    whole = round(seconds)
    for size, name, below, lesser in (
        (86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def _digits(size: float) -> int:
    return 2 if size < 9.995 else 1 if size < 99.95 else 0


# ---- Tables: columns as wide as their contents, or as the terminal allows

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


# ---- Progress: one line that is rewritten on a terminal, else a line from time to time

_SPAN_S = 30.0  # of the rate: long enough for polls that are seconds apart
_LOG_EVERY_S = 10.0
_REDRAW_EVERY_S = 0.1
_TURN_S = 2.0  # of one of several that share a terminal's line
_BAR = 20  # characters


class Amount(NamedTuple):
    """How much of something. unit: what is counted, `B` for bytes."""

    done: float
    unit: str


class Step(NamedTuple):
    """What is done, in words, and how much of it.

    total: None = nobody knows.  unit: what is counted, `B` for bytes.  more: what else to say.
    also: what else is counted while that is done; then these have rates.
    """

    what: str
    done: float
    total: float | None
    unit: str
    more: str = ""
    also: Sequence[Amount] = ()

    @property
    def part(self) -> float | None:
        """0 to 1; None where there is no total. What grows while it is read is never beyond 1."""
        return min(1.0, self.done / self.total) if self.total else None


class Pace:
    """How fast it goes, over the last half minute. Time is that of any steady clock, in seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def note(self, now_s: float, done: float) -> None:
        """So much is done now. Less than before: it begins again."""
        seen = self._seen
        if seen and done < seen[-1][1]:
            seen.clear()
        seen.append((now_s, done))
        while len(seen) > 2 and seen[1][0] <= now_s - _SPAN_S:
            seen.popleft()

    @property
    def per_s(self) -> float | None:
        """None before the second note."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (then_s, before), (now_s, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now_s - then_s)


class _Course:
    """How one of those that share a line goes on: its paces, and when it was last written."""

    def __init__(self) -> None:
        self._pace, self._also = Pace(), dict[str, Pace]()
        self.written_s, self.is_done = float("-inf"), False

    def note(self, now_s: float, step: Step) -> None:
        self._pace.note(now_s, step.done)
        for one in step.also:
            self._also.setdefault(one.unit, Pace()).note(now_s, one.done)

    def text(self, step: Step, *, has_bar: bool) -> str:
        also = [self._also[one.unit].per_s for one in step.also]
        return progress_text(step, self._pace.per_s, also, has_bar=has_bar)


def progress_text(
    step: Step, per_s: float | None, also_per_s: Sequence[float | None] = (), *, has_bar: bool
) -> str:
    """`orders: copying [#####...............] 25 %, 1.2k of 4.8k records, 310/s, 11 s left`.

    also_per_s: of each of `step.also`.
    """
    parts = list[str]()
    if step.part is not None:
        filled = int(_BAR * step.part)
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if has_bar else ""
        parts.append(f"{bar}{share(step.part)}")
    parts.append(_amount(step))
    if per_s is not None and not step.also:
        parts.append(_rate(per_s, step.unit))
    for one, its_per_s in zip(step.also, also_per_s, strict=True):
        rate = "" if its_per_s is None else f" ({_rate(its_per_s, one.unit)})"
        parts.append(f"{_counted(one.done, one.unit)}{rate}")
    if per_s and step.total is not None and step.done < step.total:
        parts.append(f"{duration((step.total - step.done) / per_s)} left")
    if step.more:
        parts.append(step.more)
    return f"{step.what}: {', '.join(parts)}"


def _amount(step: Step) -> str:
    found = _counted(step.done, step.unit)
    if step.total is None:
        return found
    done = found if step.unit == "B" else short(step.done)
    return f"{done} of {_counted(step.total, step.unit)}"


def _counted(number: float, unit: str) -> str:
    return short(number, "B") if unit == "B" else f"{short(number)} {unit}"


def _rate(per_s: float, unit: str) -> str:
    return f"{short(per_s, 'B' if unit == 'B' else '')}/s"


class ProgressLine:
    """Writes to one stream: lines that stay, and below them how far it is. Several may share it,
    each with a `what` of its own.

    clock: steady seconds.  room: columns of the terminal now.  lock: is held while something is
    written, for threads share it.  prefix: of every line.  is_quiet: only what must be known.
    """

    def __init__(
        self, out: TextIO, style: Style, clock: Callable[[], float], room: Callable[[], int],
        lock: AbstractContextManager[object], prefix: str = "", *, is_quiet: bool = False,
    ) -> None:  # fmt: skip
        self._out, self._style, self._clock, self._room = out, style, clock, room
        self._lock, self._prefix, self._is_quiet = lock, prefix, is_quiet
        self._courses: dict[str, _Course] = {}
        self._what, self._since_s, self._drawn = "", float("-inf"), ""

    @property
    def is_terminal(self) -> bool:
        """Whether a line can be rewritten, so that it may be often."""
        return self._style.is_terminal

    def say(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._write(f"{self._erased()}{self._prefix}{one_line(line)}\n{self._drawn}")

    def note(self, line: str) -> None:
        """The same, of what is only good to know."""
        if not self._is_quiet:
            self.say(line)

    def show(self, step: Step) -> None:
        """How far it is now; the last one stays until `end`."""
        if self._is_quiet:
            return
        with self._lock:
            now_s, is_done = self._clock(), step.part == 1.0
            is_new = step.what not in self._courses
            course = self._courses.setdefault(step.what, _Course())
            course.note(now_s, step)
            is_end, course.is_done = is_done and not course.is_done, is_done
            if is_new or is_end or self._is_due(step.what, course, now_s):
                course.written_s = now_s
                self._show(step.what, course.text(step, has_bar=self.is_terminal), now_s)

    def end(self, what: str | None = None) -> None:
        """Take the line away. what: only if it is this one's."""
        with self._lock:
            if what is None:
                self._courses.clear()
            else:
                self._courses.pop(what, None)
            if self._drawn and what in (None, self._what):
                self._write(self._erased())
                self._what, self._drawn = "", ""

    def _is_due(self, what: str, course: _Course, now_s: float) -> bool:
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
