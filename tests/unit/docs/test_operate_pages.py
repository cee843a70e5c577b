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
from typing import Any, NamedTuple

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
_ASKED = re.compile(
    r"127\.0\.0\.1:(?:9090|9096)(/[^\s'\"?|;]*)[^\n|]*\|\s*(?:\\\n\s*)?jq(?: -\w+)* '?([^'\n]+)"
)
_STEP = re.compile(r"\.(\w+)|\[(?:\d*|\d*:\d*)\]|\[\"([^\"]+)\"\]")
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
                assert values.keys() <= names_of(SECTIONS[section]), page
            else:
                known = names_of(NAMED[section])
                assert all(one.keys() <= known for one in values.values()), page


def names_of(section: type) -> set[str]:
    """The options of a section, and the `_file` that each secret one has."""
    options = options_of(section).values()
    return {each.name for each in options} | {
        f"{each.name}_file" for each in options if each.about.secret
    }


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


def answer_of(path: str) -> Schema:
    """The schema of what GET answers; a segment in braces is any name."""
    page = orjson.loads(document(HttpSettings()))
    (methods,) = [
        methods
        for pattern, methods in page["paths"].items()
        if re.fullmatch(re.sub(r"{\w+}", "[^/{]+", pattern), path)
    ]
    content = methods["get"]["responses"]["200"]["content"]
    return Schema(page["components"]["schemas"], content["application/json"]["schema"])


class Schema(NamedTuple):
    named: dict[str, Any]
    schema: dict[str, Any]

    def parts(self) -> list[dict[str, Any]]:
        """What this schema is made of."""
        if "$ref" in self.schema:
            return Schema(self.named, self.named[self.schema["$ref"].split("/")[-1]]).parts()
        alls = [Schema(self.named, each) for each in self.schema.get("allOf", ())]
        return [self.schema, *(part for each in alls for part in each.parts())]

    def member(self, name: str) -> Schema | None:
        """The schema of a member, of an element if the name is empty, or None."""
        for part in self.parts():
            inner = part.get("properties", {}).get(name) if name else part.get("items")
            if inner is None and name:
                inner = part.get("additionalProperties")
            if isinstance(inner, dict):
                return Schema(self.named, inner)
        return None


def beginning_of(query: str) -> list[str]:
    """The steps of the path with which a filter of jq begins; an element's is empty."""
    steps, at = list[str](), 0
    while match := _STEP.match(query, at):
        steps.append(match[1] or match[2] or "")
        at = match.end()
    return steps


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        (".topics[] | {topic}", ["topics", ""]),
        (".on[].owners[] | .x", ["on", "", "owners", ""]),
        ('.dependencies["redis identity"]', ["dependencies", "redis identity"]),
        (".recent_rejects[:5]", ["recent_rejects", ""]),
        ("{skew, keys}", []),
    ],
)
def test_the_beginning_of_a_filter(query: str, steps: list[str]) -> None:
    assert beginning_of(query) == steps


def test_filters_of_jq_begin_with_members_of_the_answer() -> None:
    asked = [(page, *one) for page in PAGES for one in _ASKED.findall(page.read_text())]
    assert len(asked) > 30
    for page, path, query in asked:
        answer: Schema | None = answer_of(path)
        for step in beginning_of(query.strip()):
            assert answer is not None, f"{page.name}: {query}"
            answer = answer.member(step)
        assert answer is not None, f"{page.name}: {query}"


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


def test_no_command_has_a_token_in_its_arguments() -> None:
    """Every user of a machine sees the arguments of all processes."""
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    shown = re.compile(r"curl[^\n]*Bearer|-H [\"']Authorization: ")
    found = [
        f"{page.name}: {match[0]}" for page in pages for match in shown.finditer(page.read_text())
    ]
    assert found == []
