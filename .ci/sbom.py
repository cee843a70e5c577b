"""Writes the software bill of materials of what `make run` installs: CycloneDX 1.6, as JSON.

cyclonedx-py reads the environment, which has tools of tests and documents as well: what
requirements.lock does not name is left out. The lock's hashes are added, the jars that are fetched
by their hashes, and the files of others that pages are made of. `make sbom` runs it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
JARS = sorted([*ROOT.glob("gateway/**/*.sha256"), *ROOT.glob("spark/**/*.sha256")])
VENDORED = sorted(ROOT.glob("gateway/**/vendor/README.md"))
_FILE = re.compile(r"^\| `([^`]+)` \| (\S+) (\S+) \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)

Component = dict[str, Any]


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, list[str]]:
    """What the lock names, and the SHA-256 of its files."""
    starts = list(_PINNED.finditer(text := LOCK.read_text()))
    ends = [one.start() for one in starts[1:]] + [len(text)]
    return {
        normal(one[1]): re.findall(r"sha256:([0-9a-f]{64})", text[one.start() : end])
        for one, end in zip(starts, ends, strict=True)
    }


def jars() -> Iterator[Component]:
    """Each jar once, by the list that names it."""
    seen: set[str] = set()
    for path in JARS:
        for line in path.read_text().splitlines():
            digest, _, name = line.partition("  ")
            if digest in seen:
                continue
            seen.add(digest)
            found = re.fullmatch(r"(.+?)-(\d[\w.+-]*)\.jar", name)
            assert found is not None, f"{path}: {line}"
            yield {
                "type": "library",
                "bom-ref": f"jar:{name}",
                "name": found[1],
                "version": found[2],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "headgate:list", "value": str(path.relative_to(ROOT))}],
            }


def vendored() -> Iterator[Component]:
    """Each file of an npm package that is in the repository."""
    for path in VENDORED:
        for file, package, version, licence, digest in _FILE.findall(path.read_text()):
            place = str(path.parent.relative_to(ROOT) / file)
            yield {
                "type": "library",
                "bom-ref": f"vendored:{place}",
                "name": package,
                "version": version,
                "purl": f"pkg:npm/{package}@{version}",
                "licenses": [{"license": {"id": licence}}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "headgate:file", "value": place}],
            }


def of_lock(bom: dict[str, Any]) -> dict[str, Any]:
    """The same bill without what the lock does not name, and X"""
    wanted = locked()
    kept = [one for one in bom["components"] if normal(one["name"]) in wanted]
    for one in kept:
        names = {"name": "headgate:lock:sha256"}
        more = [{**names, "value": digest} for digest in wanted[normal(one["name"])]]
        one["properties"] = [*one.get("properties", []), *more]
    references = {one["bom-ref"] for one in kept} | {bom["metadata"]["component"]["bom-ref"]}
    bom["components"] = [*kept, *jars(), *vendored()]
    bom["dependencies"] = [
        {
            "ref": one["ref"],
            "dependsOn": sorted(references.intersection(one.get("dependsOn", ()))),
        }
        for one in bom["dependencies"]
        if one["ref"] in references
    ]
    return bom


def main(tool: str, python: str, target: str) -> int:
    """tool: cyclonedx-py.  python: of the environment.  target: the file."""
    command = [tool, "environment", python, "--pyproject", str(ROOT / "pyproject.toml"),
               "--mc-type", "application", "--output-reproducible", "--sv", "1.6"]  # fmt: skip
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    bom = of_lock(json.loads(made.stdout))
    missing = set(locked()) - {normal(one["name"]) for one in bom["components"]}
    if missing:
        sys.stderr.write(f"sbom: not installed, so not described: {', '.join(sorted(missing))}\n")
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{target}: {len(bom['components'])} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
