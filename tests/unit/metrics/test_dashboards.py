"""deploy/grafana: what the dashboards ask for exists, and each panel explains itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from generate import DASHBOARDS, alerts
from headgate.metrics.catalogue import METRICS
from support.known_metrics import JOB_LABELS, LABELS, records, wrong
from support.pages import DOCS as PAGES
from support.pages import anchors
from support.promql import grouped_by, selectors

SHOWN = [json.loads(file.read_text()) for file in sorted(DASHBOARDS.glob("*.json"))]
# Units of Grafana (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"bytes", "Bps", "short", "eps", "recps", "reqps", "percentunit", "s", "bool_yes_no"}
BUILT_IN = {"$__rate_interval"}
# Stands for the address of the site in the links (docs/operate/monitor.md).
DOCS = "https://docs.example.com"


class Panel(NamedTuple):
    """board: the title of its dashboard, with the names of its variables."""

    board: str
    variables: set[str]
    shown: dict[str, Any]


def panels() -> Iterator[Panel]:
    for board in SHOWN:
        variables = {one["name"] for one in board["templating"]["list"]}
        for shown in board["panels"]:
            if shown["type"] != "row":
                yield Panel(board["title"], variables, shown)


PANELS = list(panels())
IDS = [f"{one.board.rpartition('/ ')[2]}: {one.shown['title']}" for one in PANELS]
EXPRS = sorted({target["expr"] for one in PANELS for target in one.shown["targets"]})
each_panel = pytest.mark.parametrize("panel", PANELS, ids=IDS)


def test_a_file_has_the_name_of_its_board() -> None:
    for file in DASHBOARDS.iterdir():
        board = json.loads(file.read_text())
        assert board["uid"] == f"headgate-{file.stem}"
        assert board["title"].startswith("Headgate / ")
        assert board["description"]
        assert board["schemaVersion"] == 39  # of Grafana 10; newer ones convert it


def test_nothing_has_the_name_or_number_of_another() -> None:
    uids = [board["uid"] for board in SHOWN]
    titles = [board["title"] for board in SHOWN]
    assert len(set(uids)) == len(uids) == len(set(titles))
    for board in SHOWN:
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        assert len(board["uid"]) <= 40  # Grafana refuses longer ones
        for is_row in (True, False):
            named = [one["title"] for one in board["panels"] if (one["type"] == "row") is is_row]
            assert len(set(named)) == len(named)


@each_panel
def test_a_panel_explains_itself(panel: Panel) -> None:
    shown = panel.shown
    assert shown["title"]
    assert shown["description"].endswith(".")
    assert shown["fieldConfig"]["defaults"]["unit"] in UNITS
    (link,) = shown["links"]
    path, _, anchor = link["url"].removeprefix(f"{DOCS}/").partition("#")
    page = next(
        (one for one in (PAGES / f"{path}index.md", PAGES / f"{path[:-1]}.md") if one.is_file()),
        None,
    )
    assert page is not None, path
    assert not anchor or anchor in anchors(page)


@each_panel
def test_what_a_panel_asks_for_exists(panel: Panel) -> None:
    for target in panel.shown["targets"]:
        expr = target["expr"]
        assert wrong(expr) == []
        used = set(re.findall(r"\$\w+", expr)) - BUILT_IN
        assert {name[1:] for name in used} <= panel.variables
        labels = grouped_by(expr) or set().union(*(LABELS[x.name] for x in selectors(expr)))
        assert set(re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))) <= labels


@each_panel
def test_a_panel_shows_the_chosen_installation(panel: Panel) -> None:
    for target in panel.shown["targets"]:
        for one in selectors(target["expr"]):
            assert one.matchers.get("installation") == "$installation", one.name


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_the_lag_of_an_owner_counts_each_group_once(tmp_path: Path) -> None:
    """Two monitors watch one group; the same group of another installation has another owner."""
    (expr,) = (expr for expr in EXPRS if "headgate_group_owner" in expr)
    labels = 'cluster="c",group="g",instance="%s",installation="%s"'
    monitors = {("a", "prod"): "x", ("b", "prod"): "x", ("c", "staging"): "y"}
    series = {}
    for monitor, owner in monitors.items():
        for topic in "st":
            name = f'headgate_group_lag{{{labels % monitor},topic="{topic}",partition="0"}}'
            series[name] = "7x10"
        series[f'headgate_group_owner{{{labels % monitor},owner="{owner}"}}'] = "1x10"
    asked = {
        "expr": re.sub(r"\$\w+", ".*", expr),
        "eval_time": "5m",
        "exp_samples": [{"labels": f'{{owner="{owner}"}}', "value": 14} for owner in "xy"],
    }
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    story = {"interval": "1m", "input_series": inputs, "promql_expr_test": [asked]}
    file = tmp_path / "owners_test.yml"
    file.write_text(yaml.safe_dump({"tests": [story]}))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "panel", [one for one in PANELS if one.shown["type"] == "table"], ids=lambda one: one.board
)
def test_the_columns_of_a_table_have_the_same_rows(panel: Panel) -> None:
    """Grafana joins them by all labels; a series that is not summed has its name as one."""
    outer = [re.match(r"\w+ by \(([^)]*)\)", one["expr"]) for one in panel.shown["targets"]]
    assert len({found and found.group(1) for found in outer}) == 1
    assert outer[0] is not None


def datasources(node: object) -> Iterator[object]:
    """Everything that says where to ask, at any depth."""
    if isinstance(node, dict):
        if "datasource" in node:
            yield node["datasource"]
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from datasources(one)


def test_no_datasource_is_fixed() -> None:
    for board in SHOWN:
        first = board["templating"]["list"][0]
        assert (first["type"], first["name"]) == ("datasource", "datasource")
        found = list(datasources(board))
        assert len(found) > len(board["panels"])
        assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in found)


def test_each_variable_is_used_and_has_values() -> None:
    for board in SHOWN:
        asked = json.dumps(board["panels"])
        for one in board["templating"]["list"][1:]:
            assert f'=~\\"${one["name"]}\\"' in asked, one["name"]
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
            assert found is not None
            names = re.findall(r"headgate_\w+", found.group(1))
            assert all(found.group(2) in LABELS[name] for name in names if name in LABELS)
            assert found.group(2) == one["name"]


@pytest.mark.parametrize("board", SHOWN, ids=lambda board: board["uid"])
def test_no_panel_covers_another(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in board["panels"]):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_every_metric_is_on_a_dashboard() -> None:
    rules = dict(records())
    # through a rule that reads another one, too
    asked = {one.name for expr in EXPRS for one in selectors(expr)}
    for _ in rules:
        asked |= {one.name for name in asked & set(rules) for one in selectors(rules[name])}
    plain = {re.sub("_(bucket|sum|count)$", "", name) for name in asked} | asked
    assert {*METRICS, *JOB_LABELS} - plain == set()


def test_every_rule_is_read_by_something() -> None:
    exprs = [*EXPRS, *(rule["expr"] for _, rule in alerts()), *(expr for _, expr in records())]
    asked = {one.name for expr in exprs for one in selectors(expr)}
    assert {name for name, _ in records()} - asked == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expr.replace("$__rate_interval", "5m")}
        for number, expr in enumerate(EXPRS)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
