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
        "Events by how they ended; reason is empty for events that ended well.",
    ),
    Metric(
        "headgate_event_bytes",
        MetricKind.HISTOGRAM,
        _BY_PAIR,
        "Bytes of the events' values as the producer sent them, whatever became of them.",
        BYTES,
    ),
    Metric(
        "headgate_request_seconds",
        MetricKind.HISTOGRAM,
        ("route", "status"),
        "Seconds from a request's head to its answer.",
        SECONDS,
    ),
    Metric(
        "headgate_ack_seconds",
        MetricKind.HISTOGRAM,
        ("topic",),
        "Seconds from handing a batch of a lane to the producer to its acknowledgement.",
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
        "The same by partition.",
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
        "Bytes of the values of unchanged and superseded events, which were not published.",
    ),
    Metric(
        "headgate_coalesced_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        "Held events that were not published because a later one of their key was.",
    ),
    *WAITING_METRICS,
    Metric(
        "headgate_oversize_total",
        MetricKind.COUNTER,
        (*_BY_PAIR, "action"),
        "Events larger than their topic allows, by what they became: a strategy, or reject.",
    ),
    Metric(
        "headgate_facts_total",
        MetricKind.COUNTER,
        ("topic", "result"),
        "Facts by what became of them: written to headgate.facts, or dropped because it is missing "
        "(no_topic), more came than could be written (full), or for the reason named.",
    ),
    Metric(
        "headgate_suppression_bypassed_total",
        MetricKind.COUNTER,
        ("reason",),
        "Events of suppressing topics that were published without asking Redis first.",
    ),
    Metric(
        "headgate_suppression_state",
        MetricKind.SUM,
        ("topic", "state"),
        "Workers that see a suppressing topic in this state: on, quarantine (all is published, for "
        "what Redis knows may be incomplete), away (Redis does not answer).",
    ),
    Metric(
        "headgate_canonical_fallbacks_total",
        MetricKind.COUNTER,
        ("topic", "reason"),
        "Events of canonical topics whose bytes were compared instead of their JSON value.",
    ),
    Metric(
        "headgate_identity_bypassed_total",
        MetricKind.COUNTER,
        ("reason",),
        "Requests with an Idempotency-Key, and events with an id of topics that de-duplicate, "
        "that went on without asking Redis, or whose end it was never told (backlog).",
    ),
    Metric(
        "headgate_lane_depth",
        MetricKind.SUM,
        ("topic", "partition"),
        "Events that wait in a lane or are with the producer.",
    ),
    Metric(
        "headgate_in_flight_events", MetricKind.SUM, (), "Events admitted and not yet answered."
    ),
    Metric("headgate_in_flight_bytes", MetricKind.SUM, (), "Bytes admitted and not yet answered."),
    Metric(
        "headgate_quota_rejected_total",
        MetricKind.COUNTER,
        ("producer",),
        "Events refused because the producer's quota was used up.",
    ),
    Metric(
        "headgate_producer_rebuilds_total",
        MetricKind.COUNTER,
        ("cluster", "reason"),
        "Kafka producers dropped and rebuilt after an error that poisons them.",
    ),
    Metric(
        "headgate_unknown_outcome_total",
        MetricKind.COUNTER,
        ("topic",),
        "Events whose end was not known at the deadline: they may be in Kafka or not.",
    ),
    Metric(
        "headgate_keyless_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        'Events without a key that were published unordered (keyless = "spread").',
    ),
    Metric(
        "headgate_key_cardinality",
        MetricKind.MAX,
        _BY_PAIR,
        "Estimated number of different keys in the last one to two hours.",
    ),
    Metric(
        "headgate_top_key_share",
        MetricKind.MAX,
        _BY_PAIR,
        "Share (0 to 1) of the most frequent key in the events of the last one to two hours.",
    ),
    Metric(
        "headgate_replays",
        MetricKind.MAX,
        ("state",),
        "Replays in the registries of the backfill tiers, by state.",
    ),
    Metric(
        "headgate_replays_failed_total",
        MetricKind.COUNTER,
        (),
        "Replays that this gateway has seen fail since it started; every gateway counts all.",
    ),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_DECLARED, *INSTANCE_METRICS, *GROUP_METRICS)
}
