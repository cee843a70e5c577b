"""The live table: one thread polls the gateway, the other shows the result and reads keys."""

import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from queue import SimpleQueue
from threading import Event, Thread
from types import FrameType
from typing import Any, NamedTuple

from headgate.commands.terminal import Style
from headgate.top.readings import Reading, View, kept
from headgate.top.views import (
    SORT_KEYS,
    SORTS,
    VIEW_KEYS,
    Room,
    Shown,
    Sort,
    Trouble,
    frame,
    rows_in,
)

# The alternate screen, without scrolling; no cursor; long lines are cut, not wrapped.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CAUGHT = (*_ENDS, signal.SIGWINCH, signal.SIGTSTP)
_SMALLEST = Room(80, 24)  # default without a known size


class Happened(NamedTuple):
    """Input since the last wait; keys are characters or xterm's sequences."""

    keys: list[str]
    is_over: bool = False


class Screen:
    """The terminal of standard input and output.

    As a context it restores the terminal at the end, whatever ends it, and while the process is
    stopped (ctrl-z).
    """

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._is_over = self._is_suspended = False
        self._drawn = ""
        self._woken, self._waker = os.pipe()

    def __enter__(self) -> "Screen":
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, self._signalled) for number in _CAUGHT}
        self._before = termios.tcgetattr(self._input)
        self._enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)

    @property
    def room(self) -> Room:
        """Return the current size."""
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._output)
            if columns and rows:
                return Room(columns, rows)
        return _SMALLEST

    def draw(self, lines: list[str]) -> None:
        """Draw these lines from the top; no line is wider than the screen."""
        ended = f"{_LINE_END}\r\n".join(lines)
        text = f"{_HOME}{ended}{_REST if len(lines) < self.room.rows else _LINE_END}"
        if text != self._drawn:
            self._write(text)
            self._drawn = text

    def wake(self) -> None:
        """End the wait; for another thread."""
        with suppress(OSError):  # a full pipe wakes it anyway
            os.write(self._waker, b"\0")

    def wait(self, seconds: float) -> Happened:
        """Wait for a key, a signal or `wake`, at most for so many seconds."""
        ready, _, _ = select.select([self._input, self._woken], [], [], seconds)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._is_suspended:
            self._suspend()
        keys = list[str]()
        if self._input in ready:
            with suppress(OSError):  # the terminal has gone
                data = os.read(self._input, 1024)
                keys = _KEY.findall(data.decode(errors="replace"))
                self._is_over |= not data
        return Happened(keys, self._is_over)

    def _enter(self) -> None:
        changed = termios.tcgetattr(self._input)
        changed[3] &= ~(termios.ICANON | termios.ECHO)  # key by key; ctrl-c stays a signal
        changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._input, termios.TCSADRAIN, changed)
        self._write(_ENTER)
        self._drawn = ""

    def _leave(self) -> None:
        with suppress(OSError, termios.error):  # the terminal has gone: nothing to restore
            self._write(_LEAVE)
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)

    def _suspend(self) -> None:
        self._is_suspended = False
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)  # continues here after SIGCONT
        self._enter()

    def _signalled(self, number: int, _: FrameType | None) -> None:
        self._is_over |= number in _ENDS
        self._is_suspended |= number == signal.SIGTSTP
        self._drawn = ""  # a new size invalidates the drawing

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while data:
            data = data[os.write(self._output, data) :]


_TICK_S = 1.0  # the time without an answer is shown by the second
_QUIT = "q"
_STEPS = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES = {" ": 1, "\x1b[6~": 1, "\x1b[5~": -1}
_FIRST = ("\x1b[H", "\x1b[1~", "\x1bOH")


class NoAnswerError(Exception):
    """A poll that failed; the text has the reason."""


Poll = Callable[[View], Reading]


class Options(NamedTuple):
    """The options of the command; without `sort` the view's first order applies."""

    url: str
    view: View = View.PRODUCERS
    sort: Sort | None = None
    interval_s: float = 2.0


class _Answer(NamedTuple):
    """The result of a poll; an unexpected error, too, so that it is not lost with its thread."""

    view: View
    result: Reading | Exception


class _Asking(Thread):
    """A thread that polls the wanted view, and at once after a change. It ends with the process."""

    def __init__(self, poll: Poll, view: View, interval_s: float, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="asking")
        self._poll, self._interval_s, self._wake = poll, interval_s, wake
        self._view, self._again = view, Event()
        self.answers = SimpleQueue[_Answer]()

    def want(self, view: View) -> None:
        self._view = view
        self._again.set()

    def run(self) -> None:
        while True:
            self._again.clear()
            view = self._view
            try:
                self.answers.put(_Answer(view, self._poll(view)))
            except Exception as error:  # `Session.take` raises it again
                self.answers.put(_Answer(view, error))
            self._wake()
            self._again.wait(self._interval_s)


class Session:
    """The shown tables, and the effects of keys."""

    def __init__(self, options: Options) -> None:
        self._options, self.view = options, options.view
        self._sorts = {view: sorts[0] for view, sorts in SORTS.items()}
        self._readings: dict[View, list[Reading]] = {view: [] for view in View}
        self._at: dict[View, datetime] = {}
        self._trouble: Trouble | None = None
        self._first = 0
        if options.sort is not None:
            self._sorts[options.view] = options.sort

    def take(self, view: View, result: Reading | Exception) -> None:
        """Add the result of a poll; raise an unexpected error."""
        now = datetime.now().astimezone()
        if isinstance(result, NoAnswerError):
            since = self._trouble or Trouble("", time.monotonic(), now)
            self._trouble = since._replace(text=str(result))
            return
        if isinstance(result, Exception):
            raise result
        self._trouble = None
        self._readings[view] = kept(self._readings[view], result)
        self._at[view] = now

    def press(self, key: str, rows: int) -> bool:
        """Apply a key; return False to quit. `rows` is the number of rows on the screen."""
        count = len(self._newest.names) if self._newest else 0
        if key in VIEW_KEYS and VIEW_KEYS[key] is not self.view:
            self.view, self._first, self._trouble = VIEW_KEYS[key], 0, None
        elif SORT_KEYS.get(key) in SORTS[self.view]:
            self._sorts[self.view] = SORT_KEYS[key]
        elif key in _STEPS or key in _PAGES:
            steps = _STEPS.get(key, 0) + _PAGES.get(key, 0) * rows
            self._first = max(0, min(self._first + steps, count - rows))
        elif key in _FIRST:
            self._first = 0
        return key != _QUIT

    @property
    def shown(self) -> Shown:
        """Return the complete content of the screen."""
        count = len(self._newest.names) if self._newest else 0
        first = min(self._first, max(0, count - 1))  # the number of rows may have dropped
        return Shown(
            url=self._options.url,
            view=self.view,
            sort=self._sorts[self.view],
            interval_s=self._options.interval_s,
            readings=self._readings[self.view],
            at=self._at.get(self.view),
            trouble=self._trouble,
            first=first,
        )

    @property
    def _newest(self) -> Reading | None:
        readings = self._readings[self.view]
        return readings[-1] if readings else None


def run_live(options: Options, poll: Poll, style: Style) -> None:
    """Show the live table until q, ctrl-c, SIGTERM or the terminal's end.

    Args:
        options: The options of the command.
        poll: Returns the reading of a view, or raises NoAnswerError.
        style: Style of the terminal.
    """
    session = Session(options)
    with Screen() as screen:
        asking = _Asking(poll, session.view, options.interval_s, screen.wake)
        asking.start()
        while True:
            room = screen.room
            now = datetime.now().astimezone()
            screen.draw(frame(session.shown, room, style, now, time.monotonic()))
            happened = screen.wait(_TICK_S)
            if happened.is_over:
                return
            view = session.view
            if not all(session.press(key, rows_in(session.shown, room)) for key in happened.keys):
                return
            if session.view is not view:
                asking.want(session.view)
            while not asking.answers.empty():
                session.take(*asking.answers.get())
