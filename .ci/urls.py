"""Write the address of this project's repository wherever it is named: `make urls URL=...`.

`Repository` in pyproject.toml's `[project.urls]` is the address in force. Every tracked file that
names it (package metadata, chart, image labels, README, templates of issues) gets the new one.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_URL = re.compile(r"https://[\w.-]+(?:/[\w.-]+){2,}")


def repository(root: Path = ROOT) -> str:
    """Return the address that the package's metadata names."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def places(root: Path = ROOT) -> list[Path]:
    """Return the tracked files that name the repository's address."""
    address = repository(root).removeprefix("https://")
    command = ["git", "grep", "--files-with-matches", "-z", "--fixed-strings", address]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in found.stdout.split("\0") if name]


def write(url: str, root: Path = ROOT) -> list[Path]:
    """Put a new address into every file that names the present one.

    Raises:
        ValueError: The address is not `https://HOST/OWNER/NAME`.
    """
    if not _URL.fullmatch(url):
        raise ValueError(f"{url!r} is not an address such as https://github.com/you/headgate")
    former = repository(root).removeprefix("https://")
    changed = places(root)
    for path in changed:
        path.write_text(path.read_text().replace(former, url.removeprefix("https://")))
    return changed


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    try:
        [url] = arguments
        changed = write(url.rstrip("/").removesuffix(".git"))
    except ValueError as error:
        sys.stderr.write(f"urls: {error}\n")
        return 2
    for path in changed:
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
