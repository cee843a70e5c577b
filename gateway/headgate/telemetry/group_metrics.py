"""What `headgate monitor` says of consumer groups and clusters; `metrics` has all others."""

from headgate.telemetry.metric import Metric, MetricKind

GROUP_METRICS = (
    Metric(
        "headgate_group_lag",
        MetricKind.SUM,
        ("group", "topic", "partition"),
        "Monitor: records between a group's committed offset and the end of the log.",
    ),
    Metric(
        "headgate_group_state",
        MetricKind.MAX,
        ("group", "state"),
        "Monitor: 1 for the group's state (OK, WARN, STALL, STOP, REWIND), else 0.",
    ),
    Metric(
        "headgate_group_heat",
        MetricKind.MAX,
        ("group", "heat"),
        "Monitor: 1 for the group's read position (hot: page cache, cooling, cold: disk), else 0.",
    ),
    Metric(
        "headgate_group_position_age_seconds",
        MetricKind.MAX,
        ("group",),
        "Monitor: age of the oldest record that the group has yet to read. 0 without lag.",
    ),
    Metric(
        "headgate_group_loss_seconds",
        MetricKind.MAX,
        ("group",),
        "Monitor: seconds until retention removes records that the group has not read.",
    ),
    Metric(
        "headgate_group_stuck_commits",
        MetricKind.MAX,
        ("group",),
        "Monitor: 1 while a former owner's commit is lower than the group's progress, else 0.",
    ),
    Metric(
        "headgate_group_idle_members",
        MetricKind.MAX,
        ("group",),
        "Monitor: members without a partition.",
    ),
    Metric(
        "headgate_group_probation",
        MetricKind.MAX,
        ("group",),
        "Monitor: 1 while a new group is on probation because it has not kept up for long enough, "
        "else 0.",
    ),
    Metric(
        "headgate_commit_regressions_total",
        MetricKind.COUNTER,
        ("group", "topic"),
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
        "Monitor: seconds since the last successful poll of the cluster.",
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
        "Monitor: 1 while the monitor reads every commit from __consumer_offsets, 0 while it only "
        "polls.",
    ),
)
