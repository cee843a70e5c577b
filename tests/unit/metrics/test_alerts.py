"""deploy/prometheus/alerts.yml: names and label values that exist; each alert can fire and can be
silent, as promtool sees it; each has a runbook, and the PromQL of docs/operate can be asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate import ALERTS, alerts
from headgate.monitor.rules import LagState
from support.alerts import gateway, groups, monitor, tiers
from support.alerts.case import Case, Series, labelled, rule_tests
from support.known_metrics import LABELS, RECORDING, wrong
from support.promql import selectors
from support.root import ROOT

DOCS = ROOT / "docs"
MONITOR = DOCS / "operate" / "monitor.md"
OPERATE = sorted((DOCS / "operate").rglob("*.md"))
PAGES = list(alerts())
RULES = [rule for _, rule in PAGES]
CASES = {
    "groups": groups.CASES,
    "monitor": monitor.CASES,
    "gateway": gateway.CASES,
    "tiers": tiers.CASES,
}
RE_ALL = re.MULTILINE | re.DOTALL


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_can_fire(rule: dict[str, Any]) -> None:
    named = selectors(rule["expr"])
    assert named
    assert wrong(rule["expr"]) == []
    assert not re.search(r"\b(by|on) \(", rule["expr"])  # these drop the labels of the target
    added = re.findall(r'label_replace\(.*?, "(\w+)", "\$1"', rule["expr"])
    labels = set(added).union(*(LABELS[one.name] for one in named))
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= labels


@pytest.mark.parametrize(("page", "rule"), PAGES, ids=[rule["alert"] for _, rule in PAGES])
def test_its_runbook_says_what_to_do(page: str, rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"{page}/"
    text = (DOCS / f"{page}.md").read_text()
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert headings == [
        f"# {rule['alert']}",
        "## Symptoms",
        "## Impact",
        "## Check",
        "## Fix",
        "## Resolved when",
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
        assert wrong(query) == []


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


def test_the_command_that_drops_another_label(tmp_path: Path) -> None:
    """The one on the page about several installations."""
    (command,) = re.findall(r"`(sed -i .*recording\.yml alerts\.yml)`", MONITOR.read_text())
    for file in (ALERTS, RECORDING):
        (tmp_path / file.name).write_text(file.read_text())
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    for file in (ALERTS, RECORDING):
        rules = [line for line in (tmp_path / file.name).read_text().splitlines() if "(" in line]
        assert not any("(instance, pod" in line.replace("pod, node", "") for line in rules)
        assert any("without (instance, pod, node" in line for line in rules)


def test_every_bad_state_has_an_alert() -> None:
    told = " ".join(rule["expr"] for rule in RULES)
    for state in set(LagState) - {LagState.OK}:
        assert f'state="{state}"' in told
    assert "headgate_group_stuck_commits" in told
    assert "headgate_group_probation" in told
    assert 'heat="cold"' in told


def test_the_example_for_alertmanager_names_alerts_and_their_labels() -> None:
    by_name = {rule["alert"]: rule for rule in RULES}
    example = yaml.safe_load((ALERTS.parents[1] / "alertmanager" / "alertmanager.yml").read_text())
    receivers = {one["name"] for one in example["receivers"]}
    route = example["route"]
    assert {route["receiver"], *(one["receiver"] for one in route["routes"])} == receivers
    severities = {rule["labels"]["severity"] for rule in RULES}
    for inhibition in example["inhibit_rules"]:
        assert inhibition["equal"]  # else an alert of one gateway keeps back those of all others
        for side in ("source_matchers", "target_matchers"):
            matched = dict(re.findall(r'^(\w+) =~? "(.*)"$', "\n".join(inhibition[side]), re.M))
            assert len(matched) == len(inhibition[side])
            names = matched.pop("alertname").split("|")
            for rule in (by_name[name] for name in names):
                labels = set().union(*(LABELS[one.name] for one in selectors(rule["expr"])))
                assert {*matched, *inhibition["equal"]} <= labels, rule["alert"]
                for dropped in re.findall(r"\bwithout \(([^)]*)\)", rule["expr"]):
                    assert not {*inhibition["equal"]} & {*dropped.split(", ")}, rule["alert"]
    for one in route["routes"]:
        assert set(re.findall(r'severity = "(\w+)"', one["matchers"][0])) < severities


def of(subject: str) -> list[dict[str, Any]]:
    """The rules whose runbooks are in this folder."""
    return [rule for page, rule in PAGES if page.split("/")[2] == subject]


@pytest.mark.parametrize("subject", CASES)
def test_each_alert_has_a_case(subject: str) -> None:
    assert {case.alert for case in CASES[subject]} == {rule["alert"] for rule in of(subject)}
    assert all(case.fires and case.fires != case.silent for case in CASES[subject])
    assert sum(len(of(one)) for one in CASES) == len(RULES)


def promtool_agrees(
    folder: Path, rules: list[dict[str, Any]], cases: Iterable[Case], labels: str = ""
) -> None:
    files = []
    for rule in rules:  # each alone: promtool evaluates all of a file, minute by minute
        name = rule["alert"]
        alone, file = folder / f"{name}.yml", folder / f"{name}_test.yml"
        alone.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": [rule]}]}))
        own = [case for case in cases if case.alert == name]
        file.write_text(yaml.safe_dump(rule_tests(own, str(alone), labels)))
        files.append(str(file))
    ran = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
@pytest.mark.parametrize("subject", CASES)
def test_each_alert_fires_and_is_silent_when_it_should(tmp_path: Path, subject: str) -> None:
    promtool_agrees(tmp_path, of(subject), CASES[subject])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_an_alert_about_a_group_has_the_owner(tmp_path: Path) -> None:
    """Two monitors report one owner; the same group of another installation has another owner."""
    owner = 'headgate_group_owner{cluster="c",group="g",owner="%s",instance="%s",installation="%s"}'
    owners = {
        owner % ("team", "a", "prod"): "1x120",
        owner % ("team", "b", "prod"): "1x120",
        owner % ("others", "c", "staging"): "1x120",
    }
    rules = [rule for rule in of("groups") if "$labels.group" in rule["annotations"]["summary"]]
    assert len(rules) == len(of("groups")) - 1  # a rogue reader is in no group
    assert all("$labels.cluster" in rule["annotations"]["summary"] for rule in of("groups"))
    monitors = [("a", "prod"), ("b", "prod"), ("c", "staging")]

    def reported(series: Series) -> Series:
        found = [
            labelled(series, instance=instance, installation=installation)
            for instance, installation in monitors
        ]
        return owners | found[0] | found[1] | found[2]

    cases = [
        case._replace(fires=reported(case.fires), silent=reported(case.silent))
        for case in groups.CASES
        if not any("instance=" in name for name in case.fires)
    ]
    assert {case.alert for case in cases} >= {rule["alert"] for rule in rules}
    promtool_agrees(tmp_path, rules, cases, ',owner="team",installation="prod",cluster="c"')
    promtool_agrees(tmp_path, rules, cases, ',owner="others",installation="staging",cluster="c"')


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
@pytest.mark.parametrize("subject", CASES)
def test_installations_of_one_prometheus_are_kept_apart(tmp_path: Path, subject: str) -> None:
    """One has the fault, and alone alerts, with the labels of its target; the other is well."""
    prod = {"installation": "prod", "namespace": "one", "pod": "p"}
    staging = {"installation": "staging", "namespace": "two", "pod": "q"}
    cases = [
        case._replace(
            fires=labelled(case.fires, **prod) | labelled(case.silent, **staging),
            silent=labelled(case.silent, **prod) | labelled(case.silent, **staging),
        )
        for case in CASES[subject]
        # `absent` fires if the job has no target in any installation
        if not case.alert.endswith("Down") or "0x120" in case.fires.values()
    ]
    rules = of(subject)
    promtool_agrees(tmp_path, rules, cases)
    promtool_agrees(tmp_path, rules, cases, ',installation="prod",namespace="one"')
    of_pods = [rule for rule in rules if "$labels.instance" in rule["annotations"]["summary"]]
    if of_pods:
        promtool_agrees(tmp_path, of_pods, cases, ',pod="p"')
