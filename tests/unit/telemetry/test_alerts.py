"""deploy/prometheus/alerts.yml: names and label values that exist; each alert can fire and can be
silent, as promtool sees it; each has a runbook, and the PromQL of docs/operate can be asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate import ALERTS, alerts
from headgate.core.groups.cluster_watch import ClusterHealth
from headgate.core.groups.lag_rules import LagState
from headgate.core.groups.report import Heat
from headgate.core.outcome import Reason
from headgate.core.suppression.states import STATES
from headgate.telemetry.catalogue import METRICS
from headgate_spark.mirror import mirror_lag
from headgate_spark.replay import replay_metrics
from support.root import ROOT
from support.scenarios.alert_cases import CASES, rule_tests

DOCS = ROOT / "docs"
OPERATE = sorted((DOCS / "operate").rglob("*.md"))
PAGES = list(alerts())
RULES = [rule for _, rule in PAGES]
RE_ALL = re.MULTILINE | re.DOTALL
VALUES = {
    ("headgate_group_state", "state"): set(LagState),
    ("headgate_group_heat", "heat"): set(Heat),
    ("headgate_cluster_partitions", "state"): set(ClusterHealth._fields),
    ("headgate_workers", "state"): {"up", "wanted"},
    ("headgate_config_reloads_total", "result"): {"applied", "refused"},
    ("headgate_tls_reloads_total", "result"): {"applied", "refused"},
    ("headgate_events_total", "reason"): set(Reason),
    ("headgate_dependency_up", "dependency"): {"kafka .*", "redis.*", "spool"},
    ("up", "job"): {"headgate", "headgate-monitor"},
    ("headgate_suppression_state", "state"): set(STATES),
}
LABELS: dict[str, set[str]] = {
    **{name: set(metric.labels) for name, metric in METRICS.items()},
    "up": {"job", "instance"},
    # the textfiles of the jobs
    "headgate_mirror_timestamp_seconds": {"cluster", "instance"},
    "headgate_replay_timestamp_seconds": {"cluster", "instance"},
    **{f"headgate_{name}": {"topic", "partition"} for name in mirror_lag._HELP},
    "headgate_mirror_topic_skipped": {"topic", "reason"},
    **{f"headgate_{name}": {"cluster", "state"} for name in replay_metrics._HELP},
}
_METRIC = re.compile(r"\b(headgate_\w+|up)(?:\{(\w+)=~?\"([^\"]+)\"\})?")


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_can_fire(rule: dict[str, Any]) -> None:
    named = _METRIC.findall(rule["expr"])
    assert named
    labels: set[str] = set()
    for name, label, values in named:
        assert name in LABELS, name
        labels.update(LABELS[name])
        if label:
            assert label in LABELS[name]
            assert set(values.split("|")) <= VALUES[name, label]
    labels.add("instance")  # Prometheus' own
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= labels


@pytest.mark.parametrize(("page", "rule"), PAGES, ids=[rule["alert"] for _, rule in PAGES])
def test_its_runbook_says_what_to_do(page: str, rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"{page}/"
    text = (DOCS / f"{page}.md").read_text()
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert headings == [
        f"# {rule['alert']}",
        "## What users notice",
        "## Confirm",
        "## Mend",
        "## It is over when",
    ]


def test_every_runbook_has_an_alert() -> None:
    files = (DOCS / "operate" / "runbooks").glob("*/*.md")
    found = {str(file.relative_to(DOCS).with_suffix("")) for file in files}
    assert found == {page for page, _ in PAGES}


def queries(page: Path) -> list[str]:
    """The PromQL of a page, one query a line."""
    blocks = re.findall(r"^ *```promql\n(.*?)```", page.read_text(), RE_ALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("page", OPERATE, ids=lambda page: page.stem)
def test_the_queries_of_a_page_name_what_there_is(page: Path) -> None:
    # a runbook has the alert's own, and how to know that it is over
    assert len(queries(page)) >= 2 or page.parent.parent.name != "runbooks"
    for query in queries(page):
        for name, label, values in _METRIC.findall(query):
            assert name.removesuffix("_bucket") in LABELS, name
            assert not label or label in LABELS[name]
            if (name, label) in VALUES and values:
                assert set(values.split("|")) <= VALUES[name, label]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_the_queries_of_the_pages_can_be_asked(tmp_path: Path) -> None:
    exprs = [query for page in OPERATE for query in queries(page)]
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "pages", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_command_that_makes_links_of_them() -> None:
    """The one that the head of the file shows."""
    text = ALERTS.read_text()
    [command] = re.findall(r"^#   (sed .*)$", text, re.MULTILINE)
    ran = subprocess.run(command, shell=True, cwd=ALERTS.parent, capture_output=True, text=True)
    groups = yaml.safe_load(ran.stdout)["groups"]
    links = [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]]
    assert links == [f"https://docs.example.com/{page}/" for page, _ in PAGES]


def test_every_bad_state_has_an_alert() -> None:
    told = " ".join(rule["expr"] for rule in RULES)
    for state in set(LagState) - {LagState.OK}:
        assert f'state="{state}"' in told
    assert "headgate_group_stuck_commits" in told
    assert "headgate_group_probation" in told
    assert 'heat="cold"' in told


def test_each_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == {rule["alert"] for rule in RULES}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_each_alert_fires_and_is_silent_when_it_should(tmp_path: Path) -> None:
    files = []
    for rule in RULES:  # each alone: promtool evaluates all that a file has, minute by minute
        name = rule["alert"]
        alone, file = tmp_path / f"{name}.yml", tmp_path / f"{name}_test.yml"
        alone.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": [rule]}]}))
        file.write_text(yaml.safe_dump(rule_tests(name, str(alone))))
        files.append(str(file))
    ran = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
