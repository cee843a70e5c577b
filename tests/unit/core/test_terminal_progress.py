"""Progress: a line that is rewritten on a terminal, and a line at times elsewhere."""

from __future__ import annotations

import io
import itertools
from contextlib import nullcontext

import pytest

from headgate.core.terminal import (
    PLAIN,
    Amount,
    Pace,
    ProgressLine,
    Step,
    Style,
    progress_text,
    width,
)

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
def test_what_is_said(step: Step, per_s: float | None, text: str) -> None:
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
