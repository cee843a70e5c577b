"""What is installed: pinned by hashes, and under licences that we may use."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.root import ROOT

LOCKS = sorted(ROOT.glob("requirements*.lock"))
# Permissive ones, and the MPL, which asks for nothing where its files are not changed.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MPL-2.0", "PSF-2.0",
    "Python-2.0", "Zlib",
}  # fmt: skip
CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License",
    "License :: OSI Approved :: BSD License",
    "License :: OSI Approved :: MIT License",
    "License :: OSI Approved :: Python Software Foundation License",
}


def pinned(lock: Path) -> list[str]:
    """Each requirement as the lock has it, with its hashes."""
    text = "\n".join(line for line in lock.read_text().splitlines() if line[:1] != "#")
    return [one for one in re.split(r"\n(?=[A-Za-z0-9])", text) if one.strip()]


def name_of(requirement: str) -> str:
    return requirement.partition("==")[0]


@pytest.mark.parametrize("lock", LOCKS, ids=[lock.name for lock in LOCKS])
def test_everything_is_pinned_by_hashes(lock: Path) -> None:
    requirements = pinned(lock)
    assert requirements
    loose = [one for one in requirements if "==" not in one or "--hash=sha256:" not in one]
    assert loose == []
    assert not re.search(
        r"^\s*(--index-url|--extra-index-url|--find-links|-i )", lock.read_text(), re.M
    )


def test_no_lock_says_where_packages_come_from() -> None:
    """Names, versions and hashes are enough: the address is that of whoever installs."""
    kinds = ("*.lock", "*.sum", "*.mod", "*.sha256")
    tracked = ["git", "ls-files", "-z", "--", *kinds]
    found = subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    locks = [ROOT / name for name in found.split("\0") if name]
    assert set(LOCKS) <= set(locks)
    assert [str(one) for one in locks if "://" in one.read_text()] == []


def licences(name: str) -> set[str]:
    """The identifiers and classifiers that a package declares."""
    about = metadata(name)
    expression = about.get("License-Expression")
    if expression is not None:
        return set(re.findall(r"[A-Za-z0-9.-]+", expression)) - {"AND", "OR", "WITH"}
    declared = {one for one in about.get_all("Classifier", []) if one.startswith("License ::")}
    if declared:
        return declared
    given = (about.get("License") or "").strip()
    return {given} if given else set()


@pytest.mark.parametrize("requirement", pinned(ROOT / "requirements.lock"), ids=name_of)
def test_licences_of_what_runs(requirement: str) -> None:
    name = name_of(requirement)
    try:
        found = licences(name)
    except PackageNotFoundError:
        pytest.skip("not for this platform")
    assert found, f"{name} does not say what its licence is"
    short = {
        {"BSD": "BSD-3-Clause", "Apache 2.0": "Apache-2.0", "Apache 2": "Apache-2.0"}.get(one, one)
        for one in found
    }
    assert short <= ALLOWED | CLASSIFIERS, f"{name}: {sorted(short)}"


VENDORED = sorted(ROOT.glob("gateway/**/vendor/README.md"))
ROW = re.compile(r"^\| `([^`]+)` \| (\S+) (\S+) \| (\S+) \| `([0-9a-f]{64})` \|$", re.M)


@pytest.mark.parametrize("listed", VENDORED, ids=lambda path: path.parent.parent.parent.name)
def test_files_of_others_are_unchanged_and_may_be_used(listed: Path) -> None:
    rows = ROW.findall(listed.read_text())
    there = {path.name for path in listed.parent.iterdir()}
    assert {file for file, *_ in rows} == there - {"README.md", "LICENSES.txt"}
    assert (listed.parent / "LICENSES.txt").stat().st_size > 0
    for file, _, _, licence, digest in rows:
        assert licence in ALLOWED, file
        assert sha256((listed.parent / file).read_bytes()).hexdigest() == digest, file


def test_there_are_files_of_others() -> None:
    folders = {path.parent.parent.parent.name for path in VENDORED}
    assert folders == {"console", "openapi"}


def test_what_checks_the_console_is_unchanged_too() -> None:
    folder = ROOT / "tests/support/console/axe"
    digest = sha256((folder / "axe.min.js").read_bytes()).hexdigest()
    assert f"| `axe.min.js` | `{digest}` |" in (folder / "README.md").read_text()
    assert (folder / "LICENSE").stat().st_size > 0


@pytest.fixture
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials_has_what_the_lock_has_and_no_more(sbom: ModuleType) -> None:
    def component(name: str) -> dict[str, Any]:
        return {"name": name, "version": "1", "bom-ref": f"{name}==1", "type": "library"}

    environment = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [component(name) for name in ("aiohttp", "backports.zstd", "pytest")],
        "dependencies": [
            {"ref": "root", "dependsOn": ["aiohttp==1", "pytest==1"]},
            {"ref": "pytest==1"},
            {"ref": "aiohttp==1"},
        ],
    }
    bom = sbom.of_lock(json.loads(json.dumps(environment)))
    packages = {
        one["name"]: one
        for one in bom["components"]
        if not one["bom-ref"].startswith(("jar:", "vendored:"))
    }
    assert set(packages) == {"aiohttp", "backports.zstd"}
    digests = {one["value"] for one in packages["aiohttp"]["properties"]}
    (line,) = [one for one in pinned(ROOT / "requirements.lock") if name_of(one) == "aiohttp"]
    assert digests == set(re.findall(r"sha256:(\w+)", line))
    assert bom["dependencies"] == [
        {"ref": "root", "dependsOn": ["aiohttp==1"]},
        {"ref": "aiohttp==1", "dependsOn": []},
    ]
    vendored = {
        (one["name"], one["version"], one["hashes"][0]["content"])
        for one in bom["components"]
        if one["bom-ref"].startswith("vendored:")
    }
    assert vendored == {
        (package, version, digest)
        for listed in VENDORED
        for _, package, version, _, digest in ROW.findall(listed.read_text())
    }
    jars = [one for one in bom["components"] if one["bom-ref"].startswith("jar:")]
    lines = {
        line
        for path in (*ROOT.glob("gateway/**/*.sha256"), *ROOT.glob("spark/**/*.sha256"))
        for line in path.read_text().splitlines()
    }
    assert {one["hashes"][0]["content"] for one in jars} == {line.split()[0] for line in lines}


TOOL = """#!{python}
import json, sys
print(json.dumps({{"dependencies": [{rows}]}}))
"""
GOOD = '{"name": "a", "version": "1", "vulns": []}'
BAD = (
    '{"name": "a", "version": "1", "vulns": '
    '[{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"], "description": ""}]}'
)
SKIPPED = '{"name": "a", "skip_reason": "Dependency not found"}'


@pytest.mark.parametrize(
    ("row", "options", "code", "said"),
    [
        (GOOD, [], 0, "0 known vulnerabilities"),
        (BAD, [], 1, "a 1: PYSEC-1, fixed in 2"),
        (SKIPPED, [], 0, "were NOT looked up"),
        (SKIPPED, ["--required"], 1, "were NOT looked up"),
    ],
)
def test_an_audit_that_could_not_look_is_no_clean_bill(
    tmp_path: Path, row: str, options: list[str], code: int, said: str
) -> None:
    tool = tmp_path / "pip-audit"
    tool.write_text(TOOL.format(python=sys.executable, rows=row))
    tool.chmod(0o755)
    command = [sys.executable, str(ROOT / ".ci" / "audit.py"), str(tool), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    assert said in run.stdout + run.stderr
