"""Packages in environments of their own, with the programs that are locked for releases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.root import ROOT

_CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
}


def run(*command: str | Path, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that sees nothing of this environment."""
    given = {name: str(value) for name, value in environment.items()}
    return subprocess.run(
        [*map(str, command)], env={**_CLEAN, **given}, capture_output=True, text=True,
        timeout=1200, check=False,
    )  # fmt: skip


def done(*command: str | Path, **environment: str | Path) -> str:
    """Run one that has to succeed; return what it printed."""
    ended = run(*command, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def release_tools(folder: Path) -> Path:
    """Install pipx and uv; return where they are."""
    done(sys.executable, "-m", "venv", folder)
    lock = ROOT / "requirements-release.lock"
    done(folder / "bin/python", "-m", "pip", "-q", "install", "--require-hashes", "-r", lock)
    return folder / "bin"


def copy_of_sources(folder: Path, under: str = ".") -> Path:
    """Copy what is committed or about to be, as `make dist` finds it; return the folder."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", under)
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder / under
