"""The version before this one: taken from the repository's history, and run from its sources."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from support.root import ROOT

# Until there is a tag: the youngest merge on which spool, coalescing, mirror, control plane and
# several Redis servers (whose first start forgets what is suppressed) are all there. It needs
# datasketches, which is not installed any more; see `stand_ins`.
BASELINE = "67631d396b6293e85838b3edb583c101c57729e3"  # 2026-11-25
_STAND_INS = Path(__file__).with_name("stand_ins")
_PARTS = ("gateway", "spark", "deploy/config", "docs/reference")


class NoHistoryError(Exception):
    """The version before this one is not at hand."""


class Version(NamedTuple):
    """Sources that programs are run from. paths: for PYTHONPATH; none = as the tests import."""

    name: str
    root: Path
    paths: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Of a program that is to be of this version, beside those that it inherits."""
        return {"PYTHONPATH": os.pathsep.join(map(str, self.paths))} if self.paths else {}

    def run(self, *words: str, module: str = "headgate") -> subprocess.CompletedProcess[str]:
        """A command of it, to its end."""
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, **self.environment}, cwd=self.root,
        )  # fmt: skip


THIS = Version("this version", ROOT)


class Step(NamedTuple):
    """From one version to another."""

    before: Version
    after: Version


def unpacked(folder: Path) -> Version:
    """The version before this one, in a folder. Raises NoHistoryError."""
    ref = former_ref()
    archive = _git("archive", ref, *_PARTS)
    if archive is None:
        raise NoHistoryError(f"{ref} is not in this clone: git fetch --unshallow --tags")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    beside = (_STAND_INS,) if ref == BASELINE else ()
    return Version(ref, folder, (folder / "gateway", folder / "spark", *beside))


def former_ref() -> str:
    """The newest tag before this commit, or `BASELINE`. Raises NoHistoryError."""
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top.decode().strip()).resolve() != ROOT.resolve():
        raise NoHistoryError("this is no clone of the repository: there is no version before it")
    return newest(_tags("--merged"), _tags("--points-at")) or BASELINE


def newest(tags: list[str], of_this: list[str]) -> str | None:
    """The first that is not this commit's own. tags: newest first."""
    return next((one for one in tags if one not in of_this), None)


def _tags(which: str) -> list[str]:
    found = _git("-c", "versionsort.suffix=-", "tag", which, "HEAD", "--list", "v*",
                 "--sort=-version:refname")  # fmt: skip
    return (found or b"").decode().split()


def _git(*words: str) -> bytes | None:
    """What it prints; None where it fails, or is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
