"""Reads README.md for the tests that run it.

A `sh` block with an `http` block behind it is an example: the command, and what it prints. In the
`http` block the status line, the headers and the JSON body are those of the answer; `…` stands for
anything: a whole value, a part of a text, or (as a name) any further members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

README = Path(__file__).resolve().parents[1] / "README.md"
ANYTHING = "…"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Answer(NamedTuple):
    """An HTTP answer as `curl -i` prints it; header names in lower case."""

    status: str
    headers: Mapping[str, str]
    body: Any


class Example(NamedTuple):
    """heading: the nearest one above it."""

    heading: str
    command: str
    expected: Answer


def examples() -> Iterator[Example]:
    """Yield the examples in the order of the text."""
    text = README.read_text()
    blocks = list(_BLOCK.finditer(text))
    for block, following in pairwise(blocks):
        if (block[1], following[1]) == ("sh", "http"):
            heading = _HEADING.findall(text, 0, block.start())[-1]
            yield Example(heading, block[2], read_answer(following[2]))


def source(language: str) -> str:
    """Return the only block in this language."""
    (found,) = [block[2] for block in _BLOCK.finditer(README.read_text()) if block[1] == language]
    return found


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
