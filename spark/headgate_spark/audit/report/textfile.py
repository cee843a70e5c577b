"""The result for Prometheus' textfile collector; a key is never a label."""

from collections.abc import Iterator
from typing import Any

from headgate_spark.job.exposition import Metric, exposed

Sample = tuple[dict[str, str], float]

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
    samples: dict[str, list[Sample]] = {name: [] for name in _HELP}
    for topic in result["topics"]:
        for name, labels, value in _samples(topic):
            samples[name].append((labels, value))
    samples["headgate_audit_timestamp_seconds"].append(({}, now_ms / 1000))
    return exposed(Metric(name, "gauge", text, samples[name]) for name, text in _HELP.items())


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
