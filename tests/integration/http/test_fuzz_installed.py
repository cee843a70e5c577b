"""What `make fuzz` searches for, on the build that is installed, for some seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.root import ROOT

PATH = os.pathsep.join(str(ROOT / folder) for folder in ("spark", "tests", "loadtest", "docs"))
SEARCHES = ["tests/unit/http/test_requests_fuzz.py", "tests/unit/native/test_scanner.py"]


def run(*words: str) -> str:
    """What a Python says that imports the installed build, as tests do not."""
    return subprocess.run(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": PATH}, cwd=ROOT,
        stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    ).stdout  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("search", SEARCHES)
def test_nothing_is_found_in_some_seconds(search: str) -> None:
    if "native code: c" not in run("-m", "headgate", "--version"):
        pytest.skip("no native code is installed")
    said = run(search, "--seconds", "20")
    counts = re.search(r"([\d,]+) tried, ([\d,]+) accepted .* ([\d,]+) compared, 0 failed", said)
    assert counts is not None, said
    tried, accepted, compared = (int(count.replace(",", "")) for count in counts.groups())
    assert tried / 20 < accepted == compared < tried / 2
