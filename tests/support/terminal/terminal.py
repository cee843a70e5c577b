"""A command on a real pseudo-terminal, and what is on its screen."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from headgate.commands.terminal import width
from support.process.stack import PATIENCE

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    """The few sequences that our programs write; all others are kept as `foreign`."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.modes = {"25": True, "7": True, "1049": False}  # cursor, wrapping, second screen
        self.foreign: list[str] = []
        self.inks: set[str] = set()
        self.is_overrun = False  # something was written beyond the right edge
        self._rest = ""

    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        kept = [row[:columns] + [" "] * (columns - len(row)) for row in self.cells[:rows]]
        self.cells = kept + [[" "] * columns for _ in range(rows - len(kept))]
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None and len(text) - at < 16:
                    self._rest = text[at:]  # its end has yet to come
                    return
                if found is None:
                    self.foreign.append(text[at : at + 16])
                    at += 1
                    continue
                self._act(*found.groups())
                at = found.end()
                continue
            self._write(char)
            at += 1

    def _act(self, private: str, given: str, final: str) -> None:
        numbers = [int(one) for one in given.split(";") if one]
        if private and final in "hl" and given in self.modes:
            self.modes[given] = final == "h"
        elif private:
            self.foreign.append(f"?{given}{final}")
        elif final == "m":
            self.inks.add(given)
        elif final == "H":
            row, column = (*numbers, 1, 1)[:2]
            self.row, self.column = min(row, self.rows) - 1, min(column, self.columns) - 1
        elif final == "K" and not numbers:
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
        elif final == "J" and numbers in ([], [2]):
            first = 0 if numbers else self.row + 1
            for row in range(first, self.rows):
                self.cells[row] = [" "] * self.columns
            if not numbers:
                self._act("", "", "K")
        else:
            self.foreign.append(f"{given}{final}")

    def _write(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            if self.row == self.rows - 1:
                self.cells = [*self.cells[1:], [" "] * self.columns]
            else:
                self.row += 1
        elif not char.isprintable():
            self.foreign.append(char)
        else:
            room = width(char)
            if self.column + room > self.columns:
                self.is_overrun = True
                self.column = self.columns - room
            if room:
                self.cells[self.row][self.column] = char
                if room == 2:
                    self.cells[self.row][self.column + 1] = ""
                self.column += room


class Terminal:
    """A command whose three streams are one terminal. Use it as a context: it ends the command."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = 80,
        rows: int = 24,
    ) -> None:  # fmt: skip
        self._leader, self._follower = pty.openpty()  # the latter is kept: its settings are asked
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.screen = Screen(columns, rows)
        self.written = ""
        self._set_size()
        self.settings_before = termios.tcgetattr(self._follower)
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR",)}
        self.process = subprocess.Popen(
            command, stdin=self._follower, stdout=self._follower, stderr=self._follower,
            env={**kept, "TERM": "xterm-256color", **environment}, start_new_session=True,
            preexec_fn=self._make_controlling,
        )  # fmt: skip

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._leader)
        os.close(self._follower)

    @property
    def settings(self) -> list[object]:
        return list(termios.tcgetattr(self._follower))

    def type(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(columns, rows)
        self._set_size()

    def until(self, is_so: Callable[[Screen], object], deadline_s: float = 20.0) -> Screen:
        """Read until the screen is so. deadline_s: on an idle machine."""
        end = time.monotonic() + deadline_s * PATIENCE
        while not is_so(self.screen):
            assert time.monotonic() < end, self.screen.text
            self._read(0.1)
        return self.screen

    def shows(self, text: str) -> Screen:
        """Read until the text is on the screen."""
        return self.until(lambda screen: text in screen.text)

    def ended(self, deadline_s: float = 20.0) -> int:
        """Read until the command has ended; its exit code."""
        self.until(lambda _: self.process.poll() is not None, deadline_s)
        while self._read(0.0):
            pass
        return self.process.returncode

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._leader], [], [], timeout_s)[0]:
            return False
        data = b""
        with suppress(OSError):  # EIO: the other end is closed
            data = os.read(self._leader, 65536)
        text = self._decoder.decode(data)
        self.written += text
        self.screen.feed(text)
        return bool(data)

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0)
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, size)

    def _make_controlling(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # ctrl-c and sizes come from here
        signal.signal(signal.SIGINT, signal.SIG_DFL)
