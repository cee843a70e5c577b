"""Processes whose wall clock jumps, by libfaketime (Debian's package of that name)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_NAME = "libfaketime.so.1"
_INSTALLED = "*-linux-gnu/faketime/" + _NAME


class FakeTime:
    """A clock of the processes that are started with `environment`. Its monotonic one is real."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.jump(0)

    @staticmethod
    def found(file: Path) -> FakeTime | None:
        """With the library of this machine, else with one from Debian's archive, if it is there.

        file: says how far the clock is off.
        """
        library = _library()
        return FakeTime(library, file) if library else None

    def jump(self, off_s: int) -> None:
        """Be so many seconds ahead of the real time, negative: behind it."""
        part = self._file.with_suffix(".part")  # nobody may read half of it
        part.write_text(f"{off_s:+d}\n")
        part.rename(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def _library() -> Path | None:
    installed = next(Path("/usr/lib").glob(_INSTALLED), None)
    if installed is not None:
        return installed
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headgate" / "debian"
    if not list(folder.rglob(_NAME)) and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        folder.mkdir(parents=True, exist_ok=True)
        quiet = {"cwd": folder, "capture_output": True, "timeout": 120}
        subprocess.run(["apt-get", "download", "libfaketime"], check=False, **quiet)
        for package in folder.glob("libfaketime_*.deb"):
            subprocess.run(["dpkg-deb", "-x", package.name, "."], check=False, **quiet)
    return next(folder.rglob(_NAME), None)
