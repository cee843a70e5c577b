"""All clusters' monitors together: what `/v1/groups`, /metrics and the terminal are made of."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.owned import OwnedTasks
from headgate.core.groups.cluster_watch import WatchOptions
from headgate.core.groups.group_watch import GroupWatch
from headgate.core.groups.report import GroupReport
from headgate.core.outage import Outage
from headgate.core.pauses import Kept
from headgate.metrics.snapshot import Snapshot
from headgate.monitor import views
from headgate.monitor.cluster_monitor import NO_EXPORTERS, ClusterMonitor, Exporters
from headgate.monitor.figures import snapshot
from headgate.monitor.kept_probation import read_probation, write_probation
from headgate.monitor.views import Json

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
