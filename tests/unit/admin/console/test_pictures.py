"""A partition's commits as a picture."""

import re

from headgate.admin.console.groups import Dot, picture


def lines(svg: str) -> list[tuple[float, ...]]:
    """x1, x2, y1, y2 of what is drawn level: the end of the log, and where the group stands."""
    found = re.findall(r'<line class="\w+" x1="(\S+)" x2="(\S+)" y1="(\S+)" y2="(\S+)"/>', svg)
    return [tuple(map(float, one)) for one in found]


def test_a_stuck_partition_is_a_flat_line_below_the_end_of_the_log() -> None:
    drawn = picture([Dot(1000, 7, "app (m1)")], end=500, now_s=1600, label="Commits")
    assert drawn is not None
    end, held = lines(str(drawn.svg))
    assert held[0] < held[1]  # it goes on until now
    assert held[2] == held[3] > end[2]  # downwards is more


def test_whoever_keeps_up_ends_at_the_end_of_the_log() -> None:
    dots = [Dot(1000, 7, "app (m1)"), Dot(1300, 500, "app (m1)")]
    drawn = picture(dots, end=500, now_s=1600, label="Commits")
    assert drawn is not None
    end, held = lines(str(drawn.svg))
    assert end[2] == held[2]


def test_without_a_commit_there_is_nothing_to_draw() -> None:
    assert picture([], end=500, now_s=1600, label="Commits") is None
