"""A snapshot as Prometheus text."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headgate.stats import serialised
from headgate.stats.snapshot import Buckets, Snapshot, recent
from headgate.telemetry.catalogue import METRICS
from headgate.telemetry.metric import Metric, MetricKind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(snapshot: Snapshot, now: float) -> bytes:
    """The text of /metrics, every declared metric once. now: seconds since 1970."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families(snapshot, now)))
    return generate_latest(registry)


class _Once(Collector):
    """prometheus_client asks a collector for families; ours are made for one answer."""

    def __init__(self, collected: Iterable[Family]) -> None:
        self._collected = list(collected)

    def collect(self) -> Iterable[Family]:
        return self._collected


def families(snapshot: Snapshot, now: float) -> Iterator[Family]:
    """All metrics in the order of their declaration, also those without a figure yet."""
    gauges = dict(snapshot.gauges) | _from_details(snapshot, now)
    for metric in METRICS.values():
        if metric.kind is MetricKind.HISTOGRAM:
            yield _histogram(metric, snapshot.histograms.get(metric.name, {}))
        elif metric.kind is MetricKind.COUNTER:
            yield _counter(metric, snapshot.counters.get(metric.name, {}))
        else:
            yield _gauge(metric, gauges.get(metric.name, {}))


class _Share(NamedTuple):
    cardinality: float
    top_key: float


def _from_details(snapshot: Snapshot, now: float) -> dict[str, dict[tuple[str, ...], float]]:
    shares = {}
    for pair, detail in snapshot.details.items():
        sketched = recent(detail, now).sketched
        weight = serialised.keyed_events(sketched)
        top = serialised.top_events(sketched, 1)
        share = top[0].weight / weight if top and weight else 0.0
        shares[pair] = _Share(float(serialised.cardinality(sketched)), share)
    return {
        "headgate_key_cardinality": {pair: row.cardinality for pair, row in shares.items()},
        "headgate_top_key_share": {pair: row.top_key for pair, row in shares.items()},
    }


def _counter(metric: Metric, values: dict[tuple[str, ...], float]) -> Family:
    family = CounterMetricFamily(metric.name, metric.text, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _gauge(metric: Metric, values: dict[tuple[str, ...], float]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.text, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, values: dict[tuple[str, ...], Buckets]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
    bounds = [*(f"{bound:g}" if bound < 1 else f"{bound:.0f}" for bound in metric.buckets), "+Inf"]
    for labels, buckets in sorted(values.items(), key=lambda item: item[0]):
        reached = 0
        cumulative = []
        for bound, count in zip(bounds, buckets.counts, strict=True):
            reached += count
            cumulative.append((bound, float(reached)))
        family.add_metric(labels, buckets=cumulative, sum_value=buckets.sum)
    return family
