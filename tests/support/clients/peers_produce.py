"""The peers' own tests of producing (`peers_produce.toml`), and the tables that show them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).with_suffix(".toml")
PEERS = {"kafka-rest": "Confluent's kafka-rest", "bridge": "The Strimzi Kafka bridge"}


class Result(NamedTuple):
    """How a request ended. code: of one that failed as a whole.  answers: each record's, 0 = ok."""

    status: int
    code: int | None = None
    answers: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.answers is not None:
            return f"{self.status} [{', '.join(str(one or 'ok') for one in self.answers)}]"
        return str(self.status) if self.code is None else f"{self.status} / {self.code}"


class Case(NamedTuple):
    """One case. there, here: None where nothing is posted.  given: the rest of its table."""

    peer: str
    tests: tuple[str, ...]
    case: str
    there: Result | None
    here: Result | None
    why: str
    given: dict[str, Any]


def cases() -> list[Case]:
    """All cases, in the order of the file."""
    tree = tomllib.loads(DATA.read_text())
    return [_case(one, tree["why"]) for one in tree["case"]]


def _case(given: dict[str, Any], reasons: dict[str, str]) -> Case:
    there = _result(given["there"]) if "there" in given else None
    here = _result(given["here"]) if "here" in given else there
    why = reasons.get(given.get("why", ""), given.get("why", ""))
    return Case(given["peer"], tuple(given["tests"]), given["case"], there, here, why, given)


def _result(given: dict[str, Any]) -> Result:
    answers = given.get("answers")
    return Result(given["status"], given.get("code"), None if answers is None else tuple(answers))


def count(tests: Sequence[str]) -> int:
    """How many tests these are; a case may stand for several that it does not name."""
    several = (re.search(r"\((\d+) test", one) for one in sorted(set(tests)))
    return sum(1 if found is None else int(found[1]) for found in several)


def tables() -> str:
    """The tables of docs/publish/peers-produce-cases.md."""
    found = cases()
    parts = [_sums(found)]
    for peer, name in PEERS.items():
        rows = [_row(one) for one in found if one.peer == peer]
        head = (
            "| case | their tests | there | here | reason for a difference |\n|---|---|---|---|---|"
        )
        parts.append("\n".join([f"## {name}\n", head, *rows]) + "\n")
    return "\n".join(parts)


def _sums(found: Sequence[Case]) -> str:
    lines = [
        "| peer | their tests | cases | same response | other response | not compared "
        "| only codes compared |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for peer, name in PEERS.items():
        some = [one for one in found if one.peer == peer]
        compared = [one for one in some if one.there is not None]
        same = sum(one.there == one.here for one in compared)
        by_codes = sum("reason" in one.given for one in some)
        tests = count([test for one in some for test in one.tests])
        other = len(compared) - same
        figures = (tests, len(some), same, other, len(some) - len(compared), by_codes)
        lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines) + "\n"


def _row(one: Case) -> str:
    by_class: dict[str, list[str]] = {}
    for test in one.tests:
        owner, _, name = test.partition(".")
        by_class.setdefault(owner, []).append(name)
    shown = "; ".join(
        f"{owner}: {', '.join(names)}" if names[0] else owner for owner, names in by_class.items()
    )
    there = "" if one.there is None else str(one.there)
    here = "" if one.here is None else "the same" if one.here == one.there else str(one.here)
    case = one.case.replace("{}", "`{}`")
    return f"| {case} | {shown} | {there} | {here} | {one.why} |"
