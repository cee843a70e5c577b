"""Wheels are compiled, and serve in an environment that has nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from support.process.stack import Gateway, RunningBroker
from support.root import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

OWN = "{}.{}".format(*sys.version_info)
BUILT_FROM = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
NATIVE = "native code: c, hot path: mypyc"
# Programs that tests start import the sources; these must not.
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], env={**CLEAN, **environment}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def python_of(version: str) -> str:
    """A Python that makes environments: of the PATH, or one of pyenv's. Skips where none is."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
    for place in filter(None, places):
        if run(place, "-c", "import ensurepip, venv").returncode == 0:
            return place
    pytest.skip(f"no Python {version}")


def pip(python: str | Path, *words: str | Path, **environment: str) -> None:
    done = run(python, "-m", "pip", "--disable-pip-version-check", "-q", *words, **environment)
    assert done.returncode == 0, done.stderr


def clean_environment(folder: Path, python: str) -> str:
    """Its Python: with the server's packages as they are locked, and no Headgate."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = (ROOT / "requirements.lock").read_text()
    pins = folder.with_suffix(".txt")  # without the hashes, which would ask for those of all
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", locked, re.MULTILINE)))
    assert run(python, "-m", "venv", "--without-pip", folder).returncode == 0
    there = folder / "bin" / "python"
    install(there, "-c", pins, *project["dependencies"])
    return str(there)


def install(python: Path, *words: str | Path) -> None:
    """Install with this environment's pip. Compiling all of it would take most of the time."""
    pip(sys.executable, "--python", python, "install", "--no-compile", *words)


@pytest.fixture
def serves_natively(
    tmp_path: Path, kafka: RunningBroker, topic: str, start_gateway: Callable[..., Gateway]
) -> Callable[[Path, str], None]:
    def check(wheel: Path, python: str) -> None:
        there = clean_environment(tmp_path / "clean", python)
        install(Path(there), "--no-deps", wheel)
        assert NATIVE in run(there, "-m", "headgate", "--version").stdout
        assert Path(there).parents[1].joinpath("share/man/man1/headgate.1").is_file()
        config = f"""
            [clusters.main]
            bootstrap_servers = ["{kafka.bootstrap}"]
            [topics.{topic}]
            key = ["/id"]
        """
        gateway = start_gateway(config, python=there, environment={"PYTHONPATH": ""})
        events = f"{gateway.url}/v1/topics/{topic}/events"
        assert requests.post(events, json={"id": "1"}, timeout=30).status_code == 201
        assert [line for line in gateway.log().splitlines() if "WARNING" in line] == []

    return check


@pytest.mark.full  # installs all packages; `make test-compiled` tests this wheel
def test_wheel_of_make_setup_serves_natively(serves_natively: Callable[[Path, str], None]) -> None:
    found = [*(ROOT / "build" / "wheel").glob(f"*-cp{OWN.replace('.', '')}-*.whl")]
    if not found:
        pytest.skip("make setup has built no native code")
    serves_natively(found[0], sys.executable)


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "compiler"), [("3.11", None), ("3.12", None), ("3.13", None), (OWN, "no-such-cc")]
)
def test_wheel_built_by_pip_serves_natively(
    tmp_path: Path,
    serves_natively: Callable[[Path, str], None],
    version: str,
    compiler: str | None,
) -> None:
    """Without a compiler of the machine's it takes one from a package."""
    python = python_of(version)
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, sources / name)
    for name in ("gateway", "spark", "deploy/man"):
        shutil.copytree(ROOT / name, sources / name)
    assert run(python, "-m", "venv", tmp_path / "builds").returncode == 0
    builder = tmp_path / "builds" / "bin" / "python"
    environment = {"CC": compiler} if compiler else {}
    pip(builder, "wheel", "--no-deps", "-w", tmp_path, sources, **environment)
    serves_natively(next(tmp_path.glob("*.whl")), python)
