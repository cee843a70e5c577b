"""Which ingest clusters have a backfill tier, and which cluster is that."""

from headgate_spark.job.errors import USAGE, JobError
from headgate_spark.job.options import Cluster, JobConfig


def pairs(config: JobConfig, name: str | None) -> list[tuple[Cluster, Cluster]]:
    """Ingest clusters and their backfill clusters. Raises JobError naming the option."""
    wanted = [cluster for cluster in config.clusters.values() if cluster.tier == "ingest"]
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
