"""The catalogue of all metrics, with their labels and their merge rules.

Labels are bounded. A key, an event id or any other text that a client chooses is never a label. A
producer or topic outside the configuration has the label `other` (see `metrics.meter.Labels`).
docs/reference/metrics.md shows this table to operators.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

OTHER = "other"  # the label of every producer and topic that the configuration does not name


class MetricKind(StrEnum):
    """The kind of a metric in Prometheus, and the merge rule of several workers' gauges."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUM = "sum"  # gauge: the workers' values add up
    MAX = "max"  # gauge: the largest value of any worker


class Metric(NamedTuple):
    """One metric. Buckets are upper bounds, ascending, without +Inf; only histograms have any."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()


# A single event takes 1-20 ms, a stalled lane up to the request's deadline of some tens of seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Powers of four from 64 bytes: 1 MiB, Kafka's default limit, is a bucket bound.
BYTES = tuple(float(4**power) for power in range(3, 13))


# ---- consumer groups and clusters: exposed by `headgate monitor` only

GROUP_METRICS = (
    Metric(
        "headgate_group_lag",
        MetricKind.SUM,
        ("cluster", "group", "topic", "partition"),
        "Monitor: records between a group's committed offset and the end of the log.",
    ),
    Metric(
        "headgate_group_state",
        MetricKind.MAX,
        ("cluster", "group", "state"),
        "Monitor: 1 for the group's state (OK, WARN, STALL, STOP, REWIND), else 0.",
    ),
    Metric(
        "headgate_group_owner",
        MetricKind.MAX,
        ("cluster", "group", "owner"),
        "Monitor: 1 for the owner of the group in monitor.group_owners. Alerts have its label.",
    ),
    Metric(
        "headgate_group_heat",
        MetricKind.MAX,
        ("cluster", "group", "heat"),
        "Monitor: 1 for the group's read position (hot: page cache, cooling, cold: disk), else 0.",
    ),
    Metric(
        "headgate_group_position_age_seconds",
        MetricKind.MAX,
        ("cluster", "group"),
        "Monitor: age of the oldest record that the group has yet to read. 0 without lag.",
    ),
    Metric(
        "headgate_group_loss_seconds",
        MetricKind.MAX,
        ("cluster", "group"),
        "Monitor: seconds until retention removes records that the group has not read.",
    ),
    Metric(
        "headgate_group_stuck_commits",
        MetricKind.MAX,
        ("cluster", "group"),
        "Monitor: 1 while a former owner's commit is lower than the group's progress, else 0.",
    ),
    Metric(
        "headgate_group_idle_members",
        MetricKind.MAX,
        ("cluster", "group"),
        "Monitor: members without a partition.",
    ),
    Metric(
        "headgate_group_probation",
        MetricKind.MAX,
        ("cluster", "group"),
        "Monitor: 1 while a new group is on probation because it has not kept up for long enough, "
        "else 0.",
    ),
    Metric(
        "headgate_commit_regressions_total",
        MetricKind.COUNTER,
        ("cluster", "group", "topic"),
        "Monitor: commits that were lower than the previous one, including those that were "
        "corrected later.",
    ),
    Metric(
        "headgate_cluster_partitions",
        MetricKind.MAX,
        ("cluster", "state"),
        "Monitor: partitions by state: under_replicated, offline, below_min_isr.",
    ),
    Metric(
        "headgate_unexplained_bytes_per_second",
        MetricKind.MAX,
        ("cluster", "topic"),
        "Monitor: bytes read from the brokers that no group's progress explains.",
    ),
    Metric(
        "headgate_monitor_look_age_seconds",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: seconds since the last successful poll of the cluster, at first since the start.",
    ),
    Metric(
        "headgate_monitor_look_seconds",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: duration of that poll, in seconds.",
    ),
    Metric(
        "headgate_monitor_follows_commits",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: 1 while the monitor reads every commit from __consumer_offsets, or the cluster "
        "has no consumer group; 0 while it only polls.",
    ),
)


# ---- the gateway itself: its processes, limits, dependencies and build

INSTANCE_METRICS = (
    Metric(
        "headgate_event_loop_stall_seconds",
        MetricKind.MAX,
        (),
        "Longest stall of a worker's event loop in the last minute.",
    ),
    Metric(
        "headgate_worker_cpu_seconds_total",
        MetricKind.COUNTER,
        ("mode",),
        "CPU seconds of the workers, by mode (user, system).",
    ),
    Metric(
        "headgate_worker_memory_bytes",
        MetricKind.SUM,
        (),
        "Resident memory of all workers.",
    ),
    Metric(
        "headgate_worker_tasks",
        MetricKind.SUM,
        (),
        "Tasks in the workers' event loops: one for each open connection, plus some dozens.",
    ),
    Metric(
        "headgate_in_flight_limit_events",
        MetricKind.MAX,
        (),
        "Limit of events in flight (admission.in_flight_max_events). Above it the gateway answers "
        "503.",
    ),
    Metric(
        "headgate_in_flight_limit_bytes",
        MetricKind.MAX,
        (),
        "Limit of bytes in flight (admission.in_flight_max_bytes). Above it the gateway answers "
        "503.",
    ),
    Metric(
        "headgate_spool_limit_bytes",
        MetricKind.MAX,
        (),
        "Limit of bytes in the spool (spool.max_bytes). Absent without a spool.",
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
        "1 while every worker reaches the dependency, else 0. Dependencies: redis (for "
        "suppression), redis identity (for Idempotency-Keys and event ids), spool, blobs, kafka "
        "with a cluster's name, backfill with the name of a backfill cluster. Each of several "
        "Redis servers has its name behind `redis` and `redis identity`.",
    ),
    Metric(
        "headgate_workers",
        MetricKind.SUM,
        ("state",),
        "Worker processes by state: up (running) and wanted (configured).",
    ),
    Metric(
        "headgate_worker_restarts_total",
        MetricKind.COUNTER,
        (),
        "Restarts of workers that exited unexpectedly.",
    ),
    Metric(
        "headgate_config_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Configuration reloads by result (applied, refused).",
    ),
    Metric(
        "headgate_config_last_reload_successful",
        MetricKind.MAX,
        (),
        "1 while the configuration last read is active, 0 after a refused reload.",
    ),
    Metric(
        "headgate_config_last_reload_success_timestamp_seconds",
        MetricKind.MAX,
        (),
        "When the active configuration was read, in seconds since 1970.",
    ),
    Metric(
        "headgate_tls_reloads_total",
        MetricKind.COUNTER,
        ("result",),
        "Reloads of a changed certificate, by result (applied, refused).",
    ),
    Metric(
        "headgate_tls_last_reload_successful",
        MetricKind.MAX,
        (),
        "1 while the certificates last read are active, 0 after a refused reload. Only with TLS.",
    ),
    Metric(
        "headgate_certificate_expiry_timestamp_seconds",
        MetricKind.MAX,
        (),
        "Expiry of the active certificate chain, in seconds since 1970. Only with TLS.",
    ),
    Metric(
        "headgate_issuer_keys_fetches_total",
        MetricKind.COUNTER,
        ("result",),
        "Fetches of an issuer's token keys by all processes, by result (fetched, failed).",
    ),
    Metric(
        "headgate_trace_spans_total",
        MetricKind.COUNTER,
        ("result",),
        "Spans by result: exported, refused (by the collector), or dropped (too many spans "
        "waited, or too many sampled requests were open).",
    ),
    Metric(
        "headgate_build_info",
        MetricKind.MAX,
        ("version", "python"),
        "Always 1. The labels name the running versions.",
    ),
    Metric(
        "headgate_native_info",
        MetricKind.MAX,
        ("native", "hot_path"),
        "Always 1. native: c or python. hot_path: mypyc or python.",
    ),
)


# ---- held and spooled events

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
        "headgate_spool_aside_events",
        MetricKind.SUM,
        ("topic",),
        "Spooled events that are set aside and will not be published. `headgate spool list` shows "
        "them; `headgate spool drop --aside` removes them while the gateway is stopped.",
    ),
    Metric(
        "headgate_spool_aside_total",
        MetricKind.COUNTER,
        ("topic",),
        "Spooled events that are no longer published because Kafka refuses them for good or they "
        "are damaged on disk. `headgate spool list` shows them.",
    ),
)


_BY_PAIR = ("producer", "topic")

_DECLARED = (
    Metric(
        "headgate_events_total",
        MetricKind.COUNTER,
        (*_BY_PAIR, "outcome", "reason"),
        "Events by outcome. The reason is empty for events that were accepted. A request that is "
        "refused before its events are read counts as one event.",
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
        "headgate_producer_limited_total",
        MetricKind.COUNTER,
        _BY_PAIR,
        "Events refused as `overloaded` because of the limit or the share of their own producer. "
        "`headgate_events_total` counts them, too.",
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
        'Successful events without a key, which have no order (keyless = "spread").',
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
