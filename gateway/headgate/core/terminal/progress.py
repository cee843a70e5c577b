"""How far something long is: one line that is rewritten on a terminal, else a line at times."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, TextIO

from headgate.core.terminal.figures import duration, share, short
from headgate.core.terminal.style import Style
from headgate.core.terminal.table import cut

_SPAN_S = 30.0  # of the rate: long enough for polls that are seconds apart
_LOG_EVERY_S = 10.0
_REDRAW_EVERY_S = 0.1
_BAR = 20  # characters


class Step(NamedTuple):
    """What is done, in words, and how much of it.

    total: None = nobody knows.  unit: what is counted, `B` for bytes.  more: what else to say.
    """

    what: str
    done: float
    total: float | None
    unit: str
    more: str = ""

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


def progress_text(step: Step, per_s: float | None, *, has_bar: bool) -> str:
    """`orders: copying [#####...............] 25 %, 1.2k of 4.8k records, 310/s, 11 s left`."""
    parts = list[str]()
    if step.part is not None:
        filled = int(_BAR * step.part)
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if has_bar else ""
        parts.append(f"{bar}{share(step.part)}")
    parts.append(_amount(step))
    if per_s is not None:
        parts.append(f"{short(per_s, 'B' if step.unit == 'B' else '')}/s")
    if per_s and step.total is not None and step.done < step.total:
        parts.append(f"{duration((step.total - step.done) / per_s)} left")
    if step.more:
        parts.append(step.more)
    return f"{step.what}: {', '.join(parts)}"


def _amount(step: Step) -> str:
    if step.unit == "B":
        done, total, unit = short(step.done, "B"), short(step.total, "B"), ""
    else:
        done, total, unit = short(step.done), short(step.total), f" {step.unit}"
    return f"{done}{unit}" if step.total is None else f"{done} of {total}{unit}"


class ProgressLine:
    """Writes to one stream: lines that stay, and below them how far it is.

    clock: steady seconds.  room: columns of the terminal now.  lock: is held while something is
    written, for threads share it.  prefix: of every line.
    """

    def __init__(
        self, out: TextIO, style: Style, clock: Callable[[], float], room: Callable[[], int],
        lock: AbstractContextManager[object], prefix: str = "",
    ) -> None:  # fmt: skip
        self._out, self._style, self._clock, self._room = out, style, clock, room
        self._lock, self._prefix, self._pace = lock, prefix, Pace()
        self._what, self._written_s, self._is_done, self._drawn = "", float("-inf"), False, ""

    @property
    def is_terminal(self) -> bool:
        """Whether a line can be rewritten, so that it may be often."""
        return self._style.is_terminal

    def say(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._write(f"{self._erased()}{self._prefix}{line}\n{self._drawn}")

    def show(self, step: Step) -> None:
        """How far it is now; the last one stays until `end`."""
        with self._lock:
            now_s, is_done = self._clock(), step.part == 1.0
            is_new = step.what != self._what
            if is_new:
                self._pace, self._what, self._is_done = Pace(), step.what, False
            self._pace.note(now_s, step.done)
            every_s = _REDRAW_EVERY_S if self.is_terminal else _LOG_EVERY_S
            is_end = is_done and not self._is_done
            if not (is_new or is_end) and now_s - self._written_s < every_s:
                return
            self._written_s, self._is_done = now_s, is_done
            text = progress_text(step, self._pace.per_s, has_bar=self.is_terminal)
            if not self.is_terminal:
                self._write(f"{self._prefix}{text}\n")
                return
            erased = self._erased()
            self._drawn = cut(f"{self._prefix}{text}", self._room() - 1)
            self._write(f"{erased}{self._drawn}")

    def end(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._drawn:
                self._write(self._erased())
            self._what, self._drawn = "", ""

    def _erased(self) -> str:
        return "\r\x1b[K" if self._drawn else ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
