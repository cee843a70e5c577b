"""A gateway with topics whose events end well without a place in the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.model.internal_topics import held_topic
from support.process.stack import Gateway, RunningBroker

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[redis]
url = "{redis}"
quarantine_ms = 500
[spool]
path = "{folder}"
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
[topics."{topic}-held"]
kind = "state"
key = ["/id"]
coalesce_quiet_ms = 300000
coalesce_max_delay_ms = 600000
[topics."{topic}-spool"]
key = ["/id"]
spool = true
spool_after_ms = 500
"""


def start_good_ends(
    kafka: RunningBroker,
    redis_url: str,
    start: Callable[..., Gateway],
    topic: str,
    folder: Path,
) -> Gateway:
    """topic: that suppresses what is unchanged; TOPIC-held holds every event, and TOPIC-spool
    spools those that come while Kafka stands still. Redis must be new: it is quarantined for half
    a second."""
    for name in (topic, f"{topic}-held", held_topic(f"{topic}-held"), f"{topic}-spool"):
        kafka.create_topic(name, 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_url, folder=folder, topic=topic)
    return start(text)
