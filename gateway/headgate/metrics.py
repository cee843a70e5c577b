"""Every metric once, with its labels: what /metrics may say and how workers' figures merge.

Labels are bounded. A key, an event id or any other text that a client chooses is never a label; a
producer or topic that is not in the configuration is labelled `other` (see `stats.labels`).
deploy/README.md lists the same table for operators; a test compares the two.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

OTHER = "other"  # the label of every producer and topic that the configuration does not name


class Kind(StrEnum):
    """What Prometheus calls it, and for gauges how the figures of several workers become one."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUM = "sum"  # gauge: the workers' values add up
    MAX = "max"  # gauge: the largest value of any worker


class Metric(NamedTuple):
    """One metric. buckets: upper bounds, ascending, without +Inf; empty unless a histogram."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()


# A single event takes 1-20 ms, a stalled lane up to the request's deadline of some tens of seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Powers of four from 64 bytes: 1 MiB, Kafka's default limit, is a bucket bound.
BYTES = tuple(float(4**power) for power in range(3, 13))

_BY_PAIR = ("producer", "topic")

_DECLARED = (
    Metric(
        "headgate_events_total",
        Kind.COUNTER,
        (*_BY_PAIR, "outcome", "reason"),
        "Events by how they ended; reason is empty for events that ended well.",
    ),
    Metric(
        "headgate_event_bytes",
        Kind.HISTOGRAM,
        _BY_PAIR,
        "Bytes of the events' values as the producer sent them, whatever became of them.",
        BYTES,
    ),
    Metric(
        "headgate_request_seconds",
        Kind.HISTOGRAM,
        ("route", "status"),
        "Seconds from a request's head to its answer.",
        SECONDS,
    ),
    Metric(
        "headgate_ack_seconds",
        Kind.HISTOGRAM,
        ("topic",),
        "Seconds from handing a batch of a lane to the producer to its acknowledgement.",
        SECONDS,
    ),
    Metric(
        "headgate_acknowledged_records_total",
        Kind.COUNTER,
        ("topic",),
        "Records that Kafka acknowledged.",
    ),
    Metric(
        "headgate_suppressed_bytes_total",
        Kind.COUNTER,
        _BY_PAIR,
        "Bytes of the values of unchanged and superseded events, which were not published.",
    ),
    Metric(
        "headgate_coalesced_total",
        Kind.COUNTER,
        _BY_PAIR,
        "Held events that were not published because a later one of their key was.",
    ),
    Metric(
        "headgate_held_keys",
        Kind.SUM,
        ("topic",),
        "Keys whose events are held, in the partitions that the workers own.",
    ),
    Metric("headgate_held_bytes", Kind.SUM, ("topic",), "Memory that the newest of them take."),
    Metric(
        "headgate_held_oldest_seconds",
        Kind.MAX,
        ("topic",),
        "Age of the oldest event that is held.",
    ),
    Metric(
        "headgate_held_lag",
        Kind.MAX,
        ("topic",),
        "Records of the held topic that the coalescer's group has not covered yet.",
    ),
    Metric(
        "headgate_coalescer_restarts_total",
        Kind.COUNTER,
        ("topic", "reason"),
        "Owners of held partitions that began again because Kafka refused or did not answer.",
    ),
    Metric(
        "headgate_oversize_total",
        Kind.COUNTER,
        (*_BY_PAIR, "action"),
        "Events larger than their topic allows, by what they became: a rung, or reject.",
    ),
    Metric(
        "headgate_facts_total",
        Kind.COUNTER,
        ("topic", "result"),
        "Facts by what became of them: written to headgate.facts, or dropped because it is missing "
        "(no_topic), more came than could be written (full), or for the reason named.",
    ),
    Metric(
        "headgate_suppression_bypassed_total",
        Kind.COUNTER,
        ("reason",),
        "Events of suppressing topics that were published without asking Redis first.",
    ),
    Metric(
        "headgate_canonical_fallbacks_total",
        Kind.COUNTER,
        ("topic", "reason"),
        "Events of canonical topics whose bytes were compared instead of their JSON value.",
    ),
    Metric(
        "headgate_identity_bypassed_total",
        Kind.COUNTER,
        ("reason",),
        "Requests with an Idempotency-Key, and events with an id of topics that de-duplicate, "
        "that went on without asking Redis, or whose end it was never told (backlog).",
    ),
    Metric(
        "headgate_lane_depth",
        Kind.SUM,
        ("topic", "partition"),
        "Events that wait in a lane or are with the producer.",
    ),
    Metric("headgate_in_flight_events", Kind.SUM, (), "Events admitted and not yet answered."),
    Metric("headgate_in_flight_bytes", Kind.SUM, (), "Bytes admitted and not yet answered."),
    Metric(
        "headgate_quota_rejected_total",
        Kind.COUNTER,
        ("producer",),
        "Events refused because the producer's quota was used up.",
    ),
    Metric(
        "headgate_producer_rebuilds_total",
        Kind.COUNTER,
        ("cluster", "reason"),
        "Kafka producers dropped and built anew after an error that poisons them.",
    ),
    Metric(
        "headgate_unknown_outcome_total",
        Kind.COUNTER,
        ("topic",),
        "Events whose end was not known at the deadline: they may be in Kafka or not.",
    ),
    Metric(
        "headgate_keyless_total",
        Kind.COUNTER,
        _BY_PAIR,
        'Events without a key that were published unordered (keyless = "spread").',
    ),
    Metric(
        "headgate_key_cardinality",
        Kind.MAX,
        _BY_PAIR,
        "Estimated number of different keys in the last one to two hours.",
    ),
    Metric(
        "headgate_top_key_share",
        Kind.MAX,
        _BY_PAIR,
        "Share (0 to 1) of the most frequent key in the events of the last one to two hours.",
    ),
    Metric(
        "headgate_group_lag",
        Kind.SUM,
        ("group", "topic", "partition"),
        "Monitor: records between a group's committed offset and the log's end.",
    ),
    Metric(
        "headgate_group_state",
        Kind.MAX,
        ("group", "state"),
        "Monitor: 1 for the state that a group is in (OK, WARN, STALL, STOP, REWIND), else 0.",
    ),
    Metric(
        "headgate_group_heat",
        Kind.MAX,
        ("group", "heat"),
        "Monitor: 1 for where a group reads (hot, cooling, cold: from disk), else 0.",
    ),
    Metric(
        "headgate_group_position_age_seconds",
        Kind.MAX,
        ("group",),
        "Monitor: age of the oldest record that a group reads next; 0 without lag.",
    ),
    Metric(
        "headgate_group_loss_seconds",
        Kind.MAX,
        ("group",),
        "Monitor: until retention takes records that a group will not have read by then.",
    ),
    Metric(
        "headgate_group_stuck_commits",
        Kind.MAX,
        ("group",),
        "Monitor: 1 while a former owner's commit lies below what is done, else 0.",
    ),
    Metric(
        "headgate_group_idle_members",
        Kind.MAX,
        ("group",),
        "Monitor: members that own no partition.",
    ),
    Metric(
        "headgate_group_probation",
        Kind.MAX,
        ("group",),
        "Monitor: 1 while a new group has not kept up for long enough, else 0.",
    ),
    Metric(
        "headgate_commit_regressions_total",
        Kind.COUNTER,
        ("group", "topic"),
        "Monitor: commits that were lower than the one before, also those made good since.",
    ),
    Metric(
        "headgate_cluster_partitions",
        Kind.MAX,
        ("cluster", "state"),
        "Monitor: partitions that are under_replicated, offline or below_min_isr.",
    ),
    Metric(
        "headgate_unexplained_bytes_per_second",
        Kind.MAX,
        ("cluster", "topic"),
        "Monitor: bytes that leave the brokers and that no group's progress explains.",
    ),
    Metric(
        "headgate_monitor_look_age_seconds",
        Kind.MAX,
        ("cluster",),
        "Monitor: since the last look at a cluster that went well.",
    ),
    Metric(
        "headgate_monitor_look_seconds",
        Kind.MAX,
        ("cluster",),
        "Monitor: how long that look took.",
    ),
    Metric(
        "headgate_monitor_follows_commits",
        Kind.MAX,
        ("cluster",),
        "Monitor: 1 while every commit is read from __consumer_offsets, 0 with looks alone.",
    ),
    Metric(
        "headgate_replays",
        Kind.MAX,
        ("state",),
        "Replays in the registries of the backfill tiers, by state.",
    ),
    Metric(
        "headgate_event_loop_stall_seconds",
        Kind.MAX,
        (),
        "Longest time in the last minute for which a worker's event loop was held up.",
    ),
    Metric(
        "headgate_worker_cpu_seconds_total",
        Kind.COUNTER,
        ("mode",),
        "CPU seconds of the workers, user and system.",
    ),
    Metric(
        "headgate_worker_memory_bytes", Kind.SUM, (), "Resident memory of the workers together."
    ),
    Metric("headgate_workers", Kind.SUM, ("state",), "Worker processes by state (up, wanted)."),
    Metric(
        "headgate_worker_restarts_total",
        Kind.COUNTER,
        (),
        "Workers started again because they had died.",
    ),
    Metric(
        "headgate_config_reloads_total",
        Kind.COUNTER,
        ("result",),
        "SIGHUP reloads by result (applied, refused).",
    ),
    Metric(
        "headgate_build_info",
        Kind.MAX,
        ("version", "python"),
        "Always 1; the labels say what runs.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _DECLARED}

_SHOWN = {Kind.SUM: "gauge, sum of the workers", Kind.MAX: "gauge, largest of the workers"}


def markdown() -> str:
    """The table of deploy/README.md."""
    rows = ["| metric | labels | kind | meaning |", "|---|---|---|---|"]
    for metric in _DECLARED:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        kind = _SHOWN.get(metric.kind, str(metric.kind))
        rows.append(f"| `{metric.name}` | {labels} | {kind} | {metric.text} |")
    return "\n".join(rows) + "\n"
