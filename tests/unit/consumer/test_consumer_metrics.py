"""Consumers' counts as Prometheus sees them."""

from __future__ import annotations

from dataclasses import fields

from prometheus_client import CollectorRegistry, generate_latest

from headgate.consumer import Consumer, Counts
from headgate.consumer.metrics import ConsumerMetrics


async def test_every_count_is_exposed() -> None:
    consumer = Consumer("orders", group="billing", bootstrap="127.0.0.1:1")
    for number, field in enumerate(fields(Counts), 1):
        setattr(consumer.counts, field.name, number)
    registry = CollectorRegistry()
    registry.register(ConsumerMetrics(consumer))
    labels = {"group": "billing", "client_id": "headgate-consumer"}
    found = [
        registry.get_sample_value(f"headgate_consumer_{name}_total", labels)
        for name in (
            "delivered", "processed", "committed", "failed", "skipped", "dead_letters",
            "stale_done", "stale_commits", "regressions_prevented", "commit_errors", "revokes",
            "drain_seconds",
        )
    ]  # fmt: skip
    assert found == list(range(1, len(fields(Counts)) + 1))
    assert b"# HELP headgate_consumer_stale_commits_total" in generate_latest(registry)
