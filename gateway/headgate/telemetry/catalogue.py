"""Every metric once, with its labels: what /metrics may say and how workers' figures merge.

Labels are bounded. A key, an event id or any other text that a client chooses is never a label; a
producer or topic that is not in the configuration is labelled `other` (see `stats.labels`).
docs/reference/metrics.md shows this table to operators.
"""

from collections.abc import Mapping

from headgate.telemetry.group_metrics import GROUP_METRICS
from headgate.telemetry.instance_metrics import INSTANCE_METRICS
from headgate.telemetry.metric import BYTES, SECONDS, Metric, MetricKind
from headgate.telemetry.waiting_metrics import WAITING_METRICS

_BY_PAIR = ("producer", "topic")

_DECLARED = (
    Metric(
        "headgate_events_total",
        MetricKind.COUNTER,
        (*_BY_PAIR, "outcome", "reason"),
        "Events by outcome. The reason is empty for events that were accepted.",
    ),
    Metric(
        "headgate_event_bytes",
        MetricKind.HISTOGRAM,
        _BY_PAIR,
        "Bytes of the events' values as sent, for every outcome.",
        BYTES,
    ),
    Metric(
        "headgate_request_seconds",
        MetricKind.HISTOGRAM,
        ("route", "status"),
        "Seconds from the request's headers to the response.",
        SECONDS,
    ),
    Metric(
        "headgate_ack_seconds",
        MetricKind.HISTOGRAM,
        ("topic",),
        "Seconds between the lane's hand-over of a batch to the Kafka producer and its "
        "acknowledgement.",
        SECONDS,
    ),
    Metric(
        "headgate_acknowledged_records_total",
        MetricKind.COUNTER,
        ("topic",),
        "Records that Kafka acknowledged.",
    ),
    Metric(
        "headgate_partition_records_total",
        MetricKind.COUNTER,
        ("topic", "partition"),
        "Records that Kafka acknowledged, by partition.",
    ),
    Metric(
        "headgate_partition_bytes_total",
        MetricKind.COUNTER,
        ("topic", "partition"),
        "Bytes of these records before compression: keys, values and headers.",
    ),
    Metric(
        "headgate_suppressed_bytes_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        "Bytes of the values of unchanged and superseded events. These events were not published.",
    ),
    Metric(
        "headgate_coalesced_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        "Held events that a later event of their key replaced before they were published.",
    ),
    *WAITING_METRICS,
    Metric(
        "headgate_oversize_total",
        MetricKind.COUNTER,
        (*_BY_PAIR, "action"),
        "Events over their topic's size limit, by the action taken: the name of a strategy, or "
        "reject.",
    ),
    Metric(
        "headgate_facts_total",
        MetricKind.COUNTER,
        ("topic", "result"),
        "Facts by result: written to headgate.facts, or dropped. The result of a dropped fact is "
        "its reason, such as no_topic (the topic is missing) or full (the queue was full).",
    ),
    Metric(
        "headgate_suppression_bypassed_total",
        MetricKind.COUNTER,
        ("reason",),
        "Events of suppressing topics that were published without a lookup in Redis.",
    ),
    Metric(
        "headgate_suppression_state",
        MetricKind.SUM,
        ("topic", "state"),
        "Workers by the state of a suppressing topic: on, quarantine (everything is published "
        "because the state in Redis may be incomplete), away (Redis does not answer).",
    ),
    Metric(
        "headgate_canonical_fallbacks_total",
        MetricKind.COUNTER,
        ("topic", "reason"),
        "Events of canonical topics that were compared by bytes instead of by JSON value.",
    ),
    Metric(
        "headgate_identity_bypassed_total",
        MetricKind.COUNTER,
        ("reason",),
        "Requests with an Idempotency-Key, and events with an id on topics that de-duplicate, "
        "that continued without Redis, or whose result Redis never received (backlog).",
    ),
    Metric(
        "headgate_lane_depth",
        MetricKind.SUM,
        ("topic", "partition"),
        "Events that wait in a lane or in the Kafka producer.",
    ),
    Metric(
        "headgate_in_flight_events",
        MetricKind.SUM,
        (),
        "Events that are admitted and not answered yet.",
    ),
    Metric(
        "headgate_in_flight_bytes",
        MetricKind.SUM,
        (),
        "Bytes that are admitted and not answered yet.",
    ),
    Metric(
        "headgate_quota_rejected_total",
        MetricKind.COUNTER,
        ("producer",),
        "Events refused by the producer's quota.",
    ),
    Metric(
        "headgate_producer_rebuilds_total",
        MetricKind.COUNTER,
        ("cluster", "reason"),
        "Kafka producers that were replaced after an unrecoverable error.",
    ),
    Metric(
        "headgate_unknown_outcome_total",
        MetricKind.COUNTER,
        ("topic",),
        "Events with an unknown outcome at the deadline. They may or may not be in Kafka.",
    ),
    Metric(
        "headgate_keyless_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        'Events without a key that were published without order (keyless = "spread").',
    ),
    Metric(
        "headgate_key_cardinality",
        MetricKind.MAX,
        _BY_PAIR,
        "Estimated number of distinct keys in the last one to two hours.",
    ),
    Metric(
        "headgate_top_key_share",
        MetricKind.MAX,
        _BY_PAIR,
        "Share (0 to 1) of events with the most frequent key in the last one to two hours.",
    ),
    Metric(
        "headgate_replays",
        MetricKind.MAX,
        ("state",),
        "Replays on the backfill tiers, by state.",
    ),
    Metric(
        "headgate_replays_failed_total",
        MetricKind.COUNTER,
        (),
        "Replays that failed since this gateway started. Every gateway counts all replays.",
    ),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_DECLARED, *INSTANCE_METRICS, *GROUP_METRICS)
}
