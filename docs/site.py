"""Builds the site from the pages; `make docs` runs it. Of all packages it needs Zensical alone.

Zensical keeps its cache in `.cache` beside its configuration. Headgate keeps downloads in a folder
of that name. So Zensical works on a copy of the pages in build/site and keeps its cache there.

HEADGATE_SITE_URL and HEADGATE_REPO_URL name the addresses of the site and of the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("mkdocs.yml", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")  # what pages include
_NO_PAGES = shutil.ignore_patterns("*.py", "__pycache__", ".vale")


def copy_pages(work: Path) -> None:
    """Put the present pages into the work folder, without those of earlier builds."""
    shutil.rmtree(work / "docs", ignore_errors=True)
    shutil.copytree(ROOT / "docs", work / "docs", ignore=_NO_PAGES)
    for name in BESIDE:
        shutil.copy2(ROOT / name, work / name)


def build(work: Path) -> int:
    """Build the site into `work / "site"`; return Zensical's exit code: a warning is an error."""
    copy_pages(work)
    shutil.rmtree(work / "site", ignore_errors=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = {"HEADGATE_VERSION": project["version"], **os.environ}
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    return subprocess.run(command, cwd=work, env=environment, check=False).returncode


def main() -> int:
    """Build the site into the folder of the argument, build/docs without one."""
    target = Path(sys.argv[1] if sys.argv[1:] else ROOT / "build" / "docs").absolute()
    work = ROOT / "build" / "site"
    work.mkdir(parents=True, exist_ok=True)
    if code := build(work):
        return code
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(work / "site", target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
