"""A topic of many partitions over a week: two million cells, and a driver that has 512 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.root import ROOT

PARTITIONS, WINDOWS = 1000, 2016  # 7 days of 5 minutes
MAX_DRIVER_BYTES = 512 * 2**20
PROGRAM = ROOT / "tests" / "support" / "process" / "audit_of_cells.py"


@pytest.mark.full
def test_two_million_cells_fit_into_a_driver_of_512_mb(tmp_path: Path) -> None:
    """Java has 512 MB of heap, and the driver's Python stays below as much."""
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(PARTITIONS), str(WINDOWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)  # noqa: T201
    assert found["cells"] == PARTITIONS * WINDOWS
    assert found["records"] == PARTITIONS * WINDOWS
    assert found["python_max_bytes"] <= MAX_DRIVER_BYTES
    assert found["page_bytes"] <= 3_000_000
    assert found["diagnoses"] == []
