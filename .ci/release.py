"""Says what keeps this commit from being released: `make release` runs it first. With a version as
its argument (`make version`), writes that version wherever one stands, and its heading into the
changelog.

One version for everything that is released, and the tag has it, too.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = "pyproject.toml"
# Where a version stands that nothing generates; group 1 is what comes before it.
PLACES = {
    FIRST: r'^(version = ")([^"]+)',
    "gateway/headgate/__init__.py": r'^(__version__ = ")([^"]+)',
    "clients/python/pyproject.toml": r'^(version = ")([^"]+)',
    "clients/python/src/headgate_client/version.py": r'^(__version__ = ")([^"]+)',
    "clients/js/src/version.js": r'^(export const VERSION = .*\(")([^"]+)',
    "clients/js/package.json": r'^(  "version": ")([^"]+)',
    # The package's own entries; those of its dependencies lie deeper or have another name.
    "clients/js/package-lock.json": r'^( +"name": "headgate-client",\n +"version": ")([^"]+)',
    "deploy/helm/headgate/Chart.yaml": r"^((?:version|appVersion): )(\S+)",
    "deploy/kubernetes/spark-audit.yaml": r"(/headgate-jobs:)(\S+)",
}
DOCKERFILE = "deploy/image/Dockerfile"
_BASE = re.compile(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", re.MULTILINE)
# References to images of others, by file; group 1. Ours get their digest when they are pushed.
IMAGES = {
    "deploy/compose/compose.yml": r"^ +image: ([^\s:@]+/?[^\s]*[:@]\S+)$",
    "deploy/helm/headgate/values.yaml": r'^textfileExporter: \{image: "([^"]+)"',
}
_BY_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
UNRELEASED = "## [Unreleased]\n"
# Of those that PyPI, npm and Helm all take.
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def versions_in(root: Path, name: str) -> set[str]:
    """What a file says of itself."""
    found = re.findall(PLACES[name], (root / name).read_text(), re.MULTILINE)
    return {version for _, version in found}


def problems(root: Path) -> Iterator[str]:
    """What is wrong, with the remedy."""
    [version] = versions_in(root, FIRST)
    for name in PLACES:
        if (found := versions_in(root, name)) != {version}:
            said = " and ".join(sorted(found)) or "no version"
            yield f"{name} has {said}, {FIRST} {version}: make version VERSION={version}"
    if not heading(version).search((root / "CHANGELOG.md").read_text()):
        yield f"CHANGELOG.md has no heading `## [{version}] - DATE`: make version VERSION={version}"
    if not _BASE.search((root / DOCKERFILE).read_text()):
        yield (
            f"{DOCKERFILE} has a base by tag, which may be another one tomorrow: write "
            "ARG BASE=debian:bookworm-slim@sha256:... (docs/operate/deploy.md#container)"
        )
    for name, pattern in IMAGES.items():
        for image in dict.fromkeys(re.findall(pattern, (root / name).read_text(), re.MULTILINE)):
            if not _BY_DIGEST.search(image):
                yield (
                    f"{name} has {image} by tag: write {image}@sha256:... with the digest that "
                    f"`docker buildx imagetools inspect {image}` shows"
                )
    if _git(root, "status", "--porcelain"):
        yield "there are changes that are not committed: commit them, or take them back"
    if f"v{version}" not in _git(root, "tag", "--points-at", "HEAD").split():
        yield f"this commit has no tag v{version}: git tag -s v{version}"


def heading(version: str) -> re.Pattern[str]:
    """Of a version in the changelog."""
    return re.compile(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)


def write(root: Path, version: str, day: str) -> None:
    """Give everything this version; what is unreleased is of this day. Raises ValueError."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is no version such as 1.2.0")
    for name, pattern in PLACES.items():
        text = (root / name).read_text()
        put = re.sub(pattern, rf"\g<1>{version}", text, flags=re.MULTILINE)
        (root / name).write_text(put)
    changes = (root / "CHANGELOG.md").read_text()
    if not heading(version).search(changes):
        put = changes.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1)
        (root / "CHANGELOG.md").write_text(put)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(words: list[str]) -> int:
    """Returns the exit code."""
    if words:
        try:
            write(ROOT, words[0], f"{datetime.now(UTC):%Y-%m-%d}")
        except ValueError as error:
            sys.stderr.write(f"version: {error}\n")
            return 2
        return 0
    found = [*problems(ROOT)]
    for one in found:
        sys.stderr.write(f"release: {one}\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
