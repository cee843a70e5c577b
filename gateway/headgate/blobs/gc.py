"""Garbage collection (`headgate blobs gc`): removal of blobs without a retained record.

The order of steps makes it safe while gateways publish: take the time, list old blobs, read every
record that could refer to one, and remove the other blobs if they are still old. A gateway renews
the age of a blob before it writes the record. Therefore a value that was published meanwhile either
has a young blob or its record was read.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headgate.blobs.blobs import ObjectStore
from headgate.config import Settings
from headgate.errors_in_words import connection_error
from headgate.kafka.logs import CutShortError, LogRecord, LogScan, Reach
from headgate.kafka.options import ClusterOptions, cluster_options
from headgate.kafka.topics import READ_ERRORS, TopicReader
from headgate.model.oversize import BlobName, blob_name, parse_path
from headgate.model.policy import PolicyTable
from headgate.model.record import DATAREF
from headgate.model.text import counted

_ANSWER_S = 30.0
_REPORT_S = 10.0

Say = Callable[[str], None]


class NotCollectedError(Exception):
    """A run that removed nothing; the message has the reason."""


class BlobCounts(NamedTuple):
    """Numbers of blobs by result.

    Attributes:
        young: Blobs that are too young.
        referred: Blobs that a record refers to.
        removed: Blobs that were removed, or would be in a dry run.
        size: The bytes of the removed blobs.
        pending: Unfinished blobs that were removed.
    """

    young: int
    referred: int
    removed: int
    size: int
    pending: int


class TopicLog(NamedTuple):
    """A topic on one cluster."""

    cluster: str
    topic: str
    partitions: int


async def collect_garbage(
    settings: Settings, store: ObjectStore, min_age_s: float, say: Say, *, dry_run: bool
) -> BlobCounts:
    """Remove blobs that no record refers to. Raises NotCollectedError."""
    before_s = time.time() - min_age_s
    try:
        return await _collect(settings, store, before_s, say, dry_run)
    except CutShortError as error:
        raise NotCollectedError(f"{error}; nothing was removed") from error
    except store.errors as error:
        raise NotCollectedError(f"the blob store fails: {connection_error(error)}") from error


async def _collect(
    settings: Settings, store: ObjectStore, before_s: float, say: Say, dry_run: bool
) -> BlobCounts:
    folders = await asyncio.to_thread(store.topics)
    logs = await _logs(settings, folders)
    existing = {log.topic for log in logs}
    for folder in folders:
        if folder not in existing:
            say(
                f"kept    {folder}: no such topic in Kafka by this configuration; remove it by hand"
            )
    old, young = await asyncio.to_thread(_old, store, sorted(existing & {*folders}), before_s)
    old_count = len(old)
    if old:
        for log in logs:
            await _leave_out(settings, log, old, say)
    if dry_run:
        for name in sorted(old):
            say(f"unused  {name.path}")
        return BlobCounts(young, old_count - len(old), len(old), sum(old.values()), 0)
    removed, size = await asyncio.to_thread(_remove, store, old, before_s)
    pending = await asyncio.to_thread(store.sweep_pending, before_s)
    return BlobCounts(young + len(old) - removed, old_count - len(old), removed, size, pending)


async def _logs(settings: Settings, folders: list[str]) -> list[TopicLog]:
    """Return the topics that may have records with references to blobs.

    Topics of the ingest tier come first, because a record that leaves this tier meanwhile has been
    mirrored before.
    """
    policies = PolicyTable(settings.topics)

    def may_refer(cluster: str, topic: str) -> bool:
        policy = policies.match(topic)
        if policy is None or policy.cluster != cluster:
            return False
        return topic in folders or "claim-check" in policy.oversize

    ingest: list[TopicLog] = []
    backfill: list[TopicLog] = []
    for name, cluster in settings.clusters.items():
        if cluster.tier != "ingest":
            continue
        own_logs = await _topics(settings, name, partial(may_refer, name))
        ingest += own_logs
        if cluster.backfill is not None and own_logs:
            wanted = {log.topic for log in own_logs}
            backfill += await _topics(settings, cluster.backfill, wanted.__contains__)
    return ingest + backfill


async def _topics(
    settings: Settings, cluster: str, is_wanted: Callable[[str], bool]
) -> list[TopicLog]:
    reader = TopicReader(cluster, _options(settings, cluster))
    wanted: set[str] = set()

    def note(topic: str) -> bool:
        if is_wanted(topic):
            wanted.add(topic)
        return topic in wanted

    try:
        async with asyncio.timeout(_ANSWER_S):
            states = await reader.read(note, {})
    except READ_ERRORS as error:
        text = f"cluster {cluster} does not answer: {connection_error(error)}"
        raise CutShortError(text) from error
    finally:
        await reader.close()
    for name in sorted(
        wanted - states.keys()
    ):  # the topic exists, but its partitions are not known
        raise CutShortError(f"topic {name} on {cluster} cannot be read")
    return [TopicLog(cluster, name, state.partitions) for name, state in sorted(states.items())]


def _options(settings: Settings, cluster: str) -> ClusterOptions:
    return cluster_options(settings.clusters[cluster])


def _old(store: ObjectStore, topics: list[str], before_s: float) -> tuple[dict[BlobName, int], int]:
    """Return the sizes of the blobs that are old enough, and the number of younger blobs."""
    old: dict[BlobName, int] = {}
    young = 0
    for topic in topics:
        for blob in store.blobs(topic):
            if blob.modified_s <= before_s:
                old[blob.name] = blob.size
            else:
                young += 1
    return old, young


async def _leave_out(settings: Settings, log: TopicLog, old: dict[BlobName, int], say: Say) -> None:
    """Remove the blobs from `old` that records of a topic refer to."""
    reported_s = time.monotonic()

    def see(record: LogRecord) -> None:
        for name, value in record.headers:
            if name == DATAREF and value is not None:
                referred = referred_blob(value)
                if referred is not None:
                    old.pop(referred, None)

    def report(reach: Reach) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s > _REPORT_S:
            reported_s = time.monotonic()
            say(f"reading {log.topic} on {log.cluster}: {counted(reach.records, 'record')} so far")

    options = _options(settings, log.cluster)
    scan = LogScan(options, log.topic, log.partitions, "headgate-blobs")
    count = await scan.run(see, report)
    say(f"read    {log.topic} on {log.cluster}: {counted(count, 'record')}")


def referred_blob(url: bytes) -> BlobName | None:
    """Return the blob of a `ce_dataref`, whatever the root in the URL is.

    The store may have had another URL when the record was written.
    """
    return parse_path("/".join(url.decode("utf-8", "replace").split("/")[-3:]))


def _remove(store: ObjectStore, unused: dict[BlobName, int], before_s: float) -> tuple[int, int]:
    """Remove unused blobs that are still old; return their number and their bytes."""
    removed = size = 0
    for name, size_of_one in unused.items():
        if store.delete(blob_name(*name), before_s):
            removed += 1
            size += size_of_one
    return removed, size
