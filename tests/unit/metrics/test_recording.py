"""deploy/prometheus/recording.yml: it names what exists, and its figures are right."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.alerts.case import labelled
from support.known_metrics import RECORDING, level, records, wrong

RULES = records()
IDS = [name for name, _ in RULES]
NAMED = re.compile(r"[a-z_]+:headgate_[a-z_]+:(rate5m|ratio|ratio_rate5m|p99_rate5m|sum)")

# Ten minutes, with a value each minute: shop posts 60 events a minute to orders, of which half are
# unchanged and a sixth rejected; till posts 30. Nobody posts to quiet.
EVENTS = 'headgate_events_total{instance="%s",producer="%s",topic="%s",outcome="%s",reason="%s"}'
SERIES = {
    EVENTS % ("a", "shop", "orders", "unchanged", ""): "0+20x10",
    EVENTS % ("b", "shop", "orders", "unchanged", ""): "0+10x10",
    EVENTS % ("a", "shop", "orders", "published", ""): "0+20x10",
    EVENTS % ("a", "shop", "orders", "rejected", "too_large"): "0+4x10",
    EVENTS % ("a", "shop", "orders", "rejected", "missing_key"): "0+6x10",
    EVENTS % ("a", "till", "orders", "published", ""): "0+30x10",
    EVENTS % ("a", "till", "quiet", "published", ""): "9x10",
    'headgate_event_bytes_sum{instance="a",producer="shop",topic="orders"}': "0+6000x10",
    'headgate_suppressed_bytes_total{instance="a",producer="shop",topic="orders"}': "0+1500x10",
    'headgate_oversize_total{instance="a",producer="shop",topic="orders",action="split"}': "0+6x10",
    'headgate_request_seconds_count{instance="a",route="/r",status="201"}': "0+99x10",
    'headgate_request_seconds_count{instance="a",route="/r",status="503"}': "0+1x10",
    'headgate_request_seconds_count{instance="b",route="/r",status="201"}': "0+10x10",
    'headgate_request_seconds_bucket{instance="a",route="/r",status="201",le="0.1"}': "0+99x10",
    'headgate_request_seconds_bucket{instance="a",route="/r",status="201",le="+Inf"}': "0+99x10",
    'headgate_request_seconds_bucket{instance="a",route="/r",status="503",le="0.1"}': "0+1x10",
    'headgate_request_seconds_bucket{instance="a",route="/r",status="503",le="+Inf"}': "0+1x10",
    'headgate_request_seconds_bucket{instance="a",route="/s",status="200",le="0.1"}': "0+10x10",
    'headgate_request_seconds_bucket{instance="a",route="/s",status="200",le="+Inf"}': "0+10x10",
    'headgate_request_seconds_bucket{instance="a",route="/s",status="504",le="10"}': "0+10x10",
    'headgate_request_seconds_bucket{instance="a",route="/s",status="504",le="+Inf"}': "0+10x10",
    'headgate_ack_seconds_bucket{instance="a",topic="orders",le="1"}': "0+100x10",
    'headgate_ack_seconds_bucket{instance="a",topic="orders",le="+Inf"}': "0+100x10",
    'headgate_in_flight_events{instance="a"}': "5x10",
    'headgate_in_flight_limit_events{instance="a"}': "20x10",
    'headgate_in_flight_bytes{instance="a"}': "300x10",
    'headgate_in_flight_limit_bytes{instance="a"}': "400x10",
    'headgate_spool_bytes{instance="a",topic="orders"}': "20x10",
    'headgate_spool_bytes{instance="a",topic="quiet"}': "5x10",
    'headgate_spool_limit_bytes{instance="a"}': "100x10",
    'headgate_spool_limit_bytes{instance="b"}': "100x10",
    'headgate_worker_cpu_seconds_total{instance="a",mode="user"}': "0+50x10",
    'headgate_worker_cpu_seconds_total{instance="a",mode="system"}': "0+10x10",
    'headgate_workers{instance="a",state="up"}': "2x10",
    'headgate_lane_depth{instance="a",topic="orders",partition="0"}': "6x10",
    'headgate_lane_depth{instance="b",topic="orders",partition="1"}': "3x10",
    'headgate_lane_depth{instance="a",topic="quiet",partition="0"}': "3x10",
    'headgate_group_lag{cluster="c",group="g",topic="orders",partition="0",instance="a"}': "7x10",
    'headgate_group_lag{cluster="c",group="g",topic="quiet",partition="0",instance="a"}': "8x10",
    'headgate_group_lag{cluster="c",group="g",topic="orders",partition="0",instance="b"}': "7x10",
    'headgate_group_lag{cluster="d",group="g",topic="orders",partition="0",instance="a"}': "4x10",
}
PAIR = 'producer="%s",topic="%s"'
SHOP = PAIR % ("shop", "orders")
# Of each rule some series, by their labels, and their values.
EXPECTED = {
    "producer_topic_outcome:headgate_events:rate5m": {
        f'outcome="unchanged",{SHOP}': 0.5,
        f'outcome="rejected",{SHOP}': 1 / 6,
    },
    "producer_topic:headgate_events:rate5m": {SHOP: 1, PAIR % ("till", "quiet"): 0},
    "producer_topic_outcome:headgate_events:ratio_rate5m": {
        f'outcome="unchanged",{SHOP}': 0.5,
        f'outcome="published",{PAIR % ("till", "orders")}': 1,
    },
    "producer_outcome:headgate_events:ratio_rate5m": {
        'outcome="rejected",producer="shop"': 1 / 6,
        'outcome="published",producer="till"': 1,
    },
    "topic_outcome:headgate_events:ratio_rate5m": {'outcome="unchanged",topic="orders"': 1 / 3},
    "producer_topic:headgate_event_bytes:rate5m": {SHOP: 100},
    "producer_topic:headgate_suppressed_bytes:rate5m": {SHOP: 25},
    "producer_topic:headgate_suppressed_bytes:ratio_rate5m": {SHOP: 0.25},
    "producer_topic:headgate_oversize:ratio_rate5m": {SHOP: 0.1},
    "topic:headgate_ack_seconds:p99_rate5m": {'topic="orders"': 0.99},
    "route:headgate_request_seconds:p99_rate5m": {'route="/r"': 0.099},
    "route:headgate_accepted_request_seconds:p99_rate5m": {
        'route="/r"': 0.099,
        'route="/s"': 0.099,
    },
    "instance:headgate_requests_failed:ratio_rate5m": {'instance="a"': 0.01, 'instance="b"': 0},
    "instance:headgate_in_flight_events:ratio": {'instance="a"': 0.25},
    "instance:headgate_in_flight_bytes:ratio": {'instance="a"': 0.75},
    "instance:headgate_spool_bytes:ratio": {'instance="a"': 0.25, 'instance="b"': 0},
    "instance:headgate_worker_cpu:ratio_rate5m": {'instance="a"': 0.5},
    "topic:headgate_lane_depth:ratio": {'topic="orders"': 0.75, 'topic="quiet"': 0.25},
    # Two monitors report the same lag.
    "cluster_group:headgate_group_lag:sum": {
        'cluster="c",group="g"': 15,
        'cluster="d",group="g"': 4,
    },
}


@pytest.mark.parametrize(("name", "expr"), RULES, ids=IDS)
def test_a_rule_names_what_there_is_and_says_what_it_makes(name: str, expr: str) -> None:
    assert wrong(expr) == []
    assert NAMED.fullmatch(name)
    assert not re.search(r"\b(by|on) \(", expr)  # these drop the labels of the target


def test_each_rule_has_a_figure() -> None:
    assert list(EXPECTED) == IDS


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_the_figures_are_right(tmp_path: Path) -> None:
    asked = [
        {
            # rounded: a rate of five minutes is a sum of floats
            "expr": f'round({name}{{{labels},installation="a"}}, 0.000001)',
            "eval_time": "10m",
            "exp_samples": [{"labels": f'{{{labels},installation="a"}}', "value": round(value, 6)}],
        }
        for name, some in EXPECTED.items()
        for labels, value in some.items()
    ]
    silent = "producer_topic_outcome:headgate_events:ratio_rate5m"  # no share of nothing
    asked += [{"expr": f'{silent}{{topic="quiet"}}', "eval_time": "10m", "exp_samples": []}]
    both = labelled(SERIES, installation="a") | labelled(SERIES, installation="b")
    series = [{"series": name, "values": values} for name, values in both.items()]
    test: dict[str, Any] = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file = tmp_path / "recording_test.yml"
    rules = {"rule_files": [str(RECORDING)], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(rules))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_labels_of_a_name() -> None:
    assert level("producer_topic:headgate_events:rate5m") == {"producer", "topic"}
