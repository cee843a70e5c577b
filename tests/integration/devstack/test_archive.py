"""The archive of the sources installs with what users have, and what they try first works."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.process.installing import copy_of_sources, done, release_tools, run

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

LIMIT_MB = 130


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that are locked for releases: pipx, uv."""
    return release_tools(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def archive(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of what is committed or about to be, as `make dist` does."""
    there = tmp_path_factory.mktemp("dist")
    sources = copy_of_sources(tmp_path_factory.mktemp("sources"))
    done(tools / "uv", "build", "--quiet", "--sdist", "--out-dir", there, sources)
    return next(there.glob("headgate-*.tar.gz"))


def size_mb(folder: Path) -> float:
    files = (one for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
    return sum(one.stat().st_blocks * 512 for one in files) / 1e6


def interpreter(version: str) -> str:
    """A Python of this version: on the path, or where pyenv keeps its own."""
    named = shutil.which(f"python{version}")
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for one in (named, *sorted(kept.glob(f"{version}.*/bin/python"))):
        # what pyenv puts on the path runs only the versions that were chosen
        if one and run(one, "-c", "import ensurepip, venv").returncode == 0:
            return str(one)
    pytest.skip(f"no Python {version}")


@pytest.mark.parametrize(
    ("version", "tool"),
    [("3.11", "pip"), ("3.12", "pip"), ("3.13", "pip"), ("3.12", "pipx"), ("3.13", "uv")],
)
def test_archive(tools: Path, archive: Path, tmp_path: Path, version: str, tool: str) -> None:
    python, place, programs = interpreter(version), tmp_path / "env", tmp_path / "bin"
    if tool == "pip":
        done(python, "-m", "venv", place)
        done(place / "bin/python", "-m", "pip", "-q", "install", archive)
        programs = place / "bin"
    elif tool == "pipx":
        own = {"PIPX_HOME": place, "PIPX_BIN_DIR": programs, "PIPX_MAN_DIR": tmp_path / "man"}
        done(tools / "pipx", "install", "--python", python, archive, **own)
    else:
        own = {"UV_TOOL_DIR": place, "UV_TOOL_BIN_DIR": programs, "UV_CACHE_DIR": tmp_path / "c"}
        done(tools / "uv", "tool", "install", "--python", python, archive, **own)

    headgate = programs / "headgate"
    assert f"native code: c, hot path: mypyc, Python {version}." in done(headgate, "--version")
    if tool == "pip":
        assert size_mb(place) <= LIMIT_MB
    config = tmp_path / "headgate.toml"
    config.write_text('[clusters.main]\nbootstrap_servers = ["127.0.0.1:1"]\n[topics.orders]\n')
    assert "is valid" in done(headgate, "check", "--config", config)
    served = run(headgate, "serve", "--config", tmp_path / "none.toml")
    assert (served.returncode, "Traceback" in served.stderr) == (2, False)
    lacking = run(headgate, "dev", "--state", tmp_path / "state")
    assert lacking.returncode == 1
    assert lacking.stderr.count("\n") == 1
    assert "pip install 'headgate[dev]'" in lacking.stderr or "Java" in lacking.stderr
