"""The table of threats names tests that are there, and every file of attacks is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.root import ROOT

PAGE = ROOT / "docs" / "design" / "threats.md"
ATTACKS = [ROOT / "tests" / kind / "attacks" for kind in ("app", "integration")]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> Iterator[tuple[str, str, str]]:
    """Attack, defence, tests."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_table = line.startswith("| ") and len(cells) == 3
        if is_table and "tests/" in line:
            attack, defence, tests = cells
            yield attack, defence, tests


def names_in(path: Path) -> set[str]:
    found = ast.walk(ast.parse(path.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in found if isinstance(one, kinds) and one.name.startswith("test_")}


def test_each_row_names_tests_that_exist() -> None:
    missing = []
    for attack, defence, tests in rows():
        named = _TEST.findall(tests)
        assert attack, tests
        assert defence, attack
        assert named, attack
        assert _TEST.sub("", tests).replace(",", "").strip() == "", f"no name of a test: {tests}"
        missing += [
            f"{file}::{name}"
            for file, name in named
            if not (ROOT / file).is_file() or name not in names_in(ROOT / file)
        ]
    assert missing == []


def test_each_row_of_a_table_of_attacks_is_read() -> None:
    text = PAGE.read_text()
    tables = re.findall(r"^\| attack \| defence \| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)
    assert len(tables) >= 4
    assert sum(table.count("\n") for table in tables) == len(list(rows()))


def test_each_file_of_attacks_is_in_the_table() -> None:
    named = {file for _, _, tests in rows() for file, _ in _TEST.findall(tests)}
    there = {
        path.relative_to(ROOT).as_posix() for folder in ATTACKS for path in folder.glob("test_*.py")
    }
    assert there
    assert there - named == set()
