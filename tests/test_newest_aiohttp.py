"""The step of `make test-full` that runs suites with a newer aiohttp than the installed one."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from support.root import ROOT

COMMAND = (sys.executable, "-c", "import aiohttp; print('ran with', aiohttp.__version__)")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder that stands for the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


def offer(index: Path, number: str) -> None:
    """Add an aiohttp that consists of its version."""
    info = f"aiohttp-{number}.dist-info"
    with zipfile.ZipFile(index / f"aiohttp-{number}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("aiohttp/__init__.py", f"__version__ = {number!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: aiohttp\nVersion: {number}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def run(index: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "TMPDIR": str(index.parent)
    }  # fmt: skip
    script = str(ROOT / ".ci" / "newest_aiohttp.py")
    return subprocess.run(
        [sys.executable, script, *command],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_a_newer_version_is_used_by_the_command_alone(index: Path) -> None:
    for number in (version("aiohttp"), "3.9999.1", "4.0.0"):
        offer(index, number)
    result = run(index, *COMMAND)
    assert result.returncode == 0, result.stderr
    assert "aiohttp 3.9999.1 is the newest of" in result.stdout
    assert "ran with 3.9999.1" in result.stdout
    assert [path.name for path in index.parent.iterdir()] == ["index"]


def test_the_command_does_not_run_twice_with_the_same_version(index: Path) -> None:
    offer(index, version("aiohttp"))
    result = run(index, *COMMAND)
    assert result.returncode == 0, result.stderr
    assert f"aiohttp {version('aiohttp')} is the newest of" in result.stdout
    assert "ran with" not in result.stdout


def test_a_command_that_fails_and_an_index_without_answer_are_failures(index: Path) -> None:
    assert run(index, *COMMAND).returncode != 0
    offer(index, "3.9999.1")
    assert run(index, sys.executable, "-c", "raise SystemExit(3)").returncode == 3
