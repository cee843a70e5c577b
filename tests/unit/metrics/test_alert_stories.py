"""Stories of outages, played to all rules at once: each alert fires and resolves when it should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from generate import ALERTS, alerts
from support.root import ROOT

NAMES = {rule["alert"] for _, rule in alerts()}
STEP_S = 15  # between two scrapes, and two evaluations
BEGIN, END = 30 * 60, 32 * 60  # the outage
LAST = 60 * 60


class Firing(NamedTuple):
    """Seconds since the beginning at which an alert fires first, and at which it is resolved."""

    fires: int
    resolved: int


def values(normal: str, during: str, after: str) -> str:
    """One series: from the first scrape after the begin to the first after the end it differs.

    `normal`, `during` and `after` are promtool's, without the number of repetitions.
    """
    return (
        f"{normal}x{BEGIN // STEP_S} {during}x{(END - BEGIN) // STEP_S - 1} "
        f"{after}x{(LAST - END) // STEP_S}"
    )


# Two minutes without Kafka. The gateway answers 503 and `unknown`, replaces its producer once, and
# drops facts. Held events and consumers wait. After two minutes all is well.
SHORT_OUTAGE = {
    'up{job="headgate",instance="a"}': values("1", "1", "1"),
    'up{job="headgate-monitor",instance="m"}': values("1", "1", "1"),
    'headgate_ready{instance="a"}': values("1", "0", "1"),
    'headgate_dependency_up{instance="a",dependency="kafka main"}': values("1", "0", "1"),
    'headgate_dependency_up{instance="a",dependency="redis"}': values("1", "1", "1"),
    'headgate_events_total{instance="a",producer="p",topic="t",outcome="published",reason=""}': (
        values("0+900", "108900", "108900+900")
    ),
    'headgate_events_total{instance="a",producer="p",topic="t",outcome="rejected",'
    'reason="kafka_unavailable"}': values("0", "900+900", "7200"),
    # Born in the outage, 30 seconds after its begin.
    'headgate_unknown_outcome_total{instance="a",topic="t"}': (
        f"_x{(BEGIN + 30) // STEP_S} 40x{(LAST - BEGIN) // STEP_S}"
    ),
    'headgate_request_seconds_count{instance="a",route="/r",status="201"}': (
        values("0+900", "108900", "108900+900")
    ),
    'headgate_request_seconds_count{instance="a",route="/r",status="503"}': (
        values("0", "900+900", "7200")
    ),
    'headgate_producer_rebuilds_total{instance="a",cluster="main",reason="delivery_timeout"}': (
        values("0", "0", "1")
    ),
    'headgate_coalescer_restarts_total{instance="a",topic="t",reason="TimeoutError"}': (
        values("0", "0", "1")
    ),
    'headgate_facts_total{instance="a",topic="t",result="kafka_unavailable"}': (
        values("0", "15+15", "120")
    ),
    'headgate_suppression_bypassed_total{instance="a",reason="crowded"}': (
        values("0", "15+15", "120")
    ),
    'headgate_in_flight_bytes{instance="a"}': values("10", "100", "10"),
    'headgate_in_flight_limit_bytes{instance="a"}': values("100", "100", "100"),
    'headgate_held_oldest_seconds{instance="a",topic="t"}': values("5", "15+15", "5"),
    'headgate_spool_oldest_seconds{instance="a",topic="s"}': values("0", "15+15", "0"),
    'headgate_spool_bytes{instance="a",topic="s"}': values("0", "5+5", "0"),
    'headgate_spool_limit_bytes{instance="a"}': values("100", "100", "100"),
    'headgate_monitor_look_age_seconds{instance="m",cluster="main"}': values("5", "15+15", "5"),
    'headgate_group_state{instance="m",cluster="main",group="g",state="STOP"}': (
        values("0", "1", "0")
    ),
    'headgate_mirror_lag_seconds{instance="j",topic="t",partition="0"}': values("2", "15+15", "2"),
    'headgate_mirror_timestamp_seconds{instance="j",cluster="main"}': values(
        "0+15", "0", "1920+15"
    ),
}
# All other alerts stay silent. HeadgateUnknownOutcomes still fires after the end, because a person
# has to look at these events: each may be in Kafka or not.
OF_SHORT_OUTAGE = {
    "HeadgateKafkaUnavailable": Firing(BEGIN + STEP_S + 60, END + STEP_S),
    "HeadgateUnknownOutcomes": Firing(BEGIN + 30, BEGIN + 30 + 5 * 60),
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_two_minutes_without_kafka_fire_two_alerts_and_none_first_after_the_end(
    tmp_path: Path,
) -> None:
    assert OF_SHORT_OUTAGE.keys() <= NAMES
    assert all(firing.fires <= END for firing in OF_SHORT_OUTAGE.values())
    times = range(BEGIN - 60, LAST, STEP_S)
    expected = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{time}s",
            "exp_samples": [
                {"labels": f'{{alertname="{name}"}}', "value": 1}
                for name, firing in OF_SHORT_OUTAGE.items()
                if firing.fires <= time < firing.resolved
            ],
        }
        for time in times
    ]
    story = {
        "name": "two minutes without Kafka, then all is well",
        "interval": f"{STEP_S}s",
        "input_series": [
            {"series": name, "values": series} for name, series in SHORT_OUTAGE.items()
        ],
        "promql_expr_test": expected,
    }
    test = {
        "rule_files": [str(file) for file in (ROOT / "deploy" / "prometheus").glob("*.yml")],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [story],
    }
    file = tmp_path / "story_test.yml"
    file.write_text(yaml.safe_dump(test))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int:
    """A duration of Prometheus."""
    return int(text[:-1]) * _UNITS[text[-1]]


@pytest.mark.parametrize("rule", [rule for _, rule in alerts()], ids=lambda rule: rule["alert"])
def test_a_rule_that_waits_has_a_shorter_range(rule: dict[str, str]) -> None:
    """Otherwise a fault that is over fires it. `last_over_time` remembers and counts nothing."""
    expr = re.sub(r"last_over_time\([^()]*\)", "", rule["expr"])
    ranges = re.findall(r"\[(\w+)\]", expr) + re.findall(r"rate(\d+m)", expr)
    for text in ranges if "for" in rule else ():
        assert seconds(text) < seconds(rule["for"])


def test_the_head_of_the_file_has_the_rule_of_ranges() -> None:
    head = ALERTS.read_text().partition("groups:\n")[0].replace("\n# ", " ")
    assert "a range that is shorter than `for`" in head
