"""Wires the facts of a process: what collects them, their own way to Kafka, and their cluster."""

import random
from collections.abc import Callable, Iterator, Mapping

from headgate.backends.kafka.audit_events import FactsLog, FactsMeter
from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.topics import KafkaTopics
from headgate.config import Settings
from headgate.core.audit_columns import FACTS_TOPIC, facts_cluster
from headgate.core.audit_events import Facts


class AuditEvents:
    """`start`, `close`, and `replace` at a reload. Without a topic that asks it does nothing.

    clusters: of tier ingest, in the order of the configuration.
    """

    def __init__(
        self,
        settings: Settings,
        clusters: Mapping[str, ClusterOptions],
        topics: KafkaTopics,
        meter: FactsMeter,
        now_ms: Callable[[], int],
    ) -> None:
        self.facts = Facts(now_ms, random.random)
        self._cluster = cluster_of_facts(settings) or ""
        self._is_enabled = _is_enabled(settings)
        self._log = FactsLog(self.facts, self._cluster, clusters[self._cluster], topics, meter)

    def start(self) -> None:
        """Begin to write, if any topic asks for it."""
        if self._is_enabled:
            self._log.start()

    async def close(self) -> None:
        """Write what is there; bounded."""
        await self._log.close()

    def replace(self, settings: Settings) -> None:
        """Put a reloaded configuration in force. What has begun goes on until the end."""
        self._is_enabled = _is_enabled(settings)
        self.start()

    def cluster_of(self, topic: str) -> str | None:
        """The cluster of the topic of facts, if this is it and it is needed."""
        return self._cluster if self._is_enabled and topic == FACTS_TOPIC else None

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """See `KafkaLanes.depths`."""
        return self._log.depths()


def cluster_of_facts(settings: Settings) -> str | None:
    """Where the topic of facts is; None without a cluster of tier ingest."""
    return facts_cluster({name: one.tier for name, one in settings.clusters.items()})


def _is_enabled(settings: Settings) -> bool:
    return any(policy.facts for policy in settings.topics)
