"""Every metric once, with its labels: what /metrics may say and how workers' figures merge.

Labels are bounded. A key, an event id or any other text that a client chooses is never a label; a
producer or topic that is not in the configuration is labelled `other` (see `stats.labels`).
docs/reference/metrics.md shows this table to operators.
"""

from collections.abc import Mapping

from headgate.telemetry.group_metrics import GROUP_METRICS
from headgate.telemetry.metric import BYTES, SECONDS, Metric, MetricKind

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
    Metric(
        "headgate_held_keys",
        MetricKind.SUM,
        ("topic",),
        "Keys whose events are held, in the partitions that the workers own.",
    ),
    Metric(
        "headgate_held_bytes",
        MetricKind.SUM,
        ("topic",),
        "Memory that held events take, within 20 %.",
    ),
    Metric(
        "headgate_held_oldest_seconds",
        MetricKind.MAX,
        ("topic",),
        "Age of the oldest event that is held.",
    ),
    Metric(
        "headgate_held_lag",
        MetricKind.MAX,
        ("topic",),
        "Records of the held topic that the coalescer's group has not covered yet.",
    ),
    Metric(
        "headgate_coalescer_restarts_total",
        MetricKind.COUNTER,
        ("topic", "reason"),
        "Owners of held partitions that began again because Kafka refused or did not answer.",
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
        "Spooled events that Kafka has acknowledged since.",
    ),
    Metric(
        "headgate_spool_repeated_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that were handed over once more, because the end of the first time is not "
        "known: they may be in Kafka twice, with the same event id.",
    ),
    Metric(
        "headgate_spool_aside_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that nobody publishes any more, because Kafka refuses them for good or "
        "they are damaged on disk: see `headgate spool list`.",
    ),
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
        "headgate_event_loop_stall_seconds",
        MetricKind.MAX,
        (),
        "Longest time in the last minute for which a worker's event loop was held up.",
    ),
    Metric(
        "headgate_worker_cpu_seconds_total",
        MetricKind.COUNTER,
        ("mode",),
        "CPU seconds of the workers, user and system.",
    ),
    Metric(
        "headgate_worker_memory_bytes",
        MetricKind.SUM,
        (),
        "Resident memory of the workers together.",
    ),
    Metric(
        "headgate_worker_tasks",
        MetricKind.SUM,
        (),
        "Tasks of the workers' event loops: one for each open connection, and some dozens.",
    ),
    Metric(
        "headgate_ready",
        MetricKind.MAX,
        (),
        "1 while GET /ready answers 200, else 0.",
    ),
    Metric(
        "headgate_dependency_up",
        MetricKind.MAX,
        ("dependency",),
        "1 while every worker reaches this (redis, spool, blobs, or kafka and a cluster's name; "
        "each of several Redis servers with its name), else 0.",
    ),
    Metric(
        "headgate_workers", MetricKind.SUM, ("state",), "Worker processes by state (up, wanted)."
    ),
    Metric(
        "headgate_worker_restarts_total",
        MetricKind.COUNTER,
        (),
        "Workers started again because they had died.",
    ),
    Metric(
        "headgate_config_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "SIGHUP reloads by result (applied, refused).",
    ),
    Metric(
        "headgate_tls_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Certificates that had changed when SIGHUP came, by result (applied, refused).",
    ),
    Metric(
        "headgate_issuer_keys_fetches_total",
        MetricKind.COUNTER,
        ("result",),
        "Fetches of the keys of signed tokens, of all processes, by result (fetched, failed).",
    ),
    Metric(
        "headgate_build_info",
        MetricKind.MAX,
        ("version", "python"),
        "Always 1; the labels say what runs.",
    ),
    Metric(
        "headgate_native_info",
        MetricKind.MAX,
        ("native", "hot_path"),
        "Always 1; native: c or python, hot_path: mypyc or python.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in (*_DECLARED, *GROUP_METRICS)}
