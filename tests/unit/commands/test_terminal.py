"""Text, colours and tables for a terminal: nothing foreign acts on it, and no line is too long."""

from __future__ import annotations

import io
import itertools
import re
from contextlib import nullcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.commands.terminal import (
    PLAIN,
    Amount,
    Cell,
    Column,
    Ink,
    Pace,
    ProgressLine,
    Step,
    Style,
    cut,
    duration,
    fitted,
    padded,
    progress_text,
    share,
    short,
    shown,
    style_of,
    table,
    width,
)
from headgate.model.text import counted

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


def test_counted_nouns_are_singular_only_for_one() -> None:
    found = [counted(count, "record") for count in (0, 1, 2, 1234)]
    assert found == ["0 records", "1 record", "2 records", "1,234 records"]
    assert counted(2, "entry", "entries") == "2 entries"


# Progress: a line that is rewritten on a terminal, and a line at times elsewhere.


TERMINAL = Style(is_terminal=True)


class World:
    """A line on a stream, with a clock that is set."""

    def __init__(self, style: Style, room: int = 80, *, is_quiet: bool = False) -> None:
        self.now_s, self.out = 100.0, io.StringIO()
        self.line = ProgressLine(
            self.out,
            style,
            lambda: self.now_s,
            lambda: room,
            nullcontext(),
            "job: ",
            is_quiet=is_quiet,
        )

    def show(self, at_s: float, done: float, what: str = "copying") -> None:
        self.now_s = 100.0 + at_s
        self.line.show(Step(what, done, 1000, "records"))


@pytest.mark.parametrize(
    ("step", "per_s", "text"),
    [
        (Step("orders", 250, 1000, "records"), 10.0,
         "orders: [#####...............] 25 %, 250 of 1.00k records, 10/s, 1 min 15 s left"),
        (Step("orders", 5e6, 1e7, "B"), 1e6,
         "orders: [##########..........] 50 %, 5.00 MB of 10.0 MB, 1.00 MB/s, 5 s left"),
        (Step("orders", 7, None, "records", "3 s behind"), 0.0,
         "orders: 7 records, 0/s, 3 s behind"),
        (Step("orders", 12, 10, "tasks"), None,
         "orders: [####################] 100 %, 12 of 10 tasks"),
        (Step("orders", 0, 0, "tasks"), None, "orders: 0 of 0 tasks"),
    ],
)  # fmt: skip
def test_progress_text_of_a_step(step: Step, per_s: float | None, text: str) -> None:
    assert progress_text(step, per_s, has_bar=True) == text


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    pace = Pace()
    pace.note(0.0, 0)
    assert pace.per_s is None
    for second in range(1, 101):
        pace.note(second, 1000 + second)
    assert pace.per_s == pytest.approx(1.0)
    pace.note(101.0, 5)  # it began again
    assert pace.per_s is None


def test_what_else_is_counted_has_rates_of_its_own() -> None:
    step = Step(
        "main", 250, 1000, "offsets", "3 s behind", (Amount(240, "records"), Amount(5e6, "B"))
    )
    assert progress_text(step, 10.0, (9.6, 2e5), has_bar=False) == (
        "main: 25 %, 250 of 1.00k offsets, 240 records (9.60/s), 5.00 MB (200 kB/s), "
        "1 min 15 s left, 3 s behind"
    )
    assert ", 240 records, 5.00 MB, 3 s" in progress_text(step, None, (None, None), has_bar=False)


def lines_of(world: World, *whats: str) -> list[str]:
    written = world.out.getvalue().replace("\r\x1b[K", "\n").splitlines()
    return [line for line in written if any(f"job: {what}:" in line for what in whats)]


def test_several_that_share_a_line_keep_their_rates() -> None:
    world = World(PLAIN)
    for second in range(21):
        world.show(second, 10 * second, "one")
        world.show(second, 5 * second, "other")
    assert [line.split(", ")[2] for line in lines_of(world, "one")[1:]] == ["10/s"] * 2
    assert [line.split(", ")[2] for line in lines_of(world, "other")[1:]] == ["5/s"] * 2


def test_several_that_share_a_terminal_take_turns() -> None:
    world = World(TERMINAL)
    for tenth in range(100):
        world.show(tenth / 10, tenth, "one")
        world.show(tenth / 10, tenth, "other")
    seen = [line.split(":")[1] for line in lines_of(world, "one", "other")]
    turns = sum(before != after for before, after in itertools.pairwise(seen))
    assert 4 <= turns <= 7  # 2 s each


def test_the_line_is_taken_away_by_whose_it_is() -> None:
    world = World(TERMINAL)
    world.show(0, 1, "one")
    world.show(0, 1, "other")
    drawn = world.out.getvalue()
    world.line.end("one")
    assert world.out.getvalue() == drawn
    world.line.end("other")
    assert world.out.getvalue() == f"{drawn}\r\x1b[K"
    world.show(1, 1, "one")  # begins again


def test_quiet_says_only_what_must_be_known() -> None:
    world = World(PLAIN, is_quiet=True)
    world.show(0, 1)
    world.line.note("8 partitions")
    world.line.say("a broker is away")
    assert world.out.getvalue() == "job: a broker is away\n"


def test_on_a_terminal_one_line_is_rewritten() -> None:
    world = World(TERMINAL, room=40)
    world.show(0, 0)
    world.show(0.01, 1)  # too soon
    world.show(1, 500)
    first, second = world.out.getvalue().split("\r\x1b[K")
    assert first.startswith("job: copying: [....")
    assert second.startswith("job: copying: [##########")
    assert "\n" not in world.out.getvalue()
    assert width(second) == 39  # never in the last column, where terminals wrap


def test_a_line_that_stays_stands_above_it() -> None:
    world = World(TERMINAL)
    world.show(0, 500)
    drawn = world.out.getvalue()
    world.line.say("a broker is away")
    assert world.out.getvalue() == f"{drawn}\r\x1b[Kjob: a broker is away\n{drawn}"
    world.line.end()
    assert world.out.getvalue().endswith("\r\x1b[K")
    world.line.say("done")
    assert world.out.getvalue().endswith("\x1b[Kjob: done\n")


def test_where_there_is_no_terminal_a_line_comes_every_ten_seconds() -> None:
    world = World(PLAIN)
    for second in range(25):
        world.show(second, second)
    world.show(25, 1000)  # the end is always said
    world.show(25.1, 1000)  # and once
    world.show(26, 0, "another step")
    lines = world.out.getvalue().splitlines()
    assert lines[0] == "job: copying: 0 %, 0 of 1.00k records"
    assert lines[1] == "job: copying: 1.0 %, 10 of 1.00k records, 1/s, 16 min 30 s left"
    assert [line.split(", ")[1].split()[0] for line in lines] == ["0", "10", "20", "1.00k", "0"]
    assert "\x1b" not in world.out.getvalue()
