"""Checks the prose of Markdown pages with the rules of docs/.vale/Headgate, as Vale does.

Vale is a program that Go builds; these rules hold without it. Code, quoted words, addresses and
comments are exempt. `PYTHONPATH=tests .venv/bin/python -m support.plain_english PAGE ...` prints
the findings of pages, and without a page those of every page that is converted. `--shrink` lowers
the numbers of the baseline to the present ones.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from support.root import ROOT

RULES = ROOT / "docs" / ".vale" / "Headgate"
# Findings per page that existed before the rules. A number may only become smaller.
BASELINE = ROOT / "tests" / "support" / "plain_english.baseline"

_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_QUOTED = re.compile(r'"[^"\n]+"')
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"</?[a-zA-Z][^>\n]*>|\{[.#][^}\n]*\}")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.) +")
_HEADING = re.compile(r"^#+ +")
_MARKUP = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_END = re.compile(r"(?<=[.!?])[)\]]*\s+(?=[A-Z0-9(\[])")
_ABBREVIATED = re.compile(r"(?:\be\.g|\bi\.e|\bvs|\bcf|\bno)\.$", re.IGNORECASE)


class Finding(NamedTuple):
    """One place where a rule does not hold."""

    line: int
    rule: str
    message: str
    sentence: str


class Rule(NamedTuple):
    """One file of RULES. limit: how many matches a sentence may have."""

    name: str
    pattern: re.Pattern[str]
    limit: int
    message: str


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rules in the order of their names."""
    return tuple(map(_rule, sorted(RULES.glob("*.yml"))))


def _rule(path: Path) -> Rule:
    """Read one of the two kinds of rules that Headgate uses."""
    rule = yaml.safe_load(path.read_text())
    if rule["extends"] == "occurrence":
        return Rule(path.stem, re.compile(rule["token"]), rule["max"], rule["message"])
    assert rule["extends"] == "existence", path
    edge = "" if rule.get("nonword") else r"\b"
    pattern = f"{edge}(?:{'|'.join(rule['tokens'])}){edge}"
    flags = re.IGNORECASE if rule.get("ignorecase") else 0
    return Rule(path.stem, re.compile(pattern, flags), 0, rule["message"])


def findings(text: str) -> list[Finding]:
    """Return every place of a Markdown text where a rule does not hold."""
    return [
        Finding(line, rule.name, rule.message.replace("%s", matches[0]), sentence)
        for line, sentence in sentences(text)
        for rule in rules()
        if len(matches := [match.group() for match in rule.pattern.finditer(sentence)]) > rule.limit
    ]


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, sentence) of the prose: paragraphs, list items, table cells, headings."""
    for line, block in _blocks(_without_code(text)):
        start = 0
        for end in _END.finditer(block):
            if not _ABBREVIATED.search(block[start : end.start()]):
                yield line + block.count("\n", 0, start), _joined(block[start : end.start()])
                start = end.end()
        yield line + block.count("\n", 0, start), _joined(block[start:])


def _joined(text: str) -> str:
    return " ".join(text.split())


def _without_code(text: str) -> str:
    """Blank out everything that is exempt, and keep the lines."""

    def lines_of(match: re.Match[str]) -> str:
        return "\n" * match.group().count("\n")

    text = _COMMENT.sub(lines_of, _FENCE.sub(lines_of, text))
    text = _CODE.sub(lambda match: "CODE" + lines_of(match), text)
    text = _QUOTED.sub("QUOTED", text).replace("<br>", "|")  # a line of a cell is a cell
    return _MARKUP.sub("", _TAG.sub("", _LINK.sub(r"\1", text)))


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each paragraph, item, cell and heading."""
    block: list[str] = []
    first = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        starts = _ITEM.match(line) or _HEADING.match(line)
        if block and (starts or not line.strip() or line.lstrip().startswith(("|", "!!!", "???"))):
            yield first, "\n".join(block)
            block = []
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").replace(r"\|", "/").split("|"):
                if re.search(r"\w", cell):
                    yield number, cell.strip()
        elif line.strip():
            first = first if block else number
            block.append(line[starts.end() :] if starts else line.strip())
            if _HEADING.match(line):
                yield first, block.pop()


def pages() -> list[Path]:
    """Return the pages that users and contributors read."""
    beside = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    clients = (ROOT / "clients").glob("*/README.md")
    return [*(ROOT / name for name in beside), *clients, *sorted((ROOT / "docs").rglob("*.md"))]


def baseline() -> dict[str, int]:
    """Return the allowed number of findings of each page that is not converted yet."""
    lines = (line.split() for line in BASELINE.read_text().splitlines() if line[:1] != "#")
    return {page: int(number) for number, page in lines}


def counted() -> dict[str, int]:
    """Return the number of findings of each page that has any."""
    counts = {str(page.relative_to(ROOT)): len(findings(page.read_text())) for page in pages()}
    return {page: count for page, count in counts.items() if count}


def converted() -> list[Path]:
    """Return the pages that are not in the baseline: no finding is allowed in them."""
    waiting = baseline()
    return [page for page in pages() if str(page.relative_to(ROOT)) not in waiting]


def shrink() -> None:
    """Write the baseline with the present numbers, where these are smaller."""
    counts = counted()
    comments = [line for line in BASELINE.read_text().splitlines() if line.startswith("#")]
    left = {
        page: min(number, counts[page]) for page, number in baseline().items() if page in counts
    }
    lines = [*comments, *(f"{number} {page}" for page, number in sorted(left.items()))]
    BASELINE.write_text("\n".join(lines) + "\n")


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 if there are any."""
    if arguments == ["--shrink"]:
        shrink()
        return 0
    if arguments == ["--converted"]:
        print(*(page.relative_to(ROOT) for page in converted()))  # noqa: T201
        return 0
    found = 0
    for page in map(Path, arguments) if arguments else converted():
        for finding in findings(page.read_text()):
            found += 1
            print(f"{page}:{finding.line}: {finding.rule}: {finding.message}")  # noqa: T201
            print(f"    {finding.sentence}")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
