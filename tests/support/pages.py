"""Reads the pages of docs/ for the tests that run their examples.

A `sh` block with an `http` block behind it is an example: the command, and what it prints. In the
`http` block the status line, the headers and the JSON body are those of the answer; `…` stands for
anything: a whole value, a part of a text, or (as a name) any further members.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from support.root import ROOT

DOCS = ROOT / "docs"
# Examples run in this order, that of the site's navigation, against one gateway.
IN_ORDER = (
    "quickstart",
    "publish/first-event",
    "publish/batches",
    "publish/keys",
    "publish/cloudevents",
    "publish/confluent-rest",
    "publish/idempotency",
    "publish/suppression",
    "publish/coalescing",
    "publish/oversize",
    "publish/answers",
)
# These need topics of their own: tests/integration/docs/test_move_pages.py.
ON_THE_MOVE = (
    "move/index",
    "move/confluent-rest",
    "move/strimzi-bridge",
    "move/kafka-pixy",
    "move/own-producer",
)
ANYTHING = "…"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Answer(NamedTuple):
    """An HTTP answer as `curl -i` prints it; header names in lower case."""

    status: str
    headers: Mapping[str, str]
    body: Any


class Example(NamedTuple):
    """place: the page and the nearest heading."""

    place: str
    command: str
    expected: Answer


def examples() -> Iterator[Example]:
    """Yield the examples of all pages."""
    for page in IN_ORDER:
        yield from examples_of(page)


def run(example: Example, addresses: Mapping[str, str]) -> list[str]:
    """Run the command as it stands; return how its answer differs from the text's.

    addresses: what to put in place of those on the page.
    """
    script = example.command
    for shown, real in addresses.items():
        script = script.replace(shown, real)
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, timeout=180, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    found = read_answer(ended.stdout.decode())
    named = {name: found.headers.get(name) for name in example.expected.headers}
    return [
        *differences(example.expected.status, found.status, "status"),
        *differences(dict(example.expected.headers), named, "headers"),
        *differences(example.expected.body, found.body, "body"),
    ]


def examples_of(page: str) -> Iterator[Example]:
    """Yield the examples of one page in the order of its text."""
    text = text_of(page)
    for block, following in pairwise(_BLOCK.finditer(text)):
        if (block[1], following[1]) == ("sh", "http"):
            heading = _HEADING.findall(text, 0, block.start())[-1]
            yield Example(f"{page}, {heading}", block[2], read_answer(following[2]))


def text_of(page: str) -> str:
    """Return the Markdown of a page, which is named without `.md`."""
    return (DOCS / f"{page}.md").read_text()


def sources(page: str, language: str) -> list[str]:
    """Return the page's blocks in this language."""
    return [block[2] for block in _BLOCK.finditer(text_of(page)) if block[1] == language]


def read_answer(printed: str) -> Answer:
    """Take apart what `curl -i` prints; an interim answer (1xx) goes before the real one."""
    head, _, body = printed.replace("\r\n", "\n").partition("\n\n")
    status, *lines = head.splitlines()
    if re.match(r"HTTP/\S+ 1\d\d", status):
        return read_answer(body)
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    found = {name.lower(): value for name, value in headers.items()}
    return Answer(status.strip(), found, json.loads(body))


def differences(expected: Any, found: Any, at: str = "") -> Iterator[str]:
    """Yield where the two differ, as JSON Pointers with both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = expected.keys() - {ANYTHING}
        if names - found.keys() or (found.keys() - names and ANYTHING not in expected):
            yield f"{at}: members {sorted(expected)} expected, {sorted(found)} found"
        for name in names & found.keys():
            yield from differences(expected[name], found[name], f"{at}/{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{at}/{index}")
    elif not _is_like(expected, found):
        yield f"{at}: {expected!r} expected, {found!r} found"


def _is_like(expected: Any, found: Any) -> bool:
    if expected == ANYTHING:
        return True
    if isinstance(expected, str) and isinstance(found, str):
        pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
        return re.fullmatch(pattern, found, re.DOTALL) is not None
    return type(expected) is type(found) and bool(expected == found)


def anchors(document: Path) -> set[str]:
    """The anchors that a Markdown viewer gives to headings."""
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose))
    return {heading.strip().replace(" ", "-") for heading in plain}
