"""What `headgate monitor` says of consumer groups and clusters; `metrics` has all others."""

from headgate.telemetry.metric import Metric, MetricKind

GROUP_METRICS = (
    Metric(
        "headgate_group_lag",
        MetricKind.SUM,
        ("group", "topic", "partition"),
        "Monitor: records between a group's committed offset and the log's end.",
    ),
    Metric(
        "headgate_group_state",
        MetricKind.MAX,
        ("group", "state"),
        "Monitor: 1 for the state that a group is in (OK, WARN, STALL, STOP, REWIND), else 0.",
    ),
    Metric(
        "headgate_group_heat",
        MetricKind.MAX,
        ("group", "heat"),
        "Monitor: 1 for where a group reads (hot, cooling, cold: from disk), else 0.",
    ),
    Metric(
        "headgate_group_position_age_seconds",
        MetricKind.MAX,
        ("group",),
        "Monitor: age of the oldest record that a group reads next; 0 without lag.",
    ),
    Metric(
        "headgate_group_loss_seconds",
        MetricKind.MAX,
        ("group",),
        "Monitor: until retention takes records that a group will not have read by then.",
    ),
    Metric(
        "headgate_group_stuck_commits",
        MetricKind.MAX,
        ("group",),
        "Monitor: 1 while a former owner's commit lies below what is done, else 0.",
    ),
    Metric(
        "headgate_group_idle_members",
        MetricKind.MAX,
        ("group",),
        "Monitor: members that own no partition.",
    ),
    Metric(
        "headgate_group_probation",
        MetricKind.MAX,
        ("group",),
        "Monitor: 1 while a new group has not kept up for long enough, else 0.",
    ),
    Metric(
        "headgate_commit_regressions_total",
        MetricKind.COUNTER,
        ("group", "topic"),
        "Monitor: commits that were lower than the one before, also those made good since.",
    ),
    Metric(
        "headgate_cluster_partitions",
        MetricKind.MAX,
        ("cluster", "state"),
        "Monitor: partitions that are under_replicated, offline or below_min_isr.",
    ),
    Metric(
        "headgate_unexplained_bytes_per_second",
        MetricKind.MAX,
        ("cluster", "topic"),
        "Monitor: bytes that leave the brokers and that no group's progress explains.",
    ),
    Metric(
        "headgate_monitor_look_age_seconds",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: since the last poll at a cluster that went well.",
    ),
    Metric(
        "headgate_monitor_look_seconds",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: how long that poll took.",
    ),
    Metric(
        "headgate_monitor_follows_commits",
        MetricKind.MAX,
        ("cluster",),
        "Monitor: 1 while every commit is read from __consumer_offsets, 0 with polls alone.",
    ),
)
