"""The terminal while it shows a full screen: set, read, resized, and given back as it was."""

import os
import re
import select
import signal
import sys
import termios
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

from headgate.top.frame import Room

# Its second screen, where nothing scrolls away; no cursor; what is too long is cut, not wrapped.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CAUGHT = (*_ENDS, signal.SIGWINCH, signal.SIGTSTP)
_SMALLEST = Room(80, 24)  # where the terminal does not say


class Happened(NamedTuple):
    """What has come while it waited. keys: characters, or sequences as xterm sends them."""

    keys: list[str]
    is_over: bool = False


class Screen:
    """The terminal of standard input and output. As a context: whatever ends it, the terminal is
    what it was; and while it is stopped (ctrl-z), too."""

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
        self._handlers = {one: signal.signal(one, self._signalled) for one in _CAUGHT}
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
        """The size now."""
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._output)
            if columns and rows:
                return Room(columns, rows)
        return _SMALLEST

    def draw(self, lines: list[str]) -> None:
        """Show these lines, from the top; no line is wider than the screen."""
        ended = f"{_LINE_END}\r\n".join(lines)
        text = f"{_HOME}{ended}{_REST if len(lines) < self.room.rows else _LINE_END}"
        if text != self._drawn:
            self._write(text)
            self._drawn = text

    def wake(self) -> None:
        """End the wait; for another thread."""
        with suppress(OSError):  # full: it wakes up anyway
            os.write(self._waker, b"\0")

    def wait(self, seconds: float) -> Happened:
        """Until a key, a signal, `wake`, or so long."""
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
        with suppress(OSError, termios.error):  # the terminal has gone: nothing to give back
            self._write(_LEAVE)
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)

    def _suspend(self) -> None:
        self._is_suspended = False
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)  # and behind it, once it is continued
        self._enter()

    def _signalled(self, number: int, _: FrameType | None) -> None:
        self._is_over |= number in _ENDS
        self._is_suspended |= number == signal.SIGTSTP
        self._drawn = ""  # another size: nothing is where it was

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while data:
            data = data[os.write(self._output, data) :]
