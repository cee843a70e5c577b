"""Rendering of a snapshot as Prometheus text, or as OpenMetrics with exemplars."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from headgate.metrics import sketches
from headgate.metrics.catalogue import METRICS, Metric, MetricKind
from headgate.metrics.snapshot import Buckets, Snapshot, recent
from headgate.model.text import escaped

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render(snapshot: Snapshot, now_s: float) -> bytes:
    """Return the text of /metrics, with every declared metric; `now_s` is in seconds since 1970."""
    return generate_latest(_registry(families(snapshot, now_s)))


def render_openmetrics(snapshot: Snapshot, now_s: float) -> bytes:
    """Return the text of /metrics in OpenMetrics 1.0, with exemplars."""
    registry = _registry(families(snapshot, now_s, is_openmetrics=True))
    text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def _registry(collected: Iterable[Family]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(collected))
    return registry


class _Once(Collector):
    """A collector of families that were made for one response."""

    def __init__(self, collected: Iterable[Family]) -> None:
        self._collected = list(collected)

    def collect(self) -> Iterable[Family]:
        return self._collected


def families(snapshot: Snapshot, now_s: float, *, is_openmetrics: bool = False) -> Iterator[Family]:
    """Yield all metrics in the order of their declaration, also those without a value yet."""
    values = {**snapshot.counters, **snapshot.gauges, **_detail_gauges(snapshot, now_s)}
    for metric in METRICS.values():
        if metric.kind is MetricKind.HISTOGRAM:
            rows = snapshot.histograms.get(metric.name, {})
            yield _histogram(metric, rows, is_openmetrics=is_openmetrics)
        else:
            yield _plain(metric, values.get(metric.name, {}))


def _detail_gauges(snapshot: Snapshot, now_s: float) -> dict[str, dict[tuple[str, ...], float]]:
    keys: dict[tuple[str, ...], float] = {}
    shares: dict[tuple[str, ...], float] = {}
    for pair, detail in snapshot.details.items():
        sketched = recent(detail, now_s).sketched
        weight, top = sketches.keyed_events(sketched), sketches.top_events(sketched, 1)
        keys[pair] = float(sketches.cardinality(sketched))
        shares[pair] = top[0].weight / weight if top and weight else 0.0
    return {"headgate_key_cardinality": keys, "headgate_top_key_share": shares}


def _plain(metric: Metric, values: dict[tuple[str, ...], float]) -> Family:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(_shown(labels), value)
    return family


def _histogram(
    metric: Metric, values: dict[tuple[str, ...], Buckets], *, is_openmetrics: bool
) -> Family:
    family = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
    shown = floatToGoString if is_openmetrics else _plain_bound
    bounds = [*map(shown, metric.buckets), "+Inf"]
    for labels, buckets in sorted(values.items(), key=lambda item: item[0]):
        reached = 0
        cumulative: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for index, count in enumerate(buckets.counts):
            reached += count
            exemplar = buckets.exemplars.get(index)
            if exemplar is None:
                cumulative.append((bounds[index], float(reached)))
            else:
                example = Exemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.at)
                cumulative.append((bounds[index], float(reached), example))
        family.add_metric(_shown(labels), buckets=cumulative, sum_value=buckets.sum)
    return family


def _shown(labels: tuple[str, ...]) -> list[str]:
    """Escape labels: any client of Kafka can choose the name of a group, for example."""
    return [escaped(label) for label in labels]


def _plain_bound(bound: float) -> str:
    """Return a bound in the plain format. OpenMetrics has another form of whole numbers ("1.0")."""
    return f"{bound:g}" if bound < 1 else f"{bound:.0f}"
