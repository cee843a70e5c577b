"""Charts have scales, units and values, and no style of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headgate import charts
from headgate.charts import (
    Axis,
    Line,
    Mark,
    bars,
    columns,
    from_zero,
    line_chart,
    logarithmic,
    percent,
)
from support.root import ROOT

GATEWAY = ROOT / "gateway" / "headgate"
COUNTS = Axis("partitions", lambda n: f"{n:g}")
UNEVEN = Axis("max/mean", lambda n: f"{n:.3g}")


def ticks(text: str, anchor: str) -> list[int]:
    return [int(one) for one in re.findall(rf'text-anchor="{anchor}">(\d+)<', text)]


def test_charts_have_units_ticks_and_values() -> None:
    lines = [Line("by bytes", "a", [(3.0, 1.5), (24.0, 23.9)])]
    marks = [Mark(12.0, "now"), Mark(13.0, "chosen", "mark chosen")]
    text = line_chart("Counts", lines, COUNTS, UNEVEN, marks)
    assert ticks(text, "middle") == [0, 5, 10, 15, 20, 25]
    assert ticks(text, "end") == [0, 5, 10, 15, 20, 25]
    assert "<title>by bytes: 24 partitions, 23.9 max/mean</title>" in text
    assert ">partitions</text>" in text
    assert "<small>max/mean</small>" in text
    now, chosen = (re.search(rf'y="([\d.]+)"[^>]*>{one}<', text) for one in ("now", "chosen"))
    assert now is not None
    assert chosen is not None
    assert now[1] != chosen[1]


def test_a_logarithmic_axis_has_powers_of_two() -> None:
    lines = [Line("by bytes", "a", [(3.0, 1.5), (12.0, 2.0), (96.0, 23.9)])]
    text = line_chart("Counts", lines, COUNTS._replace(is_log=True), UNEVEN)
    assert ticks(text, "middle") == [2, 4, 8, 16, 32, 64, 128]
    points = re.search(r'points="([^"]+)"', text)
    assert points is not None
    left, middle, right = (float(one.split(",")[0]) for one in points[1].split())
    assert right - middle == pytest.approx(1.5 * (middle - left), abs=0.3)  # eight times, four


def test_columns_have_their_values() -> None:
    text = columns("Load", "partition", UNEVEN, [("partition 0", 2.5), ("partition 1", 0.5)])
    assert "<title>partition 0: 2.5 max/mean</title>" in text
    heights = re.findall(r'class="column"[^>]*height="([\d.]+)"', text)
    assert float(heights[0]) == pytest.approx(5 * float(heights[1]), abs=0.3)
    assert ">1</text>" in text


def test_names_are_escaped_and_no_style_is_in_the_markup() -> None:
    name = "<script>\"'&"
    lines = [Line(name, "a", [(0.0, 1.0), (1.0, 2.0)])]
    text = (
        line_chart(name, lines, COUNTS, UNEVEN, [Mark(1.0, name)])
        + bars(name, name, [(name, 0.5)])
        + columns(name, name, UNEVEN, [(name, 1.0)])
    )
    assert "<script" not in text
    assert "style=" not in text


def test_the_style_sheet_is_read_from_an_archive_too(tmp_path: Path) -> None:
    """As Spark's `--py-files` takes the code."""
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in (GATEWAY / "__init__.py", *(GATEWAY / "charts").iterdir()):
            if file.is_file():
                packed.write(file, file.relative_to(GATEWAY.parent))
    code = "from headgate import charts; print(charts.__file__, len(charts.style()))"
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True
    )
    where, length = done.stdout.split()
    assert where.startswith(str(archive))
    assert int(length) == len(charts.style()) > 1000


@given(some.lists(some.floats(0.001, 1e9), min_size=1, max_size=9))
def test_every_value_is_on_the_axis(values: list[float]) -> None:
    for scale in (from_zero(values), logarithmic(values)):
        assert all(-1e-6 <= scale.at(one) <= 1 + 1e-6 for one in values)
        assert 2 <= len(scale.ticks) <= 10
        places = [scale.at(one) for one in scale.ticks]
        assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0%"), (0.0004, "<0.1%"), (0.001, "0.1%"), (0.997, "99.7%"), (1, "100%")],
)
def test_a_share_that_is_small_does_not_look_like_nothing(share: float, shown: str) -> None:
    assert percent(share) == shown
