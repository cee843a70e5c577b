"""Run one step of `make` quietly: one line, its progress, and the end of its log if it fails.

`step.py NAME TITLE COMMAND...` prints the title and writes all output of the command to
build/logs/NAME.log. `{packages}` in the title is the number of packages that `pip install -r FILE`
will add. With VERBOSE=1 all output is shown, too. With PLAIN=1, or without a terminal, progress is
a line every ten seconds.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

LOGS = Path("build/logs")
LAST_LINES = 20
LINE_LENGTH = 200  # pip lists all versions of a package in one line
# The addresses of a package index or a mirror stay out of the output and the log.
_ADDRESS = re.compile(r"https?://\S*/")
_HOST = re.compile(r"(?<=host=)'[^']*'")
_INDEXES = re.compile(r"\s*Looking in (indexes|links):")
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)
_COMPILED = re.compile(r"\s*headgate: (compiled \d+ of \d+ files)")
_COLLECTING = re.compile(r"\s*Collecting ([A-Za-z0-9][\w.-]*)")


def missing_packages(command: list[str]) -> set[str]:
    """Return the names of the packages that `pip install -r FILE` adds to an environment."""
    if "-r" not in command:
        return set()
    pins = _PIN.findall(Path(command[command.index("-r") + 1]).read_text())
    installed = set()
    if "--target" not in command:
        folders = Path(command[0]).parent.parent.glob("lib/python*/site-packages/*.dist-info")
        installed = {_normalized(folder.name.removesuffix(".dist-info")) for folder in folders}
    return {
        _normalized(name)
        for name, version in pins
        if _normalized(f"{name}-{version}") not in installed
    }


def _without_addresses(line: str) -> str:
    return _HOST.sub("'...'", _ADDRESS.sub("", line))


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Step:
    """One step with its log and its progress.

    Args:
        name: Name of the log.
        title: What the step does, for people.
        command: The command.
    """

    def __init__(self, name: str, title: str, command: list[str]) -> None:
        self._missing = missing_packages(command)
        count = len(self._missing)
        packages = f"{count} package" if count == 1 else f"{count} packages"
        self._title = title.replace("{packages}", packages)
        self._command = command
        self._log = LOGS / f"{name}.log"
        self._is_verbose = os.environ.get("VERBOSE", "") not in {"", "0"}
        is_plain = self._is_verbose or os.environ.get("PLAIN") or not sys.stderr.isatty()
        self._is_live = not is_plain  # rewrites the line of its progress
        self._collected: set[str] = set()
        self._phase = ""
        self._start_s = time.monotonic()
        self._ended = threading.Event()

    def run(self) -> int:
        """Run the command; return its exit code."""
        sys.stderr.write(f"setup: {self._title}\n")
        sys.stderr.flush()
        LOGS.mkdir(parents=True, exist_ok=True)
        watch = threading.Thread(target=self._show_progress, daemon=True)
        watch.start()
        try:
            with self._log.open("w") as log:
                code = self._execute(log)
        except KeyboardInterrupt:
            code = 130
        self._ended.set()
        watch.join()
        if self._is_live:
            self._rewrite("")
        if code == 130:
            sys.stderr.write("setup: interrupted; the same command continues\n")
        elif code:
            self._explain(code)
        return code

    def _execute(self, log: TextIO) -> int:
        self._write(log, f"$ {shlex.join(self._command)}\n")
        try:
            process = subprocess.Popen(
                self._command,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "HEADGATE_STEP": "1"},
                text=True,
                errors="replace",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            self._write(log, f"{error}\n")
            return 127
        with process:
            for line in process.stdout or ():
                self._follow(line)
                if not _INDEXES.match(line):
                    self._write(log, _without_addresses(line))
        return process.returncode

    def _follow(self, line: str) -> None:
        """Read the progress from a line of pip or setup.py."""
        if collecting := _COLLECTING.match(line):
            self._collected.add(_normalized(collecting[1]))
            found = len(self._collected & self._missing)
            self._phase = f"{found} of {len(self._missing)} found"
        elif line.startswith("Installing collected packages"):
            self._phase = "copying files"
        elif compiled := _COMPILED.match(line):
            self._phase = compiled[1]

    def _write(self, log: TextIO, line: str) -> None:
        log.write(line)
        log.flush()
        if self._is_verbose:
            sys.stderr.write(line)

    def _show_progress(self) -> None:
        while not self._ended.wait(1 if self._is_live else 10):
            if self._is_live:
                self._rewrite(f"setup:   {self._progress()}")
            elif not self._is_verbose:
                sys.stderr.write(f"setup:   {self._progress()}\n")
                sys.stderr.flush()

    def _progress(self) -> str:
        return f"{self._phase}, {self._seconds()} s" if self._phase else f"{self._seconds()} s"

    def _seconds(self) -> int:
        return round(time.monotonic() - self._start_s)

    def _rewrite(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def _explain(self, code: int) -> None:
        if not self._is_verbose:
            lines = self._log.read_text(errors="replace").splitlines()[1:]
            for line in lines[-LAST_LINES:]:
                is_long = len(line) > LINE_LENGTH
                sys.stderr.write(f"  | {line[:LINE_LENGTH]}{' ...' if is_long else ''}\n")
        sys.stderr.write(
            f"setup: failed ({code}): {self._title}\nsetup: the full log is {self._log}; "
            "VERBOSE=1 shows it while it is written\n"
        )


if __name__ == "__main__":
    name, title, *command = sys.argv[1:]
    sys.exit(Step(name, title, command).run())
