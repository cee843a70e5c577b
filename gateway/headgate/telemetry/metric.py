"""What a metric is: name, labels, kind, and how the figures of several workers become one."""

from enum import StrEnum
from typing import NamedTuple

OTHER = "other"  # the label of every producer and topic that the configuration does not name


class MetricKind(StrEnum):
    """What Prometheus calls it, and for gauges how the figures of several workers become one."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUM = "sum"  # gauge: the workers' values add up
    MAX = "max"  # gauge: the largest value of any worker


class Metric(NamedTuple):
    """One metric. buckets: upper bounds, ascending, without +Inf; empty unless a histogram."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()


# A single event takes 1-20 ms, a stalled lane up to the request's deadline of some tens of seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Powers of four from 64 bytes: 1 MiB, Kafka's default limit, is a bucket bound.
BYTES = tuple(float(4**power) for power in range(3, 13))
