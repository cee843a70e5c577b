"""Cases of the alerts of monitor."""

from __future__ import annotations

from support.alerts.case import Case, over

CASES = (
    Case(
        "HeadgatePartitionsOffline",
        {'headgate_cluster_partitions{cluster="c",state="offline"}': "1x60"},
        {'headgate_cluster_partitions{cluster="c",state="under_replicated"}': "1x60"},
    ),
    Case(
        "HeadgateUnderReplicated",
        *over('headgate_cluster_partitions{cluster="c",state="under_replicated"}', 3, 0),
    ),
    Case("HeadgateMonitorDown", *over('up{job="headgate-monitor",instance="m"}', 0, 1)),
    Case(
        "HeadgateMonitorDown",
        {'up{job="headgate",instance="a"}': "1x60"},
        {'up{job="headgate-monitor",instance="m"}': "1x60"},
    ),
    Case(
        "HeadgateMonitorIsBlind", *over('headgate_monitor_look_age_seconds{cluster="c"}', 200, 10)
    ),
    Case(
        "HeadgateMonitorMissesCommits",
        *over('headgate_monitor_follows_commits{cluster="c"}', 0, 1),
    ),
)
