"""All clusters' monitors together: the source of `/v1/groups`, /metrics and the table."""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.owned import OwnedTasks
from headgate.core.outage import Outage
from headgate.core.pauses import Kept
from headgate.metrics.catalogue import OTHER
from headgate.metrics.snapshot import Labels, Snapshot
from headgate.monitor import views
from headgate.monitor.cluster_monitor import NO_EXPORTERS, ClusterMonitor, Exporters
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions
from headgate.monitor.group_watch import GroupReport, GroupWatch, Heat
from headgate.monitor.rules import LagState, Probation
from headgate.monitor.views import Json

# ---- Probation of groups over a restart of the monitor: one small JSON file

probation_log = logging.getLogger("headgate.monitor.monitor")

Known = dict[str, dict[str, Probation]]


def read_probation(path: Path | None) -> Known:
    """By cluster and group; empty where there is no file yet. One that is broken is set aside."""
    if path is None or not path.exists():
        return {}
    try:
        said = json.loads(path.read_text())
        return {
            cluster: {group: Probation(*times) for group, times in groups.items()}
            for cluster, groups in said.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        probation_log.warning(
            "monitor.state_file %s cannot be used and is replaced: %s", path, error
        )
        with suppress(OSError):
            path.replace(path.with_suffix(path.suffix + ".broken"))
        return {}


def write_probation(path: Path | None, clusters: Iterable[tuple[str, ClusterWatch]]) -> None:
    """Write it aside, then rename. A file that cannot be written is logged."""
    if path is None:
        return
    said: Mapping[str, Mapping[str, Probation]] = {
        name: {group: one.probation for group, one in watch.groups.items()}
        for name, watch in clusters
    }
    fresh = path.with_suffix(path.suffix + ".new")
    try:
        fresh.write_text(json.dumps(said))
        fresh.replace(path)
    except OSError as error:
        probation_log.warning("monitor.state_file %s cannot be written: %s", path, error)


# ---- Metrics. Group names are unbounded in Kafka, so their number is bounded here

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


log = logging.getLogger("headgate.monitor.pauses")

_REGRESSIONS_SHOWN = 100
_KEEP_S = 30.0
_END_S = 5.0

ReadPauses = Callable[[str], Awaitable[Iterable[Kept]]]


class MonitorOptions(NamedTuple):
    """interval_s: between two polls.  state_file: where probation is kept."""

    watch: WatchOptions
    interval_s: float
    state_file: Path | None


class Monitor:
    """`start`, `close`. pauses: reads why a group is paused, raising OSError; None: no Redis.
    now_ms: the time since 1970."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        options: MonitorOptions,
        pauses: ReadPauses | None,
        now_ms: Callable[[], int],
        exporters: Mapping[str, Exporters] = MappingProxyType({}),
    ) -> None:
        known = read_probation(options.state_file)
        self._options = options
        self._pauses = pauses
        self._redis = Outage(time.monotonic)
        self._now_ms = now_ms
        self.clusters = [
            ClusterMonitor(
                name,
                one,
                options.watch,
                options.interval_s,
                known.get(name, {}),
                now_ms,
                exporters.get(name, NO_EXPORTERS),
            )
            for name, one in clusters.items()
        ]
        self._tasks = OwnedTasks()

    def start(self, *, follows: bool = True) -> None:
        """Begin to poll all clusters. follows: every commit, too."""
        for cluster in self.clusters:
            cluster.start(follows=follows)
        self._tasks.keep(self._keep_probation, "probation of groups")

    async def close(self) -> None:
        """End; bounded."""
        await self._tasks.end(_END_S)
        for cluster in self.clusters:
            await cluster.close()
        self._write()

    async def _keep_probation(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_S)
            self._write()

    def _write(self) -> None:
        polled = [cluster for cluster in self.clusters if cluster.status.polled_ms is not None]
        if len(polled) == len(self.clusters):  # else what is not known yet would be forgotten
            write_probation(self._options.state_file, [(one.name, one.watch) for one in polled])

    async def polled(self) -> None:
        """Wait until every cluster was polled once."""
        for cluster in self.clusters:
            await cluster.polled()

    def figures(self) -> Snapshot:
        """What /metrics says."""
        return snapshot(self.clusters, self._now_ms())

    def groups(self, topic: str | None = None, number: int | None = None) -> Json:
        """All groups, worst first: of a topic, or of the partition of it that has this number."""
        rows = [
            row
            for cluster in self.clusters
            for name, found in cluster.judged.items()
            if (watch := cluster.watch.groups.get(name)) is not None
            and (row := self._row(cluster.name, watch, found, topic, number)) is not None
        ]
        rows.sort(key=views.row_place)
        falls = [
            regression for cluster in self.clusters for regression in cluster.watch.regressions
        ]
        falls.sort(key=lambda one: -one.at_ms)
        return {
            "groups": rows,
            "regressions": [views.regression(fall) for fall in falls[:_REGRESSIONS_SHOWN]],
            "clusters": [views.cluster_row(one) for one in self.clusters],
            "cannot_be_seen": list(views.CANNOT_BE_SEEN),
        }

    def _row(
        self,
        cluster: str,
        watch: GroupWatch,
        found: GroupReport,
        topic: str | None,
        number: int | None,
    ) -> Json | None:
        """None: the group is not asked for."""
        row = views.group_row(cluster, watch, found, self._options.watch)
        if topic is None:
            return row
        here = [
            one
            for one in found.partitions
            if one.place.topic == topic and number in (None, one.place.partition)
        ]
        if not here:
            return None
        return row if number is None else {**row, "partition": views.partition_row(here[0])}

    async def group(self, name: str) -> Json | None:
        """One group on every cluster that has it; None: no cluster has."""
        kept = await self._kept(name)
        found = [
            views.group_page(cluster, watch, judged, kept)
            for cluster in self.clusters
            if (watch := cluster.watch.groups.get(name)) is not None
            and (judged := cluster.judged.get(name)) is not None
        ]
        return {"group": name, "on": found} if found else None

    async def _kept(self, name: str) -> Iterable[Kept] | None:
        """Why a group is paused; None: nobody knows."""
        if self._pauses is None:
            return None
        try:
            kept = await self._pauses(name)
        except OSError as error:
            if self._redis.begins():
                log.warning("pauses: Redis is not available: %s", error)
            return None
        if (away_s := self._redis.ends()) is not None:
            log.info("pauses: Redis answers again", extra={"away_s": away_s})
        return kept
