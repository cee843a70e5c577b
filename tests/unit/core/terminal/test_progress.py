"""Progress: a line that is rewritten on a terminal, and a line at times elsewhere."""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest

from headgate.core.terminal.progress import Pace, ProgressLine, Step, progress_text
from headgate.core.terminal.style import PLAIN, Style
from headgate.core.terminal.text import width

TERMINAL = Style(is_terminal=True)


class World:
    """A line on a stream, with a clock that is set."""

    def __init__(self, style: Style, room: int = 80) -> None:
        self.now_s, self.out = 100.0, io.StringIO()
        self.line = ProgressLine(
            self.out, style, lambda: self.now_s, lambda: room, nullcontext(), "job: "
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
