"""The Python client installs by itself, from wheel and sources, and its types are seen."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from support.process.installing import copy_of_sources, done, release_tools, run
from support.root import ROOT

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

PROGRAM = """
from headgate_client import Client, Event
from headgate_client.testing import FakeGateway

gateway = FakeGateway()
with Client(gateway.url, transport=gateway.transport, compression="gzip") as client:
    outcome = client.send("orders", Event({"total": 20}, key="12"))
print(outcome.name)
"""
HTTPX_NEEDS = {"anyio", "certifi", "h11", "httpcore", "idna", "sniffio", "typing-extensions"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_tools(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def dist(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as `make dist` does: the wheel from the sources' archive."""
    there = tmp_path_factory.mktemp("dist")
    sources = copy_of_sources(tmp_path_factory.mktemp("sources"), "clients/python")
    done(tools / "uv", "build", "--quiet", "--out-dir", there, sources)
    return there


def test_what_is_in_the_package(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        metadata = Parser().parsestr(
            wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        )
    package = ROOT / "clients/python/src"
    sources = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    extra = {name for name in names - sources if ".dist-info/" not in name}
    assert (sources - names, extra) == (set(), {"headgate_client/py.typed"})
    needed = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert [one.partition("<")[0].partition(">")[0] for one in needed] == ["httpx"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        held = {Path(name).name for name in archive.getnames()}
    assert {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "py.typed"} <= held
    assert any(url.startswith("Changelog, ") for url in metadata.get_all("Project-URL", []))


@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize("form", ["*.whl", "*.tar.gz"])
def test_it_installs_with_httpx_alone(
    tools: Path, dist: Path, tmp_path: Path, tool: str, form: str
) -> None:
    place, package = tmp_path / "env", next(dist.glob(form))
    python = place / "bin/python"
    if tool == "pip":
        done(sys.executable, "-m", "venv", place)
        done(python, "-m", "pip", "-q", "install", package)
    else:
        cache = {"UV_CACHE_DIR": tmp_path / "cache"}
        done(tools / "uv", "venv", "--quiet", "--python", sys.executable, place, **cache)
        done(tools / "uv", "pip", "install", "--quiet", "--python", python, package, **cache)
    listed = done(python, "-c", "import importlib.metadata as m\nfor d in m.distributions():"
                  " print(d.name.lower().replace('_', '-'))")  # fmt: skip
    assert set(listed.split()) - HTTPX_NEEDS - {"pip", "setuptools"} == {"headgate-client", "httpx"}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert done(python, program) == "published\n"
    typed = tmp_path / "typed.py"
    typed.write_text(PROGRAM + "reveal_type(client.send)\noutcome.partition + 'a'\n")
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        tmp_path / "m",
    ]
    said = run(*mypy, "--python-executable", python, typed)
    assert 'note: Revealed type is "def (topic: str, value: object' in said.stdout, said.stderr
    assert "Unsupported operand types" in said.stdout
    assert "import-untyped" not in said.stdout
