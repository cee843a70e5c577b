"""Names that others rely on stay: options, routes, fields, metrics, reasons, commands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headgate.model.outcome import Reason
from support.upgrades.former import THIS, Version

PAGES = ("commands", "http", "metrics", "options", "reasons")
# What the former version had and this one has not; the changelog says what to do.
GONE: Mapping[str, set[str]] = {}
_NAME = re.compile(r"\|(?:[^`|]*\|)?\s*`([^`]+)`")


def names(page: str) -> set[str]:
    """Of a generated page: its headings, and what its tables' rows begin with."""
    found, heading = set(), ""
    for line in page.partition("<!-- generated")[2].splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            found.add(heading)
        elif row := _NAME.match(line):
            # An option may have a short name before the long one: `-c F, --config F`.
            found.update(f"{heading}: {name.split()[0]}" for name in row[1].split(", "))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_name_of_the_former_version_is_there(former: Version, page: str) -> None:
    before, now = (names(_reference(one, page)) for one in (former, THIS))
    assert len(before) > 10
    gone = before - now
    if page == "http":  # the reasons of each operation are no names; `reasons` has all of them
        gone = {name for name in gone if name.rpartition(": ")[2] not in frozenset(Reason)}
    assert gone == GONE.get(page, set())


def _reference(version: Version, page: str) -> str:
    return (version.root / "docs" / "reference" / f"{page}.md").read_text()


def test_configurations_of_the_former_version_are_accepted(former: Version) -> None:
    for file in sorted((former.root / "deploy" / "config").glob("*.toml")):
        done = THIS.run("check", "--config", str(file))
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_former_version_names_what_it_does_not_know_of_a_configuration(
    former: Version,
) -> None:
    """Who goes back learns what to take out of the file."""
    file = THIS.root / "deploy" / "config" / "reference.toml"
    done = former.run("check", "--config", str(file))
    said = done.stdout + done.stderr
    known = names(_reference(former, "options"))
    unknown = [one for one in _given(tomllib.loads(file.read_text())) if _named(one) not in known]
    assert done.returncode == (2 if unknown else 0), said
    for section, option in unknown:
        line = f"{section}.{option}" if f"[{section}]" in known else section
        assert f"{line}: unknown" in said, said


def _given(file: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Section and option of all that a file gives. Tables of clusters and others: by their kind."""
    for section, table in file.items():
        for name, value in table.items():
            if section in ("clusters", "producers", "topics"):
                yield from ((f"{section}.{name}", option) for option in value)
            else:
                yield section, name


def _named(given: tuple[str, str]) -> str:
    """As the page of options has it."""
    section, option = given
    kind = section.partition(".")[0]
    return f"[{kind}.NAME]: {option}" if kind != section else f"[{section}]: {option}"
