"""The result for Prometheus' textfile collector; a key is never a label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_HELP = {
    "headgate_audit_records": "Records of the audited window.",
    "headgate_audit_bytes": "Bytes of the audited window: keys, values and headers.",
    "headgate_audit_distinct_keys": "Distinct keys.",
    "headgate_audit_max_over_mean": "Load of the fullest partition over the mean.",
    "headgate_audit_gini": "Gini's coefficient of the partitions' load.",
    "headgate_audit_top_key_share": "Share of the heaviest key.",
    "headgate_audit_foreign_share": "Share of keyed records that Kafka's rule puts elsewhere.",
    "headgate_audit_diagnosis": "1 for each diagnosis of the topic.",
    "headgate_audit_timestamp_seconds": "When the audit ended.",
}


def textfile(result: dict[str, Any], now_ms: int) -> str:
    """The metrics of all topics in Prometheus' text format."""
    samples: dict[str, list[str]] = {name: [] for name in _HELP}
    for topic in result["topics"]:
        for name, labels, value in _samples(topic):
            samples[name].append(f"{name}{{{_labels(labels)}}} {value}")
    samples["headgate_audit_timestamp_seconds"].append(
        f"headgate_audit_timestamp_seconds {now_ms / 1000}"
    )
    lines = []
    for name, text in _HELP.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", *samples[name]]
    return "\n".join(lines) + "\n"


def _samples(topic: dict[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    own = {"topic": topic["topic"]}
    yield "headgate_audit_records", own, topic["records"]
    yield "headgate_audit_bytes", own, topic["bytes"]
    yield "headgate_audit_distinct_keys", own, topic["distinct_keys"]
    yield "headgate_audit_foreign_share", own, topic["foreign_partitioner"]["share"]
    for by in ("records", "bytes"):
        labels, measures = {**own, "by": by}, topic[f"by_{by}"]
        yield "headgate_audit_max_over_mean", labels, measures["max_over_mean"]
        yield "headgate_audit_gini", labels, measures["gini"]
        yield "headgate_audit_top_key_share", labels, measures["p_max"]
    for diagnosis in topic["diagnoses"]:
        yield "headgate_audit_diagnosis", {**own, "diagnosis": diagnosis}, 1


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: Iterable[str]) -> str:
    return "".join(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
