"""A version is written everywhere at once; what keeps a commit from being released is said."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate import __version__
from support.root import ROOT

SAYING = (
    "pyproject.toml",
    "CHANGELOG.md",
    "gateway/headgate/__init__.py",
    "clients/python/pyproject.toml",
    "clients/python/src/headgate_client/version.py",
    "clients/js/src/version.js",
    "clients/js/package.json",
    "clients/js/package-lock.json",
    "deploy/helm/headgate/Chart.yaml",
    "deploy/kubernetes/spark-audit.yaml",
    "deploy/image/Dockerfile",
    ".ci/release.py",
)

WITH_IMAGES = ("deploy/compose/compose.yml", "deploy/helm/headgate/values.yaml")


def run(root: Path, *words: str) -> list[str]:
    """By the copy of the check in that folder."""
    command = [sys.executable, root / ".ci" / "release.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (done.stderr == "")
    return done.stderr.splitlines()


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What of the project says a version, in a repository without a tag."""
    for name in (*SAYING, *WITH_IMAGES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "begin")
    return tmp_path


def test_no_place_of_a_version_is_forgotten() -> None:
    """`make docs manifests` writes what is generated."""
    generated = {"deploy/kubernetes/headgate.yaml"} | {
        f"deploy/man/{name}.1" for name in ("headgate", "headgate-spark")
    }
    version = re.compile(rb"\b%b\b" % re.escape(__version__).encode())
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "deploy").rglob("*")
        if file.is_file() and file.suffix != ".pyc" and version.search(file.read_bytes())
    }
    assert "deploy/helm/headgate/Chart.yaml" in found
    assert found - generated - {*SAYING} == set()


def test_everything_has_one_version(copy: Path) -> None:
    assert [one for one in run(copy) if not re.search("CHANGELOG|no tag|by tag", one)] == []


def test_a_version_is_written_everywhere(copy: Path) -> None:
    assert run(copy, "1.3.0") == []
    for name in set(SAYING) - {"CHANGELOG.md", ".ci/release.py", "deploy/image/Dockerfile"}:
        assert "1.3.0" in (copy / name).read_text(), name
    locked = (copy / "clients/js/package-lock.json").read_text()
    assert locked.count('"1.3.0"') == 2, "and its dependencies keep theirs"
    changes = (copy / "CHANGELOG.md").read_text()
    assert re.search(r"## \[Unreleased\]\n\n## \[1\.3\.0\] - \d{4}-\d\d-\d\d\n\n### ", changes)
    before = changes
    assert run(copy, "1.3.0") == []
    assert (copy / "CHANGELOG.md").read_text() == before
    for other in ("v1.2", "1.2.0rc1"):  # npm and Helm write 1.2.0-rc.1
        [wrong] = run(copy, other)
        assert f"{other!r} is no version such as 1.2.0" in wrong


def test_the_changelog_lists_no_dated_change_of_an_unreleased_version() -> None:
    """Only versions have dates: no user had what changed between two days of one version."""
    dated = re.findall(r"^- \d{4}-\d\d-\d\d.*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert dated == []


def test_what_is_fit_for_a_release(copy: Path) -> None:
    chart = copy / "deploy/helm/headgate/Chart.yaml"
    run(copy, "1.2.0")
    chart.write_text(chart.read_text().replace("appVersion: 1.2.0", "appVersion: 1.1.0"))
    wrong = run(copy)
    assert len(wrong) == 9
    for word in (
        "Chart.yaml has 1.1.0 and 1.2.0",
        "not committed",
        "git tag -s v1.2.0",
        "a base by tag",
        "values.yaml has quay.io/prometheus/node-exporter:v1.9.1 by tag",
        *(f"compose.yml has {name}:" for name in ("apache/kafka", "redis", "prom/prometheus")),
        "compose.yml has grafana/grafana:",
    ):
        assert any(word in one for one in wrong), wrong

    run(copy, "1.2.0")
    image = copy / "deploy/image/Dockerfile"
    tag = "ARG BASE=debian:bookworm-slim"
    image.write_text(image.read_text().replace(tag, f"{tag}@sha256:{'0a' * 32}"))
    for name in WITH_IMAGES:
        text = (copy / name).read_text()
        image_by_tag = r"(apache/kafka|redis|prom/prometheus|grafana/grafana|node-exporter):[\w.-]+"
        (copy / name).write_text(re.sub(image_by_tag, rf"\g<0>@sha256:{'0b' * 32}", text))
    git(copy, "commit", "-q", "-a", "-m", "release")
    git(copy, "tag", "v1.2.0")
    assert run(copy) == []
