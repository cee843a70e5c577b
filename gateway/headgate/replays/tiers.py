"""Which backfill cluster belongs to a topic, as the configuration says now."""

from collections.abc import Callable
from typing import NamedTuple

from headgate.backends.kafka.configured import cluster_options
from headgate.backends.kafka.options import ClusterOptions
from headgate.config.settings import Settings
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.spelling import closest
from headgate.core.topics.globs import is_glob
from headgate.core.topics.policy import PolicyTable


class Tiers(NamedTuple):
    """A topic's two clusters, by name and with how to reach them."""

    topic: str
    ingest: str
    backfill: str
    ingest_options: ClusterOptions
    backfill_options: ClusterOptions

    @property
    def servers(self) -> str:
        """The backfill cluster's bootstrap servers, as consumers are told."""
        return self.backfill_options.bootstrap_servers


class TierTable:
    """settings: those in force, asked each time, since topics change at a reload."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def backfills(self) -> list[str]:
        """The clusters of tier backfill that an ingest cluster names."""
        clusters = self._settings().clusters.values()
        return sorted({cluster.backfill for cluster in clusters if cluster.backfill is not None})

    def ingests(self) -> list[str]:
        """The clusters that have a backfill tier."""
        clusters = self._settings().clusters
        return sorted(name for name, one in clusters.items() if one.backfill is not None)

    def backfill_of(self, ingest: str) -> str:
        """The backfill cluster of one of `ingests`."""
        found = self._settings().clusters[ingest].backfill
        assert found is not None
        return found

    def options(self, cluster: str) -> ClusterOptions:
        """How to reach a cluster."""
        return cluster_options(self._settings().clusters[cluster])

    def of(self, topic: str) -> Tiers:
        """Raises Refused for a topic that no policy matches or that has no second tier."""
        settings = self._settings()
        policy = PolicyTable(settings.topics).match(topic)
        if policy is None:
            named = (each.pattern for each in settings.topics if not is_glob(each.pattern))
            detail = f"no topic {brief(topic)} is served here. {closest(topic, named)}"
            raise Refused(Failure(Reason.UNKNOWN_TOPIC, detail.removesuffix(". ")))
        ingest = policy.cluster
        backfill = settings.clusters[ingest].backfill
        if backfill is None:
            detail = f"topic {brief(topic)} has no backfill tier: set clusters.{ingest}.backfill"
            raise Refused(Failure(Reason.NOT_COVERED, detail))
        options = (self.options(ingest), self.options(backfill))
        return Tiers(topic, ingest, backfill, *options)
