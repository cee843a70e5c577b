"""The result for machines: audit.json. Other tools read its names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headgate.model.times import shown_time
from headgate_spark.audit.advice import Recommendation, fetch_advice, recommend
from headgate_spark.audit.diagnosis import (
    Finding,
    cause,
    cause_of,
    diagnose,
    earlier_count,
    earlier_partitions,
    notes,
    shown,
)
from headgate_spark.audit.figures import KeyFigures, Misplaced, ProducerFigures, TopicFigures
from headgate_spark.audit.measures import floor_of, max_useful_partitions
from headgate_spark.audit.predictions import Shape, shape, what_if
from headgate_spark.job.exposition import Metric, exposed

Document = dict[str, Any]


def document(figures: Iterable[TopicFigures], now_ms: int) -> Document:
    """Return the results of all topics."""
    return {
        "generated_at": shown_time(now_ms),
        "topics": [topic_result(figure) for figure in figures],
    }


def worst_first(figures: Iterable[TopicFigures]) -> list[TopicFigures]:
    """Sort topics: those with findings first, then by the most uneven load."""
    return sorted(
        figures, key=lambda figure: (not _is_found(figure), -_unevenness(figure), figure.topic)
    )


def _is_found(figures: TopicFigures) -> bool:
    return bool(diagnose(figures) or notes(figures))


def _unevenness(figures: TopicFigures) -> float:
    return max(figures.by_records().max_over_mean, figures.by_bytes().max_over_mean)


def topic_result(figures: TopicFigures) -> Document:
    """Return the result of one topic."""
    findings = diagnose(figures)
    return {
        "topic": figures.topic,
        "window": {"from": shown_time(figures.from_ms), "to": shown_time(figures.to_ms)},
        "records": figures.records,
        "bytes": figures.bytes,
        "partitions": figures.topic_partitions or figures.partitions,
        "partitions_read": list(figures.numbers) or None,
        "distinct_keys": figures.distinct_keys,
        "keyless_records": figures.keyless_records,
        "tombstones": figures.tombstones,
        "by_records": figures.by_records()._asdict(),
        "by_bytes": figures.by_bytes()._asdict(),
        "max_useful_partitions": _max_useful(figures),
        "sizes": figures.sizes._asdict(),
        "top_keys": [_key(figures, top_key) for top_key in figures.top_keys],
        "what_if": [
            _what_if(figures, row._asdict(), shape(prediction))
            for row, prediction in zip(what_if(figures), figures.predictions, strict=True)
        ],
        "foreign_partitioner": _foreign(figures),
        "diagnoses": list(dict.fromkeys(str(finding.diagnosis) for finding in findings)),
        "findings": [_finding(finding) for finding in findings],
        "notes": notes(figures),
        "recommendations": [
            _advice(recommendation) for recommendation in recommend(figures, findings)
        ],
        "fetch": fetch_advice(figures.sizes)._asdict(),
        "producers": [_producer(producer) for producer in figures.producers],
        "distinct_producers": max(figures.distinct_producers, len(figures.producers)),
        "facts": figures.unpublished.shown(),
    }


def _max_useful(figures: TopicFigures) -> int | None:
    return None if figures.is_part else max_useful_partitions(figures.p_max)


def _producer(producer: ProducerFigures) -> Document:
    # null for none, as with keys: "" would be the name of no producer
    return {**producer._asdict(), "producer": producer.producer or None}


def _key(figures: TopicFigures, key: KeyFigures) -> Document:
    return {
        "key": shown(key.key),
        "records": key.records,
        "bytes": key.bytes,
        "record_share": figures.record_share(key),
        "byte_share": figures.byte_share(key),
        "producer": key.producer,
        "run_share": key.run_share,
        "run_p95": key.run_p95,
        "partition": key.partition,
        "records_if_coalesced": key.kept,
    }


def _what_if(figures: TopicFigures, row: Mapping[str, float], bars: Shape) -> Document:
    count = int(row["partitions"])
    floors = {
        "floor_records": floor_of(count, figures.top_record_share),
        "floor_bytes": floor_of(count, figures.top_byte_share),
    }
    return {**row, **floors, "load": bars._asdict()}


def _foreign(figures: TopicFigures) -> Document:
    records, keyed = figures.misplaced_records, figures.keyed_records
    return {
        "records": records,
        "share": records / keyed if keyed else 0.0,
        "cause": cause_of(figures) if records else None,
        "earlier_partitions": earlier_partitions(figures),
        "producers": [_misplaced(misplaced) for misplaced in figures.misplaced],
    }


def _misplaced(misplaced: Misplaced) -> Document:
    return {
        "producer": misplaced.producer or None,
        "records": misplaced.records,
        "share": misplaced.records / misplaced.keyed,
        "cause": cause(misplaced),
        "earlier_partitions": earlier_count(misplaced),
    }


def _finding(finding: Finding) -> Document:
    key = None if finding.key is None else shown(finding.key.key)
    return {"diagnosis": str(finding.diagnosis), "key": key, "text": finding.text}


def _advice(recommendation: Recommendation) -> Document:
    fields: Document = {"action": recommendation.action}
    if recommendation.key is not None:
        fields["key"] = shown(recommendation.key.key)
    return {
        **fields,
        "expected": dict(recommendation.expected),
        "cost": recommendation.cost,
        "why": recommendation.why,
    }


# ---- the result for Prometheus' textfile collector; a key is never a label


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
    """Return the metrics of all topics in Prometheus' text format."""
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
