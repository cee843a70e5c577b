"""What `headgate coalesce` does: one process with a coalescer and nothing else."""

import asyncio
import logging
import os
import signal
import time

from headgate.aside import Aside
from headgate.backends.topics import KafkaTopics
from headgate.cluster_options import cluster_options
from headgate.coalescing import Coalescing, cluster_of
from headgate.config import Settings
from headgate.core.policy import PolicyTable
from headgate.stats import Labels, Meter

log = logging.getLogger(__name__)


async def coalesce(settings: Settings) -> None:
    """Coalesce until SIGTERM or SIGINT; then finish, and leave the groups."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ingest = {name: one for name, one in settings.clusters.items() if one.tier == "ingest"}
    clusters = {name: cluster_options(one) for name, one in ingest.items()}
    topics = KafkaTopics(clusters, min(one.metadata_refresh_ms for one in ingest.values()))
    labels = Labels(settings.producers, lambda topic: topics.get(topic) is not None)
    policies = PolicyTable(settings.topics)
    aside = Aside()
    coalescing = Coalescing(settings, clusters, topics, Meter(labels, time.time), aside)
    await topics.start(lambda topic: cluster_of(topic, policies))
    await coalescing.start()
    log.info("coalescer started", extra={"pid": os.getpid()})
    try:
        await stop.wait()
    finally:
        await coalescing.close()
        aside.close()
        await topics.close()
    log.info("coalescer ended")
