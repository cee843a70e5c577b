"""The monitors of all clusters: the source of `/v1/groups`, /metrics and the table."""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from headgate.backends.owned import OwnedTasks
from headgate.kafka.options import ClusterOptions
from headgate.metrics.catalogue import OTHER
from headgate.metrics.snapshot import Labels, Snapshot
from headgate.model.times import Outage
from headgate.model.topics import Globs
from headgate.monitor import views
from headgate.monitor.cluster_monitor import NO_EXPORTERS, ClusterMonitor, Exporters
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions
from headgate.monitor.group_watch import GroupReport, GroupWatch, Heat
from headgate.monitor.rules import LagState, Probation
from headgate.monitor.views import Json
from headgate.redis.pauses import Kept

log = logging.getLogger("headgate.monitor")

# ---- probation of groups over a restart, in a small JSON file

probation_log = logging.getLogger("headgate.monitor")

Known = dict[str, dict[str, Probation]]


def read_probation(path: Path | None) -> Known:
    """Read probation by cluster and group; empty without a file. A broken file is renamed."""
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
    """Write a new file, then rename it. A failure is logged."""
    if path is None:
        return
    said: Mapping[str, Mapping[str, Probation]] = {
        name: {group: group_watch.probation for group, group_watch in watch.groups.items()}
        for name, watch in clusters
    }
    fresh = path.with_suffix(path.suffix + ".new")
    try:
        fresh.write_text(json.dumps(said))
        fresh.replace(path)
    except OSError as error:
        probation_log.warning("monitor.state_file %s cannot be written: %s", path, error)


# ---- metrics. Group names are unbounded in Kafka, so their number is bounded here

_MAX_PARTITIONS = 20_000  # series of the lag; further partitions are summed as `other`
_MAX_GROUPS = 2_000

Table = dict[Labels, float]


class GroupOwners:
    """Lookup of the owners of groups.

    Args:
        owners: Names or globs of groups with their owners; the first match counts.
    """

    def __init__(self, owners: Iterable[tuple[str, str]]) -> None:
        self._owners = [(Globs((groups,)), owner) for groups, owner in owners]

    def of(self, group: str) -> str | None:
        """Return the owner of a group; None if no entry matches."""
        return next((owner for globs, owner in self._owners if globs.match(group)), None)


def snapshot(
    clusters: Iterable[ClusterMonitor],
    now_ms: int,
    owners: GroupOwners,
    max_partitions: int = _MAX_PARTITIONS,
) -> Snapshot:
    """Return all metrics of the monitor, with at most `max_partitions` series each."""
    every = list(clusters)
    gauges: dict[str, Table] = defaultdict(dict)
    counters: dict[str, Table] = defaultdict(dict)
    for cluster in every:
        _add_cluster_gauges(cluster, now_ms, gauges)
        regressions = counters["headgate_commit_regressions_total"]
        for by, count in cluster.watch.counts.items():
            labels: Labels = (cluster.name, *by)
            if len(regressions) >= max_partitions and labels not in regressions:
                labels = (cluster.name, OTHER, OTHER)
            regressions[labels] = regressions.get(labels, 0) + count
        _add_group_gauges(cluster, gauges, owners, max_partitions)
    return Snapshot(dict(counters), dict(gauges))


def _add_cluster_gauges(cluster: ClusterMonitor, now_ms: int, gauges: dict[str, Table]) -> None:
    name, status = cluster.name, cluster.status
    for state, count in cluster.watch.health._asdict().items():
        gauges["headgate_cluster_partitions"][name, state] = count
    polled_ms = cluster.began_ms if status.polled_ms is None else status.polled_ms
    gauges["headgate_monitor_look_age_seconds"][name,] = (now_ms - polled_ms) / 1000
    if status.polled_ms is not None:
        gauges["headgate_monitor_look_seconds"][name,] = status.poll_s
    for topic, rate in cluster.readers.unexplained.items():
        gauges["headgate_unexplained_bytes_per_second"][name, topic] = rate
    misses_none = not status.commits or (status.ok and not cluster.judged)
    gauges["headgate_monitor_follows_commits"][name,] = misses_none


def _add_group_gauges(
    cluster: ClusterMonitor, gauges: dict[str, Table], owners: GroupOwners, max_partitions: int
) -> None:
    lags, states = gauges["headgate_group_lag"], gauges["headgate_group_state"]
    for name, group_report in cluster.judged.items():
        group = cluster.name, name
        for report in group_report.partitions:
            if report.is_unread:
                continue
            partition = report.partition
            labels: Labels = (*group, partition.topic, str(partition.partition))
            if len(lags) >= max_partitions and labels not in lags:
                labels = (cluster.name, OTHER, OTHER, "")
            lags[labels] = lags.get(labels, 0) + report.lag
        if len(states) >= _MAX_GROUPS * len(LagState) and (*group, LagState.OK) not in states:
            continue
        if (owner := owners.of(name)) is not None:
            gauges["headgate_group_owner"][*group, owner] = 1.0
        watch = cluster.watch.groups.get(name)
        for state in LagState:
            states[*group, state] = float(group_report.state is state)
        gauges["headgate_group_stuck_commits"][group] = float(group_report.is_stuck)
        gauges["headgate_group_idle_members"][group] = float(group_report.idle_members)
        gauges["headgate_group_position_age_seconds"][group] = group_report.age_ms / 1000
        for heat in (Heat.HOT, Heat.COOLING, Heat.COLD):
            gauges["headgate_group_heat"][*group, heat] = float(group_report.heat is heat)
        if group_report.loss_ms is not None:
            gauges["headgate_group_loss_seconds"][group] = group_report.loss_ms / 1000
        on_probation = watch is not None and watch.probation.admitted_ms is None
        gauges["headgate_group_probation"][group] = float(on_probation)


_REGRESSIONS_SHOWN = 100
_KEEP_S = 30.0
_END_S = 5.0

_PAUSES_S = 1.0  # pauses that are no older are not read again

ReadPauses = Callable[[Sequence[str]], Awaitable[Sequence[Iterable[Kept]]]]


class MonitorOptions(NamedTuple):
    """Options of the monitor.

    Attributes:
        watch: Options of each cluster's watch.
        interval_s: Time between two polls, in seconds.
        state_file: File of the probation, if any.
        owners: Names or globs of groups with their owners; the first match counts.
    """

    watch: WatchOptions
    interval_s: float
    state_file: Path | None
    owners: Sequence[tuple[str, str]] = ()


class Monitor:
    """The monitor of all clusters.

    Args:
        clusters: Options of the clusters, by name.
        options: Options of the monitor.
        pauses: Reads the pauses of groups, and raises OSError on a failure; None without Redis.
        now_ms: Milliseconds since 1970.
        exporters: Exporters of the brokers' metrics, by cluster.
    """

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        options: MonitorOptions,
        pauses: ReadPauses | None,
        now_ms: Callable[[], int],
        exporters: Mapping[str, Exporters] = MappingProxyType({}),
    ) -> None:
        probations = read_probation(options.state_file)
        self._options = options
        self._owners = GroupOwners(options.owners)
        self._pauses = pauses
        self._kept: dict[str, list[Kept]] | None = None  # None: unknown
        self._kept_s = -_PAUSES_S
        self._redis = Outage(time.monotonic)
        self._now_ms = now_ms
        self.clusters = [
            ClusterMonitor(
                name,
                cluster_options,
                options.watch,
                options.interval_s,
                probations.get(name, {}),
                now_ms,
                exporters.get(name, NO_EXPORTERS),
            )
            for name, cluster_options in clusters.items()
        ]
        self._tasks = OwnedTasks()

    def start(self, *, follows: bool = True) -> None:
        """Begin to poll all clusters, and with `follows` to follow every commit."""
        for cluster in self.clusters:
            cluster.start(follows=follows)
        self._tasks.keep(self._keep_probation, "probation of groups")

    async def close(self) -> None:
        """Stop; bounded."""
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
        if len(polled) == len(self.clusters):  # otherwise the file would lose unpolled clusters
            write_probation(
                self._options.state_file,
                [(cluster_monitor.name, cluster_monitor.watch) for cluster_monitor in polled],
            )

    async def polled(self) -> None:
        """Wait for the first poll of every cluster."""
        for cluster in self.clusters:
            await cluster.polled()

    def figures(self) -> Snapshot:
        """Return the metrics."""
        return snapshot(self.clusters, self._now_ms(), self._owners)

    def groups(self, topic: str | None = None, number: int | None = None) -> Json:
        """Return all groups, worst first, optionally only those of a topic or partition."""
        rows = [
            row
            for cluster in self.clusters
            for name, group_report in cluster.judged.items()
            if (watch := cluster.watch.groups.get(name)) is not None
            and (row := self._row(cluster.name, watch, group_report, topic, number)) is not None
        ]
        rows.sort(key=views.row_place)
        falls = [
            regression for cluster in self.clusters for regression in cluster.watch.regressions
        ]
        falls.sort(key=lambda fall: -fall.at_ms)
        return {
            "groups": rows,
            "regressions": [views.regression(fall) for fall in falls[:_REGRESSIONS_SHOWN]],
            "clusters": [views.cluster_row(each) for each in self.clusters],
            "cannot_be_seen": list(views.CANNOT_BE_SEEN),
        }

    def groups_of_one_poll(self) -> Json:
        """Return `groups` after a single poll, which cannot judge groups with lag."""
        allowed_lag = self._options.watch.rules.allowed_lag
        lagging = {
            (cluster.name, name)
            for cluster in self.clusters
            for name, judged in cluster.judged.items()
            if any(each.lag > allowed_lag for each in judged.partitions if not each.is_unread)
        }
        page = self.groups()
        page["groups"] = [
            views.unjudged(row) if (row["cluster"], row["group"]) in lagging else row
            for row in page["groups"]
        ]
        return page

    def _row(
        self,
        cluster: str,
        watch: GroupWatch,
        judged: GroupReport,
        topic: str | None,
        number: int | None,
    ) -> Json | None:
        """Return the row of a group; None if it does not match."""
        kept = self._kept_of(watch.name)
        row = views.group_row(cluster, watch, judged, self._options.watch, kept)
        if topic is None:
            return row
        here = [
            each
            for each in judged.partitions
            if each.partition.topic == topic and number in (None, each.partition.partition)
        ]
        if not here:
            return None
        return row if number is None else {**row, "partition": views.partition_row(here[0])}

    async def group(self, name: str) -> Json | None:
        """Return one group on every cluster that has it; None if no cluster has."""
        await self.read_pauses()
        kept = self._kept_of(name)
        pages = [
            views.group_page(
                cluster, watch, judged, kept, self._now_ms(), await cluster.next_record(judged)
            )
            for cluster in self.clusters
            if (watch := cluster.watch.groups.get(name)) is not None
            and (judged := cluster.judged.get(name)) is not None
        ]
        return {"group": name, "on": pages} if pages else None

    async def read_pauses(self) -> None:
        """Read the pauses of all groups, at most once a second; a failure makes them unknown."""
        now_s = time.monotonic()
        if self._pauses is None or now_s - self._kept_s < _PAUSES_S:
            return
        self._kept_s = now_s
        names = sorted({name for cluster in self.clusters for name in cluster.judged})
        try:
            kept = await self._pauses(names)
        except OSError as error:
            self._kept = None
            if self._redis.begins():
                log.warning("pauses: Redis is not available: %s", error)
            return
        if (away_s := self._redis.ends()) is not None:
            log.info("pauses: Redis answers again", extra={"away_s": away_s})
        self._kept = {name: list(each) for name, each in zip(names, kept, strict=True) if each}

    def _kept_of(self, name: str) -> list[Kept] | None:
        """Return the pauses of a group; None if they are unknown."""
        return None if self._kept is None else self._kept.get(name, [])
