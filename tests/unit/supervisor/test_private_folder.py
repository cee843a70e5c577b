"""The parent's folder goes with it, at the latest when the next parent starts."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.supervisor.active_config import private_folder

HOLD = """
import sys, time
from headgate.supervisor.active_config import private_folder
with private_folder() as folder:
    (folder / "headgate.toml").write_text("a password")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def above(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; pytest's own are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setenv("TMPDIR", short)
        yield Path(short)


def left(above: Path) -> list[str]:
    return [one.name for one in above.iterdir()]


def test_it_is_private_and_goes_with_the_context(above: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == above
        assert folder.stat().st_mode & 0o777 == 0o700
    assert left(above) == []


def test_one_that_was_killed_is_cleaned_up_and_a_living_one_is_left_alone(above: Path) -> None:
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        dead, alive = (Path((one.stdout or sys.stdin).readline().strip()) for one in holders)
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait(30)
        assert dead.exists()
        with private_folder() as folder:
            assert sorted(left(above)) == sorted([alive.name, folder.name])
            assert (alive / "headgate.toml").exists()
    finally:
        for one in holders:
            one.kill()
            one.communicate(timeout=30)
    with private_folder():
        assert not alive.exists()


def test_what_is_not_ours_stays(above: Path) -> None:
    (above / "headgate-of-somebody").mkdir()
    elsewhere = above / "kept"
    elsewhere.mkdir()
    (elsewhere / "parent.lock").touch()
    (above / "headgate-link").symlink_to(elsewhere)
    with private_folder() as folder:
        assert folder.exists()
    assert sorted(left(above)) == ["headgate-link", "headgate-of-somebody", "kept"]
    assert (elsewhere / "parent.lock").exists()
