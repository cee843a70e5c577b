"""The topics that replays are copied to: how they are made."""

import asyncio
from typing import NamedTuple

from headgate.core.replays.plan import BACKFILL, INGEST
from headgate.core.replays.replay import Replay
from headgate.core.topics.internal_topics import InternalTopic, replicas_on
from headgate.kafka.metadata import Metadata
from headgate_spark.copying.copied_topics import copied_configs, roomy
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.cluster_admin import ClusterAdmin, cluster_admin
from headgate_spark.replay.replay_progress import Order

_MORE_ANSWERS, _PAUSE_S = 2, 1.0
_HEADER_BYTES = 1_024  # more than `hg-replay-id` takes


class Made(NamedTuple):
    """A replay's topic. id: Kafka's; None where it could not be made, and `why_not`."""

    id: str | None
    why_not: str = ""


async def create(target: Connection, source: Connection, replay: Replay, order: Order) -> Made:
    """Make a replay's topic. source: the ingest cluster, which alone has a topic that was never
    mirrored. Raises JobError."""
    is_warm = any(one.tier == BACKFILL for some in order.pieces.values() for one in some)
    async with cluster_admin(target) as admin:
        metadata = await (_metadata_with(admin, order.topic) if is_warm else admin.metadata())
        if is_warm or order.topic in metadata.topics:
            other = _other(metadata, target, order, BACKFILL)
            limit = 0 if other else await _limit(admin, order)
        else:
            other, limit = await _cold_limit(source, order)
        if other is not None:
            return Made(None, other)
        replicas = replicas_on(len(metadata.nodes))
        maximum = limit + _HEADER_BYTES
        await admin.create([_topic(replay, target.name, order.partitions, replicas, maximum)])
        await admin.settled({replay.topic: order.partitions})
        return Made((await admin.metadata()).topics[replay.topic].uuid)


async def _limit(admin: ClusterAdmin, order: Order) -> int:
    configs = await admin.configs([order.topic])
    return configs[order.topic].number("max.message.bytes")


async def _cold_limit(source: Connection, order: Order) -> tuple[str | None, int]:
    async with cluster_admin(source) as there:
        other = _other(await _metadata_with(there, order.topic), source, order, INGEST)
        return (other, 0) if other is not None else (None, roomy(await _limit(there, order)))


async def other_topic(connection: Connection, order: Order, tier: str) -> str | None:
    """Why the plan cannot be of the topic that is there now; None: it is. Raises JobError."""
    async with cluster_admin(connection) as admin:
        return _other(await _metadata_with(admin, order.topic), connection, order, tier)


async def _metadata_with(admin: ClusterAdmin, topic: str) -> Metadata:
    """The metadata of a node that knows the topic: one that has just started may not know it yet,
    and only if several answers lack it does it count as deleted."""
    metadata = await admin.metadata()
    for _ in range(_MORE_ANSWERS):
        if topic in metadata.topics:
            break
        await asyncio.sleep(_PAUSE_S)
        metadata = await admin.metadata()
    return metadata


def _other(metadata: Metadata, connection: Connection, order: Order, tier: str) -> str | None:
    found, wanted = metadata.topics.get(order.topic), order.topic_ids.get(tier)
    if found is None:
        return f"cluster {connection.name} has no topic {order.topic}"
    if wanted not in (None, found.uuid):
        return recreated(order, f"its id is {found.uuid}, it was {wanted}")
    return None


def recreated(order: Order, why: str) -> str:
    """What is said when a topic was recreated under a plan."""
    return (
        f"topic {order.topic} was deleted and recreated since this was planned ({why}): the plan's "
        "offsets are not its own; ask again when it is mirrored"
    )


def _topic(
    replay: Replay, cluster: str, partitions: int, replicas: int, max_message_bytes: int
) -> InternalTopic:
    # For ever by the records' time, not by the topic's: the runner deletes it.
    configs = copied_configs(-1, max_message_bytes)
    return InternalTopic(replay.topic, cluster, partitions, replicas, configs)
