"""The seconds that each test file takes, for an equal share of them on every worker.

`seconds.txt`, beside the README of the tests, has the files that take long.
`make test WRITE_SECONDS=1` measures them again.
"""

from __future__ import annotations

from collections import Counter

import pytest

from support.root import ROOT

FILE = ROOT / "tests" / "seconds.txt"
DEFAULT = 3  # a file that is not listed


def read() -> dict[str, int]:
    """Return the listed files, below `tests/`, with their seconds."""
    pairs = (line.split() for line in FILE.read_text().splitlines())
    return {path: int(seconds) for seconds, path in pairs}


class Recorder:
    """Adds up the seconds of each file's tests, in the process that receives all reports."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0].removeprefix("tests/")] += report.duration

    def pytest_sessionfinish(self) -> None:
        listed = [(round(took), path) for path, took in self._seconds.most_common()]
        lines = (f"{took:4} {path}\n" for took, path in listed if took > DEFAULT)
        FILE.write_text("".join(lines))
