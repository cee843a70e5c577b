"""deploy/prometheus/alerts.yml: names, label values and runbooks that exist; each alert can fire
and can be silent, as promtool sees it; and each is in the tables for operators."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_cases import CASES, rule_tests
from headgate.core.groups.cluster_watch import Health
from headgate.core.groups.lag_rules import State
from headgate.core.groups.report import Heat
from headgate.core.outcome import Reason
from headgate.core.suppression.states import STATES
from headgate.telemetry.catalogue import METRICS
from headgate_spark import mirror_lag, replay_metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
VALUES = {
    ("headgate_group_state", "state"): set(State),
    ("headgate_group_heat", "heat"): set(Heat),
    ("headgate_cluster_partitions", "state"): set(Health._fields),
    ("headgate_workers", "state"): {"up", "wanted"},
    ("headgate_config_reloads_total", "result"): {"applied", "refused"},
    ("headgate_events_total", "reason"): set(Reason),
    ("headgate_dependency_up", "dependency"): {"kafka .*", "redis.*"},
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


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_its_runbook_is_there(rule: dict[str, Any]) -> None:
    file, _, anchor = rule["annotations"]["runbook"].partition("#")
    text = (DEPLOY.parent / file).read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert anchor in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_every_bad_state_has_an_alert() -> None:
    told = " ".join(rule["expr"] for rule in RULES)
    for state in set(State) - {State.OK}:
        assert f'state="{state}"' in told
    assert "headgate_group_stuck_commits" in told
    assert "headgate_group_probation" in told
    assert 'heat="cold"' in told


def test_each_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == {rule["alert"] for rule in RULES}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_each_alert_fires_and_is_silent_when_it_should(tmp_path: Path) -> None:
    file = tmp_path / "alerts_test.yml"
    file.write_text(yaml.safe_dump(rule_tests(str(DEPLOY / "prometheus" / "alerts.yml"))))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_operators_are_told_of_each_alert_of_a_gateway() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    [own] = [group["rules"] for group in groups if group["name"] == "headgate-gateway"]
    text = (DEPLOY / "README.md").read_text()
    assert re.findall(r"^\| `(Headgate\w+)`", text, re.MULTILINE) == [rule["alert"] for rule in own]
