"""What `headgate monitor` says of consumer groups and clusters; `metrics` has all others."""

from headgate.telemetry.metric import Kind, Metric

GROUP_METRICS = (
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
)
