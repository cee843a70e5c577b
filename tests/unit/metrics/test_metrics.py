"""The declared metrics: names that dashboards rely on, and text that parses."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.exposition import render
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.snapshot import Snapshot
from headgate.model.outcome import Outcome, OutcomeName

# name -> labels. Whoever renames one of them breaks alerts and dashboards.
PROMISED = {
    "headgate_events_total": "producer topic outcome reason",
    "headgate_event_bytes": "producer topic",
    "headgate_request_seconds": "route status",
    "headgate_ack_seconds": "topic",
    "headgate_suppressed_bytes_total": "producer topic",
    "headgate_suppression_bypassed_total": "reason",
    "headgate_lane_depth": "topic partition",
    "headgate_in_flight_events": "",
    "headgate_in_flight_bytes": "",
    "headgate_group_lag": "cluster group topic partition",
    "headgate_group_state": "cluster group state",
    "headgate_group_owner": "cluster group owner",
    "headgate_quota_rejected_total": "producer",
    "headgate_producer_limited_total": "producer topic",
    "headgate_producer_rebuilds_total": "cluster reason",
    "headgate_unknown_outcome_total": "topic",
    "headgate_keyless_total": "producer topic",
    "headgate_key_cardinality": "producer topic",
    "headgate_top_key_share": "producer topic",
}


@pytest.mark.parametrize(("name", "labels"), PROMISED.items())
def test_names_and_labels_stay_as_they_are(name: str, labels: str) -> None:
    assert METRICS[name].labels == tuple(labels.split())


def test_declarations_are_sound() -> None:
    for metric in METRICS.values():
        assert metric.name.startswith("headgate_")
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
        assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert not {"key", "event_id", "request_id", "offset"} & set(metric.labels)


def test_the_text_parses_and_shows_every_metric_even_without_figures() -> None:
    families = list(text_string_to_metric_families(render(Snapshot(), 0.0).decode()))
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in families
    }
    assert names == set(METRICS)


def test_odd_label_texts_are_escaped() -> None:
    meter = Meter(Labels({'a"b\\c\nd'}, lambda topic: topic == "orders"), time.time)
    meter.account('a"b\\c\nd', "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [700])
    families = text_string_to_metric_families(render(meter.collect(), time.time()).decode())
    samples = [sample for family in families for sample in family.samples if sample.value]
    by_name = {sample.name: sample for sample in samples if "producer" in sample.labels}
    assert by_name["headgate_events_total"].labels["producer"] == 'a"b\\c\nd'
    assert by_name["headgate_event_bytes_sum"].value == 700


def test_buckets_are_cumulative_and_end_with_the_count() -> None:
    meter = Meter(Labels({"shop"}, {"orders"}.__contains__), time.time)
    meter.account(
        "shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")] * 3, [1, 5_000, 10**8]
    )
    for family in text_string_to_metric_families(render(meter.collect(), time.time()).decode()):
        if family.name == "headgate_event_bytes":
            buckets = [each for each in family.samples if each.name.endswith("_bucket")]
            (count,) = [each.value for each in family.samples if each.name.endswith("_count")]
            values = [each.value for each in buckets]
            assert values == sorted(values)
            assert buckets[-1].labels["le"] == "+Inf"
            assert values[-1] == count == 3
            assert [each.value for each in buckets if each.labels["le"] == "1048576"] == [2]
