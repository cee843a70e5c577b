"""The levels of log calls follow the rule of docs/operate/logs.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from support.root import ROOT

GATEWAY = ROOT / "gateway" / "headgate"
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
RECOVERS = re.compile(r"\b(again|is over|reconnected|no longer)\b")
IS_AWAY = re.compile(
    r"\b(is not available|do(es)? not answer|cannot be (reached|polled|fetched))\b"
)
ENDS = re.compile(
    r"^(worker %d|gateway|monitor|coalescer) (started|starts|stopped)$|^draining$|reloaded$"
)
CLIENTS = re.compile(r"\ba client\b")


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, str, str]]:
    """Where each log call is, its level, and its text."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, str, str]]:
    for path in sorted(GATEWAY.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "log." in source else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            text = node.args[0] if node.args else None
            if (
                node.func.attr in LEVELS
                and ast.unparse(node.func.value).rpartition(".")[2].endswith("log")
                and isinstance(text, ast.Constant)
            ):
                where = f"{path.relative_to(GATEWAY)}:{node.lineno}"
                yield where, node.func.attr, str(text.value)


@pytest.mark.parametrize(
    ("kind", "level"),
    [(RECOVERS, "info"), (IS_AWAY, "warning"), (ENDS, "info"), (CLIENTS, "info")],
    ids=["recovers", "is away", "starts and ends", "mistake of a client"],
)
def test_the_same_kind_of_line_has_the_same_level(
    calls: list[tuple[str, str, str]], kind: re.Pattern[str], level: str
) -> None:
    found = [call for call in calls if kind.search(call[2])]
    assert found
    assert [call for call in found if call[1] != level] == []


def test_an_end_of_an_outage_needs_no_person() -> None:
    for path in GATEWAY.rglob("*.py"):
        for call in re.findall(r"log\.(\w+)\([^()]*\"away_s\"", path.read_text()):
            assert call == "info", path
