"""docs/operate/logs.md: its figures are those of the code, and its lines and fields exist."""

from __future__ import annotations

import re

import pytest

from headgate.http.request_log import LINES, MAX_PRODUCERS, WINDOW_S
from headgate.metrics.logs import ACCESS, LOG_FIELDS, REPEAT_S, REQUESTS
from support.pages import DOCS
from support.root import ROOT

PAGE = (DOCS / "operate" / "logs.md").read_text()
KNOWN = PAGE.partition("## Lines to know")[2].partition("\n\n```")[0]
ROWS = re.findall(r"^\| (.*) \| (.*) \|$", KNOWN, re.MULTILINE)[2:]
OTHERS = {REQUESTS, ACCESS, "logs.access"}  # loggers, and an option
CODE = "\n".join(file.read_text() for file in (ROOT / "gateway" / "headgate").rglob("*.py"))


def test_the_bounds_of_lines_about_requests_are_those_of_the_code() -> None:
    said = " ".join(KNOWN.split())
    assert WINDOW_S == 60
    assert f"A worker writes {LINES} lines a minute of each reason and producer" in said
    assert f"If more than {MAX_PRODUCERS} producers fail for one reason" in said
    assert f"then every {REPEAT_S:.0f} s with `repeated`" in " ".join(PAGE.split())


@pytest.mark.parametrize(("line", "fields"), ROWS, ids=[line[:30] for line, _ in ROWS])
def test_a_line_to_know_exists_with_these_fields(line: str, fields: str) -> None:
    for text in set(re.findall(r"`([^`]+)`", line)) - OTHERS:
        assert f'"{text.replace(" N ", " %d ")}"' in CODE, text
    named = set(re.findall(r"`(\w+)`", fields))
    assert named - set(LOG_FIELDS) == set()
