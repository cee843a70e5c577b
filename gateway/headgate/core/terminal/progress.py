"""How far something long is: one line that is rewritten on a terminal, else a line at times."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TextIO

from headgate.core.terminal.figures import duration, share, short
from headgate.core.terminal.style import Style
from headgate.core.terminal.table import cut
from headgate.core.terminal.text import one_line

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
