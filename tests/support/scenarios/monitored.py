"""A monitor over a scripted cluster, which it never polls."""

from __future__ import annotations

from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from support.scenarios.group_world import World


def monitor_of(world: World) -> Monitor:
    """What it knows is what the world has shown."""
    options = MonitorOptions(WatchOptions(), 10.0, None)
    monitor = Monitor({"main": ClusterOptions("127.0.0.1:1")}, options, None, lambda: world.now_ms)
    (cluster,) = monitor.clusters
    cluster.watch, cluster.judged = world.watch, world.judged
    return monitor
