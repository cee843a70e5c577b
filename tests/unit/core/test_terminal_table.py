"""Text, colours and tables for a terminal: nothing foreign acts on it, and no line is too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.terminal import (
    Cell,
    Column,
    Ink,
    Style,
    counted,
    cut,
    duration,
    fitted,
    padded,
    share,
    short,
    shown,
    style_of,
    table,
    width,
)

COLOURED = Style(is_terminal=True, has_colours=True)
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egroup\u0085\u009b31m宽\r\n"


def test_what_a_terminal_acts_on_is_written_out() -> None:
    text = shown(HOSTILE)
    assert text == r"\x1b]0;owned\x07\x1b[2J\u202egroup\x85\x9b31m宽\r\n"
    assert shown("plain-name.7") == "plain-name.7"
    assert shown("\ud800") == r"\ud800"


def test_wide_characters_take_two_columns() -> None:
    assert (width("a宽\u0301"), width("名前"), fitted("名前", 3)) == (3, 4, "名…")


def test_no_pile_of_marks_covers_other_lines() -> None:
    assert width(shown("e" + "\u0301" * 500)) > 490
    assert width(shown("ü")) == width(shown("u\u0308")) == 1
    assert shown("\u0301x").startswith("\\u0301")  # it would stand on what is before the cell


@given(st.text(), st.integers(0, 30))
@example("宽宽宽", 4)
def test_a_text_takes_no_more_columns_than_it_may(text: str, columns: int) -> None:
    assert width(fitted(shown(text), columns)) <= columns
    assert width(padded(shown(text), columns)) == columns
    assert shown(text).isprintable()


TWO = (Column("name", gives_way=True), Column("bytes", right=True))


def test_columns_line_up_whatever_is_in_them() -> None:
    rows = [("orders", "1"), ("宽宽", "1000000"), (HOSTILE, "3")]
    lines = list(table(TWO, rows))
    assert lines[1].startswith("orders  ")
    assert {width(line) for line in lines} == {width(lines[0])}
    assert lines[2].startswith("宽宽  ")


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4), st.integers(1, 60))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str]], room: int) -> None:
    lines = list(table(TWO, rows, room=room))
    assert len(lines) == len(rows) + 1
    assert all(width(line) <= room for line in lines)
    assert all(line.isprintable() for line in lines)


def test_the_column_that_gives_way_leaves_the_figures_whole() -> None:
    (_, line) = table(TWO, [("a" * 80, "1234567")], room=30)
    assert line == "a" * 20 + "…  1234567"


def test_only_the_text_is_painted() -> None:
    (_, line) = table(TWO, [("orders", Cell("9", Ink.BAD))], COLOURED)
    assert line == "orders      \x1b[31m9\x1b[0m"
    plain = list(table(TWO, [("orders", Cell("9", Ink.BAD))]))
    assert [
        re.sub(r"\x1b\[[0-9;]*m", "", one) for one in table(TWO, [("orders", "9")], COLOURED)
    ] == plain


def test_a_cut_line() -> None:
    assert cut("a\x1bb" * 9, 9) == r"a\x1bba\…"


@pytest.mark.parametrize(
    ("environ", "is_terminal", "style"),
    [
        ({"TERM": "xterm"}, True, (True, True)),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, (True, True)),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, (True, False)),
        ({"TERM": "dumb"}, True, (False, False)),
        ({}, True, (False, False)),
        ({"TERM": "xterm"}, False, (False, False)),
    ],
)
def test_colours_are_for_terminals(
    environ: dict[str, str], is_terminal: bool, style: tuple[bool, bool]
) -> None:
    assert style_of(environ, is_terminal=is_terminal) == style


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (None, "", "-"), (0, "", "0"), (0.5, "", "0.50"), (7, "", "7"), (950, "", "950"),
        (999.7, "", "1.00k"), (1250, "", "1.25k"), (12_500, "", "12.5k"),
        (3_040_000, "B", "3.04 MB"),
        (-4096, "", "-4.10k"), (12, "B", "12 B"), (1e24, "", "1000000E"),
    ],
)  # fmt: skip
def test_a_figure_has_three_digits(number: float | None, unit: str, text: str) -> None:
    assert short(number, unit) == text


def test_shares_and_durations() -> None:
    assert [share(one) for one in (None, 0.0, 0.004, 0.0996, 0.5, 1.0)] == [
        "-", "0 %", "0.4 %", "10 %", "50 %", "100 %",
    ]  # fmt: skip
    found = [duration(one) for one in (None, 0.2, 59.6, 200, 7500, 100_000, 86_400)]
    assert found == ["-", "0 s", "1 min", "3 min 20 s", "2 h 5 min", "1 d 3 h", "1 d"]


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_none(odd: float) -> None:
    assert {short(odd), short(odd, "B"), share(odd), duration(odd)} == {"-"}


def test_one_is_one() -> None:
    found = [counted(count, "record") for count in (0, 1, 2, 1234)]
    assert found == ["0 records", "1 record", "2 records", "1,234 records"]
    assert counted(2, "entry", "entries") == "2 entries"
