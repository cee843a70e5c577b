"""Every series that a rule or a dashboard may name: its labels, and what some of them can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.model.outcome import OutcomeName, Reason
from headgate.model.suppression_states import STATES
from headgate.monitor.cluster_watch import ClusterHealth
from headgate.monitor.group_watch import Heat
from headgate.monitor.rules import LagState
from headgate.replays.registry import ReplayState
from headgate_spark.audit import result as audit_textfile
from headgate_spark.mirror import lag as mirror_lag
from headgate_spark.replay import progress as replay_metrics
from support.promql import grouped_by, selectors
from support.root import ROOT

RECORDING = ROOT / "deploy" / "prometheus" / "recording.yml"
# Labels that Prometheus, its operator and the chart add to each series, and those that sums keep.
KEPT = {"job", "namespace", "installation"}
SCRAPED = {"instance", "pod", *KEPT}

_AUDIT_BY = {"headgate_audit_max_over_mean", "headgate_audit_gini", "headgate_audit_top_key_share"}
_AUDIT_LABELS = {
    "headgate_audit_diagnosis": {"topic", "diagnosis"},
    "headgate_audit_timestamp_seconds": set[str](),
    **{name: {"topic", "by"} for name in _AUDIT_BY},
}
# What the jobs write for Prometheus' textfile collector.
JOB_LABELS: dict[str, set[str]] = {
    "headgate_mirror_timestamp_seconds": {"cluster"},
    "headgate_mirror_topic_skipped": {"topic", "reason"},
    "headgate_replay_timestamp_seconds": {"cluster"},
    **{f"headgate_{name}": {"topic", "partition"} for name in mirror_lag._HELP},
    **{f"headgate_{name}": {"cluster"} for name in replay_metrics._HELP},
    "headgate_replay_copies": {"cluster", "state"},
    **{name: _AUDIT_LABELS.get(name, {"topic"}) for name in audit_textfile._HELP},
}


def records(file: Path = RECORDING) -> list[tuple[str, str]]:
    """(name, expression) of each recording rule."""
    groups = yaml.safe_load(file.read_text())["groups"]
    rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
    return [(rule["record"], rule["expr"]) for rule in rules]


def level(record: str) -> set[str]:
    """The labels that a recorded name says its series have."""
    return set(record.partition(":")[0].split("_"))


def _labels() -> dict[str, set[str]]:
    found = {name: labels | SCRAPED for name, labels in JOB_LABELS.items()}
    for name, metric in METRICS.items():
        labels = {*metric.labels, *SCRAPED}
        if metric.kind is MetricKind.HISTOGRAM:
            found |= {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": labels}
            found[f"{name}_count"] = labels
        else:
            found[name] = labels
    for name, _ in records():
        found[name] = level(name) | (SCRAPED if "instance" in level(name) else KEPT)
    alert = {"alertname", "alertstate", "severity", *KEPT}
    return {**found, "up": set(SCRAPED), "ALERTS": alert}


LABELS = _labels()
# The values that a label can have, where it is one of a few.
VALUES = {
    ("headgate_group_state", "state"): set(LagState),
    ("headgate_group_heat", "heat"): set(Heat),
    ("headgate_cluster_partitions", "state"): set(ClusterHealth._fields),
    ("headgate_workers", "state"): {"up", "wanted"},
    ("headgate_config_reloads_total", "result"): {"applied", "refused"},
    ("headgate_tls_reloads_total", "result"): {"applied", "refused"},
    ("headgate_issuer_keys_fetches_total", "result"): {"fetched", "failed"},
    ("headgate_events_total", "reason"): {"", *Reason},
    ("headgate_events_total", "outcome"): set(OutcomeName),
    **{(name, "outcome"): set(OutcomeName) for name, _ in records() if "outcome" in level(name)},
    ("headgate_dependency_up", "dependency"): {
        "kafka .*",
        "redis.*",
        "redis identity.*",
        "spool",
    },
    ("headgate_suppression_state", "state"): set(STATES),
    ("headgate_replays", "state"): set(ReplayState),
    ("headgate_replay_copies", "state"): {*ReplayState, "paused"},
    ("up", "job"): {"headgate", "headgate-monitor"},
    ("ALERTS", "alertstate"): {"firing", "pending"},
}


def wrong(expr: str) -> list[str]:
    """What a PromQL expression names that does not exist: metrics, labels, labels' values."""
    found = []
    read = selectors(expr)
    for name, matchers in read:
        if name not in LABELS:
            found.append(name)
            continue
        for label, text in matchers.items():
            known = VALUES.get((name, label))
            if label not in LABELS[name]:
                found.append(f"{name}{{{label}}}")
            elif known and not text.startswith("$") and not set(text.split("|")) <= known:
                found.append(f"{name}{{{label}={text!r}}}")
    labels = set().union(*(LABELS.get(one.name, set()) for one in read))
    return found + sorted(grouped_by(expr) - labels)
