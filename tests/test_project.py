"""Metadata of packages, chart and repository agree, and a fork can change the address."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.root import ROOT

PLACES = (
    "pyproject.toml",
    "README.md",
    "clients/python/pyproject.toml",
    "clients/js/package.json",
    "deploy/helm/headgate/Chart.yaml",
    "deploy/helm/headgate/README.md",
    "deploy/image/Dockerfile",
    ".github/ISSUE_TEMPLATE/config.yml",
    ".ci/urls.py",
)


def metadata(path: str) -> Any:
    """Return a TOML, JSON or YAML file as data."""
    text = (ROOT / path).read_text()
    if path.endswith(".toml"):
        return tomllib.loads(text)
    return json.loads(text) if path.endswith(".json") else yaml.safe_load(text)


REPOSITORY: str = metadata("pyproject.toml")["project"]["urls"]["Repository"]


def urls(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / ".ci" / "urls.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_package_names_the_repository() -> None:
    python = metadata("clients/python/pyproject.toml")["project"]["urls"]
    assert python["Repository"] == REPOSITORY
    js = metadata("clients/js/package.json")
    assert js["repository"]["url"] == f"git+{REPOSITORY}.git"
    chart = metadata("deploy/helm/headgate/Chart.yaml")
    assert chart["home"] == REPOSITORY
    dockerfile = (ROOT / "deploy/image/Dockerfile").read_text()
    assert f'org.opencontainers.image.source="{REPOSITORY}"' in dockerfile


def test_links_of_metadata_lead_to_files_of_the_repository() -> None:
    link = re.compile(re.escape(REPOSITORY) + r"/blob/main/([\w./-]+)")
    checked = 0
    for place in PLACES:
        for path in link.findall((ROOT / place).read_text()):
            assert (ROOT / path).is_file(), f"{place}: {path}"
            checked += 1
    assert checked > 5


def test_descriptions_are_one() -> None:
    description = metadata("pyproject.toml")["project"]["description"]
    assert metadata("deploy/helm/headgate/Chart.yaml")["description"] == description
    assert description in (ROOT / "deploy/image/Dockerfile").read_text()
    js = metadata("clients/js/package.json")["description"]
    assert metadata("clients/python/pyproject.toml")["project"]["description"] == js


def test_promised_pythons_are_classified_tested_and_released() -> None:
    classified = {
        found[1]
        for each in metadata("pyproject.toml")["project"]["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each))
    }
    matrix = metadata(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(matrix) <= classified
    released = re.search(r"^PYTHONS \?= ([\d. ]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert released is not None
    assert set(released[1].split()) == classified


def test_workflows_run_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
        commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
        used = {name for each in commands for name in re.findall(r"make ([a-z-]+)", each)}
        assert used <= targets, workflow.name


def test_the_size_of_the_code_on_the_design_page_is_true() -> None:
    command = [sys.executable, ROOT / ".ci" / "count.py"]
    counted = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = dict(re.findall(r"^(\w.*?) +([\d,]+)$", counted, re.MULTILINE))
    section = (ROOT / "docs" / "design" / "index.md").read_text().split("## Size of the code")[1]
    shown = dict(re.findall(r"^\| (\w[^|]*) \| ([\d,]+) \|$", section, re.MULTILINE))
    assert len(shown) == 6
    for name, value in shown.items():
        true, said = (int(text.replace(",", "")) for text in (figures[name], value))
        assert said == pytest.approx(true, rel=0.05, abs=2), name


def test_a_cross_compiled_wheel_is_checked_by_its_contents(tmp_path: Path) -> None:
    """The machine is in the head of each module, and in its name."""
    head = bytearray(b"\x7fELF".ljust(20, b"\0"))
    for machine, name, wanted in (
        (183, "aarch64", ""),
        (62, "aarch64", "is not an ELF file for aarch64"),
        (183, "x86_64", "has another machine in its name"),
        (183, None, "has no extension module"),
    ):
        head[18:20] = machine.to_bytes(2, "little")
        wheel = tmp_path / "some.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("some.py", "")
            if name is not None:
                archive.writestr(f"some.cpython-311-{name}-linux-gnu.so", bytes(head))
        command = [sys.executable, ROOT / ".ci" / "aarch64.py", wheel]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == bool(wanted)
        assert wanted in done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with the files that name its address."""
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_a_fork_writes_its_address_everywhere(copy: Path) -> None:
    done = urls(copy, "https://git.example.com/me/gate.git")
    assert done.returncode == 0, done.stderr
    assert "pyproject.toml" in done.stdout
    for name in PLACES:
        text = (copy / name).read_text()
        assert REPOSITORY.removeprefix("https://") not in text or name == ".ci/urls.py", name
    assert "https://git.example.com/me/gate/blob/main/" in (copy / "pyproject.toml").read_text()


@pytest.mark.parametrize("wrong", ["git@github.com:me/gate", "https://github.com/me", ""])
def test_an_address_that_is_none_changes_nothing(copy: Path, wrong: str) -> None:
    before = (copy / "pyproject.toml").read_text()
    done = urls(copy, wrong)
    assert done.returncode == 2
    assert "https://github.com/you/headgate" in done.stderr
    assert (copy / "pyproject.toml").read_text() == before
