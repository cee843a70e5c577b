"""What a mirror was asked to do, and between which clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate_spark.errors import USAGE, JobError
from headgate_spark.options import Cluster, JobConfig

FOLLOW_LEASE_S = 300.0  # then what is followed is planned anew
_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """What was asked for. topics: names and globs; None = all that the configuration names.

    bytes_per_s: at most so much from each source broker.  retention_ms: of topics that are made.
    metrics: a Prometheus textfile.  again_s: how often what is skipped is looked at again.
    """

    cluster: str | None = None
    topics: str | None = None
    is_following: bool = False
    interval_s: float = 5.0
    lease_s: float = FOLLOW_LEASE_S
    bytes_per_s: float | None = None
    retention_ms: int = -1
    metrics: Path | None = None
    again_s: float = _AGAIN_S


def pairs(config: JobConfig, name: str | None) -> list[tuple[Cluster, Cluster]]:
    """Ingest clusters and their backfill clusters. Raises JobError naming the option."""
    wanted = [one for one in config.clusters.values() if one.tier == "ingest"]
    if name is not None:
        wanted = [one for one in wanted if one.name == name]
        if not wanted:
            raise JobError(f"--cluster {name}: no [clusters.{name}] with tier = ingest", USAGE)
    found = [(one, _backfill_of(config, one)) for one in wanted if one.backfill or name]
    if not found:
        raise JobError("no cluster has a backfill tier: set clusters.<name>.backfill", USAGE)
    return found


def _backfill_of(config: JobConfig, cluster: Cluster) -> Cluster:
    option = f"clusters.{cluster.name}.backfill"
    if cluster.backfill is None:
        raise JobError(f"{option} is not set: it names the cluster of the mirror", USAGE)
    found = config.clusters.get(cluster.backfill)
    if found is None or found.tier != "backfill":
        raise JobError(
            f'{option} = "{cluster.backfill}": no [clusters.{cluster.backfill}] with '
            'tier = "backfill"',
            USAGE,
        )
    return found
