"""What keeps a commit from being released is said with its remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.root import ROOT

PROJECT = '[project]\nname = "x"\nversion = "{}"\n'


def said(root: Path) -> list[str]:
    """By a copy of the check, about that folder."""
    (root / ".ci").mkdir(exist_ok=True)
    check = root / ".ci" / "release.py"
    check.write_text((ROOT / ".ci" / "release.py").read_text())
    done = subprocess.run([sys.executable, check], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (done.stderr == "")
    return done.stderr.splitlines()


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def test_what_is_fit_for_a_release(tmp_path: Path) -> None:
    client = tmp_path / "clients" / "python"
    client.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT.format("1.2.0"))
    (client / "pyproject.toml").write_text(PROJECT.format("1.1.0"))
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.1.0] - 2026-01-31\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "begin")
    wrong = said(tmp_path)
    assert len(wrong) == 4
    for word in ("clients/python", "CHANGELOG.md", "not committed", "git tag -s v1.2.0"):
        assert any(word in one for one in wrong), wrong

    (client / "pyproject.toml").write_text(PROJECT.format("1.2.0"))
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.0] - 2026-11-25\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "release")
    git(tmp_path, "tag", "v1.2.0")
    assert said(tmp_path) == []
