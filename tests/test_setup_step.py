"""A step of `make setup` is one line; a failure shows the end of its log, without addresses."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.root import ROOT

STEP = ROOT / ".ci" / "step.py"
PIP_LINES = (
    "Looking in indexes: https://user:secret@packages.test/simple/",
    "Collecting aiohttp==3.14.5 (from -r some.lock (line 1))",
    "  Downloading https://packages.test/aiohttp-3.14.5.whl (1.7 MB)",
    "Retrying: HTTPSConnectionPool(host='packages.test', port=443): Read timed out.",
    "Installing collected packages: aiohttp",
)


def run(
    folder: Path, code: int = 0, lines: tuple[str, ...] = PIP_LINES, **environ: str
) -> subprocess.CompletedProcess[str]:
    """A step that writes those lines and ends with that code."""
    (folder / "lines").write_text("".join(f"{line}\n" for line in lines))
    program = f"import sys; print(open('lines').read(), end=''); sys.exit({code})"
    return subprocess.run(
        [sys.executable, STEP, "some", "installing things", sys.executable, "-c", program],
        cwd=folder, env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_a_step_is_one_line_and_its_log_is_kept(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "setup: installing things\n")
    log = (tmp_path / "build" / "logs" / "some.log").read_text()
    assert "Downloading aiohttp-3.14.5.whl (1.7 MB)" in log
    assert "Installing collected packages" in log


@pytest.mark.parametrize("verbose", ["", "1"])
def test_a_failure_names_the_log_and_shows_its_end(tmp_path: Path, verbose: str) -> None:
    many = (*(f"line {number}" for number in range(100)), "x" * 5000)
    done = run(tmp_path, 3, many, VERBOSE=verbose)
    assert done.returncode == 3
    assert "line 99" in done.stderr
    assert ("x" * 1000 in done.stderr) is bool(verbose)
    assert ("line 5\n" in done.stderr) is bool(verbose)
    assert "setup: failed (3): installing things" in done.stderr
    assert "build/logs/some.log" in done.stderr


def test_verbose_shows_everything(tmp_path: Path) -> None:
    shown = run(tmp_path, VERBOSE="1").stderr.splitlines()
    assert [line for line in shown if "Collecting aiohttp" in line]
    assert [line for line in shown if "Installing collected" in line]


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_addresses_of_an_index_are_left_out(tmp_path: Path, verbose: str) -> None:
    done = run(tmp_path, 1, VERBOSE=verbose)
    log = (tmp_path / "build" / "logs" / "some.log").read_text()
    for text in (done.stderr, log):
        assert "Read timed out" in text
        assert "packages.test" not in text
        assert "secret" not in text


def test_a_missing_command_is_a_failure_that_names_it(tmp_path: Path) -> None:
    command = [sys.executable, STEP, "some", "building it", "no-such-command"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "no-such-command" in done.stderr


def test_the_title_counts_the_packages_that_are_not_installed(tmp_path: Path) -> None:
    pip = tmp_path / ".venv" / "bin" / "python"
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    packages = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "zope_interface-1.0.dist-info").mkdir(parents=True)
    (packages / "other-1.0.dist-info").mkdir(parents=True)
    lock = tmp_path / "some.lock"
    lock.write_text(
        "zope.interface==1.0 \\\n    --hash=sha256:0\nother==2.0\nnew==1.0 ; x == 'y'\n"
    )

    def title(*more: str) -> str:
        command = [
            sys.executable,
            STEP,
            "some",
            "installing {packages}",
            str(pip),
            "-r",
            "some.lock",
        ]
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stderr

    assert title() == "setup: installing 2 packages\n"
    assert title("--target", "folder") == "setup: installing 3 packages\n"
    lock.write_text("other==2.0\n")
    assert title() == "setup: installing 1 package\n"


def test_a_terminal_sees_the_progress_until_the_end(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    program = "import time; print('headgate: compiled 7 of 90 files'); time.sleep(2.5)"
    command = [sys.executable, STEP, "some", "compiling", sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs) as step:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the end of a terminal
            pass
    os.close(ours)
    assert step.returncode == 0
    assert shown.startswith(b"setup: compiling\r\n")
    assert b"\r\x1b[Ksetup:   compiled 7 of 90 files, " in shown
    assert shown.endswith(b"\r\x1b[K")
    assert shown.count(b"\n") == 1
