"""Says what keeps this commit from being released: `make release` runs it first.

One version, in pyproject.toml; the clients, the changelog and the tag have the same.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def version_of(pyproject: Path) -> str:
    """What the package says of itself."""
    found: str = tomllib.loads(pyproject.read_text())["project"]["version"]
    return found


def problems(root: Path) -> Iterator[str]:
    """What is wrong, with the remedy."""
    version = version_of(root / "pyproject.toml")
    clients = {
        "clients/python/pyproject.toml": version_of,
        "clients/js/package.json": lambda file: json.loads(file.read_text())["version"],
    }
    for name, read in clients.items():
        if (root / name).exists() and (found := read(root / name)) != version:
            yield f"{name} has version {found}, pyproject.toml {version}: give both the same"
    heading = re.compile(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    if not heading.search((root / "CHANGELOG.md").read_text()):
        yield f"CHANGELOG.md has no heading `## [{version}] - DATE`: move what is unreleased there"
    if _git(root, "status", "--porcelain"):
        yield "there are changes that are not committed: commit them, or take them back"
    if f"v{version}" not in _git(root, "tag", "--points-at", "HEAD").split():
        yield f"this commit has no tag v{version}: git tag -s v{version}"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    found = [*problems(ROOT)]
    for one in found:
        sys.stderr.write(f"release: {one}\n")
    sys.exit(bool(found))
