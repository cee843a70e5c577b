"""The metrics of what waits: events that are held, and events that are spooled."""

from headgate.telemetry.metric import Metric, MetricKind

WAITING_METRICS = (
    Metric(
        "headgate_held_keys",
        MetricKind.SUM,
        ("topic",),
        "Keys with a held event, in the partitions that the workers own.",
    ),
    Metric(
        "headgate_held_bytes",
        MetricKind.SUM,
        ("topic",),
        "Memory of held events, within 20 %.",
    ),
    Metric(
        "headgate_held_oldest_seconds",
        MetricKind.MAX,
        ("topic",),
        "Age of the oldest held event.",
    ),
    Metric(
        "headgate_held_lag",
        MetricKind.MAX,
        ("topic",),
        "Records of the held topic that the coalescer's group has not processed yet.",
    ),
    Metric(
        "headgate_coalescer_restarts_total",
        MetricKind.COUNTER,
        ("topic", "reason"),
        "Restarts of a held partition's owner after Kafka refused a request or did not answer.",
    ),
    Metric(
        "headgate_spool_events",
        MetricKind.SUM,
        ("topic",),
        "Events on disk that Kafka has not acknowledged yet.",
    ),
    Metric(
        "headgate_spool_bytes",
        MetricKind.SUM,
        ("topic",),
        "Bytes on disk of these events.",
    ),
    Metric(
        "headgate_spool_oldest_seconds",
        MetricKind.MAX,
        ("topic",),
        "Seconds since the oldest of these events was spooled.",
    ),
    Metric(
        "headgate_spool_drained_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that Kafka acknowledged later.",
    ),
    Metric(
        "headgate_spool_repeated_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that were sent again after an unknown outcome. They may be in Kafka "
        "twice, with the same event id.",
    ),
    Metric(
        "headgate_spool_aside_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that are no longer published because Kafka refuses them for good or they "
        "are damaged on disk. `headgate spool list` shows them.",
    ),
)
