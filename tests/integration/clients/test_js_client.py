"""clients/js by itself: its own tests, its types, and the rules that its files keep."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headgate.http.auth import Cors
from headgate.model.outcome import TRAITS
from support.clients.node import NODE, PACKAGE, needs_node
from support.scale import examples

SOURCES = sorted((PACKAGE / "src").rglob("*.js"))
SEEDS = 100  # of each kind of random history
_IMPORTED = re.compile(r'^(?:import|export) [^;]*?from "([^"]+)";', re.MULTILINE)
# What the core is told, rather than to ask for it.
_WORLDLY = re.compile(
    r"\b(?:fetch|setTimeout|setInterval|performance|crypto|console|process|globalThis)\s*[.(]"
    r"|\bMath\.random\b|\bDate\.now\b|\bnew Date\(\)"
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@needs_node
def test_node_tests_of_the_package_pass() -> None:
    tests = [str(path) for path in sorted((PACKAGE / "test").glob("*.test.js"))]
    assert tests
    environment = {**os.environ, "HEADGATE_SEEDS": str(examples(SEEDS))}
    done = subprocess.run(
        [str(NODE), "--test", *tests],
        cwd=PACKAGE, env=environment, capture_output=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode()[-5000:]
    assert b"# pass 0" not in done.stdout


@pytest.fixture(scope="module")
def with_typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with what is locked beside it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on this machine")
    copy = tmp_path_factory.mktemp("js") / "package"
    shutil.copytree(PACKAGE, copy)
    if not (copy / "node_modules").is_dir():
        command = [npm, "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        if subprocess.run(command, cwd=copy, check=False, timeout=200).returncode:
            pytest.skip("npm cannot install typescript here")
    return copy


@needs_node
def test_types_hold_and_are_those_of_the_sources(with_typescript: Path) -> None:
    compiler = [str(NODE), str(with_typescript / "node_modules" / "typescript" / "bin" / "tsc")]
    shutil.rmtree(with_typescript / "types")
    for project in ("tsconfig.json", "test/tsconfig.json"):
        done = subprocess.run(
            [*compiler, "--project", project],
            cwd=with_typescript, capture_output=True, check=False, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    assert types_of(with_typescript) == types_of(PACKAGE), "cd clients/js && npm run types"


def types_of(package: Path) -> dict[str, str]:
    folder = package / "types"
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*.d.ts")}


@needs_node
def test_the_reasons_of_the_double_are_the_gateways() -> None:
    script = (
        f'import {{ REASONS }} from "{PACKAGE}/src/testing.js";'
        "console.log(JSON.stringify(REASONS));"
    )
    command = [str(NODE), "--input-type=module", "--eval", script]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    known = {reason.value: (traits.status, traits.retryable) for reason, traits in TRAITS.items()}
    found = {name: tuple(traits) for name, traits in json.loads(said).items()}
    assert found.items() <= known.items()


def test_the_core_is_told_time_and_chance_and_knows_nothing_above_it() -> None:
    above = {"client", "producer", "wire", "network", "hooks", "keepalive", "waiting", "testing"}
    for path in sorted((PACKAGE / "src" / "core").glob("*.js")):
        text = path.read_text()
        assert not _WORLDLY.search(_COMMENT.sub("", text)), path.name
        assert not {Path(name).stem for name in _IMPORTED.findall(text)} & above, path.name


def test_a_page_of_another_origin_may_read_every_header_that_the_client_reads() -> None:
    text = "".join(path.read_text() for path in SOURCES if path.parent.name != "testing")
    read = set(re.findall(r'\b(?:header|headers\.get)\("([^"]+)"\)', text))
    assert read == {"retry-after", "idempotency-bypassed", "x-request-id"}
    answered = Cors(["https://shop.example"]).headers({"Origin": "https://shop.example"})
    exposed = answered["Access-Control-Expose-Headers"].lower().split(", ")
    assert read <= set(exposed)


def test_it_depends_on_nothing_and_imports_itself_alone() -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    assert "dependencies" not in package
    foreign = [
        f"{path.name}: {name}"
        for path in SOURCES
        for name in _IMPORTED.findall(path.read_text())
        if not name.startswith(".")
    ]
    assert foreign == []


def test_what_it_is_checked_with_is_pinned_by_hashes_and_names_no_registry() -> None:
    lock = (PACKAGE / "package-lock.json").read_text()
    assert "://" not in lock
    packages = json.loads(lock)["packages"]
    loose = [name for name, package in packages.items() if name and "integrity" not in package]
    assert (loose, len(packages)) == ([], 2)


@needs_node
def test_what_is_packed_is_sources_types_licence_and_readme(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on this machine")
    command = [npm, "pack", "--dry-run", "--json", "--offline", f"--cache={tmp_path}"]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, check=True, timeout=200)
    (packed,) = json.loads(done.stdout)
    found = {one["path"] for one in packed["files"]}
    code = {f"src/{path.relative_to(PACKAGE / 'src')}" for path in SOURCES}
    types = {f"types/{name}" for name in types_of(PACKAGE)}
    assert found == {"CHANGELOG.md", "LICENSE", "README.md", "package.json", *code, *types}
    exports = json.loads((PACKAGE / "package.json").read_text())["exports"].values()
    assert {file.removeprefix("./") for one in exports for file in one.values()} <= found


def test_every_file_says_what_it_is() -> None:
    files = [*SOURCES, *(PACKAGE / "test").glob("*.js")]
    assert [path.name for path in files if not path.read_text().startswith("/**")] == []
