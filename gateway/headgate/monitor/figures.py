"""The monitor's metrics. Groups are Kafka's, so their number is bounded here by its own means."""

from collections import defaultdict
from collections.abc import Iterable

from headgate.core.groups.lag_rules import LagState
from headgate.core.groups.report import Heat
from headgate.metrics.catalogue import OTHER
from headgate.metrics.snapshot import Labels, Snapshot
from headgate.monitor.cluster_monitor import ClusterMonitor

_MAX_PARTITIONS = 20_000  # series of the lag; the lag of what is beyond is summed as `other`
_MAX_GROUPS = 2_000

Table = dict[Labels, float]


def snapshot(
    clusters: Iterable[ClusterMonitor], now_ms: int, max_partitions: int = _MAX_PARTITIONS
) -> Snapshot:
    """Everything that /metrics of the monitor says. max_partitions: series of one metric."""
    every = list(clusters)
    gauges: dict[str, Table] = defaultdict(dict)
    counters: dict[str, Table] = defaultdict(dict)
    for cluster in every:
        _of_cluster(cluster, now_ms, gauges)
        regressions = counters["headgate_commit_regressions_total"]
        for by, count in cluster.watch.counts.items():
            labels = by if len(regressions) < max_partitions or by in regressions else (OTHER,) * 2
            regressions[labels] = regressions.get(labels, 0) + count
        _of_groups(cluster, gauges, max_partitions)
    return Snapshot(dict(counters), dict(gauges))


def _of_cluster(cluster: ClusterMonitor, now_ms: int, gauges: dict[str, Table]) -> None:
    name, status = cluster.name, cluster.status
    for state, count in cluster.watch.health._asdict().items():
        gauges["headgate_cluster_partitions"][name, state] = count
    if status.polled_ms is not None:
        age_s = (now_ms - status.polled_ms) / 1000
        gauges["headgate_monitor_look_age_seconds"][name,] = age_s
        gauges["headgate_monitor_look_seconds"][name,] = status.poll_s
    for topic, rate in cluster.readers.unexplained.items():
        gauges["headgate_unexplained_bytes_per_second"][name, topic] = rate
    gauges["headgate_monitor_follows_commits"][name,] = not status.commits


def _of_groups(cluster: ClusterMonitor, gauges: dict[str, Table], max_partitions: int) -> None:
    lags, states = gauges["headgate_group_lag"], gauges["headgate_group_state"]
    for name, found in cluster.judged.items():
        for partition in found.partitions:
            if partition.is_unread:
                continue
            labels: Labels = (name, partition.place.topic, str(partition.place.partition))
            if len(lags) >= max_partitions and labels not in lags:
                labels = (OTHER, OTHER, "")
            lags[labels] = lags.get(labels, 0) + partition.lag
        if len(states) >= _MAX_GROUPS * len(LagState) and (name, LagState.OK) not in states:
            continue
        watch = cluster.watch.groups.get(name)
        for state in LagState:
            _raise(states, (name, state), found.state is state)
        _raise(gauges["headgate_group_stuck_commits"], (name,), found.is_stuck)
        _raise(gauges["headgate_group_idle_members"], (name,), found.idle_members)
        _raise(gauges["headgate_group_position_age_seconds"], (name,), found.age_ms / 1000)
        for heat in (Heat.HOT, Heat.COOLING, Heat.COLD):
            _raise(gauges["headgate_group_heat"], (name, heat), found.heat is heat)
        if found.loss_ms is not None:
            gauges["headgate_group_loss_seconds"][name,] = found.loss_ms / 1000
        on_probation = watch is not None and watch.probation.admitted_ms is None
        _raise(gauges["headgate_group_probation"], (name,), on_probation)


def _raise(table: Table, labels: Labels, value: float) -> None:
    """Of two groups of one name on two clusters the larger value counts."""
    table[labels] = max(table.get(labels, 0.0), float(value))
