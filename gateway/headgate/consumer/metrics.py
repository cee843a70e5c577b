"""Counters of consumers, for Prometheus.

REGISTRY.register(ConsumerMetrics(consumer))
"""

from collections.abc import Iterator
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from headgate.consumer.consumer import Consumer
from headgate.consumer.options import Counts

_NAMES = {"drain_s": "drain_seconds"}
_TEXTS = {
    "delivered": "Records that Kafka handed over",
    "processed": "Events that are done",
    "committed": "Offsets by which the group's position went forward",
    "failed": "Attempts that failed",
    "skipped": "Events that were given up and skipped",
    "dead_letters": "Events that were given up and written to the dead-letter topic",
    "stale_done": "Ends reported for a term of ownership that had ended; ignored",
    "stale_commits": "Commits dropped because their term of ownership had ended",
    "regressions_prevented": "Commits left out because the group has a later offset",
    "commit_errors": "Commits that Kafka or the offset store refused; the next one covers them",
    "revokes": "Rebalances that took partitions away",
    "drain_s": "Seconds that rebalances waited for events handed out",
}


class ConsumerMetrics(Collector):
    """`headgate_consumer_*_total{group, client_id}`, read from `Consumer.counts` at each scrape."""

    def __init__(self, *consumers: Consumer) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield one family for each field of `Counts`."""
        for field in fields(Counts):
            name = f"headgate_consumer_{_NAMES.get(field.name, field.name)}"
            family = CounterMetricFamily(name, _TEXTS[field.name], labels=("group", "client_id"))
            for consumer in self._consumers:
                labels = (consumer.group, consumer.options.client_id)
                family.add_metric(labels, getattr(consumer.counts, field.name))
            yield family
