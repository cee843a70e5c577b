"""The files, requests and jobs on the pages of docs/operate can be used as they stand."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from headgate.config.settings import NAMED, SECTIONS, HttpSettings
from headgate.http.openapi.document import document
from headgate.model.policy import options_of
from headgate_spark import cli
from support.pages import DOCS, sources

PAGES = sorted([*(DOCS / "operate").rglob("*.md"), DOCS / "consume" / "replay-only.md"])
NAMES = [str(page.relative_to(DOCS).with_suffix("")) for page in PAGES]
_URL = re.compile(r"127\.0\.0\.1:(?:9090|9096)(/[^\s'\"?|;]*)|`(?:[A-Z]+, )*[A-Z]+ (/v1/[^`?\[]*)")
_FILTER = re.compile(r"jq(?: -\w+)* '([^']*)'")
_JOB = re.compile(r"headgate-spark ([a-z]+)((?:[^\n`#]|\\\n)*)")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Every block in a language, with its page."""
    for name in NAMES:
        for source in sources(name, language):
            yield name, source


def test_files_can_be_read() -> None:
    read: dict[str, Any] = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}
    for language, parse in read.items():
        shown = list(blocks(language))
        assert shown
        for page, source in shown:
            assert parse(source), page


def test_configurations_have_options_that_exist() -> None:
    for page, source in blocks("toml"):
        for section, values in tomllib.loads(source).items():
            if section in SECTIONS:
                assert values.keys() <= set(options_of(SECTIONS[section])), page
            else:
                known = set(options_of(NAMED[section]))
                assert all(one.keys() <= known for one in values.values()), page


def paths() -> list[str]:
    """The paths of the interface, a segment in braces being any name."""
    found = orjson.loads(document(HttpSettings()))["paths"]
    return [re.sub(r"{\w+}", "[^/]+", path) for path in found]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_requests_are_of_the_interface(page: Path) -> None:
    known = re.compile("|".join(paths()))
    for asked in _URL.findall(page.read_text()):
        path = "".join(asked).removesuffix(".")
        assert known.fullmatch(path), path


def test_a_symptom_leads_to_every_runbook() -> None:
    page = DOCS / "operate" / "troubleshooting.md"
    linked = {
        (page.parent / name).resolve() for name in re.findall(r"\]\(([^)#]+)\)", page.read_text())
    }
    runbooks = {path.resolve() for path in (DOCS / "operate" / "runbooks").glob("*/*.md")}
    assert runbooks - linked == set()


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq (Debian: jq)")
def test_filters_of_jq_are_understood() -> None:
    filters = [one for page in PAGES for one in _FILTER.findall(page.read_text())]
    assert len(filters) > 30
    for one in filters:
        ran = subprocess.run(["jq", "-n", one], capture_output=True, text=True)
        assert ran.returncode != 3, f"{one}\n{ran.stderr}"  # 3: it does not compile


def help_of(*arguments: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        cli.main([*arguments, "--help"])
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_jobs_and_their_options_exist(page: Path) -> None:
    for job, rest in _JOB.findall(page.read_text()):
        if job not in {"audit", "mirror", "verify", "replay"}:
            continue  # a sentence goes on behind the command's name
        known = set(re.findall(r"--[a-z-]+", help_of(job)))
        assert set(re.findall(r"--[a-z][a-z-]*", rest)) <= known, job
