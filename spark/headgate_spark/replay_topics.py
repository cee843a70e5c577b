"""The topics that replays are copied to: how they are made and deleted."""

from __future__ import annotations

from typing import NamedTuple

from aiokafka.admin import AIOKafkaAdminClient

from headgate.core.internal_topics import InternalTopic
from headgate.core.replays.plan import BACKFILL, INGEST
from headgate.core.replays.replay import Replay
from headgate_spark.cluster_admin import ClusterAdmin, cluster_admin
from headgate_spark.cluster_facts import ClusterFacts
from headgate_spark.connections import Connection
from headgate_spark.errors import JobError
from headgate_spark.kafka_clients import client_arguments
from headgate_spark.mirror_topics import FOREVER, UNLIMITED, roomy
from headgate_spark.replay_progress import Order

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
        facts = await admin.facts()
        if is_warm or order.topic in facts.topics:
            other = _other(facts, target, order, BACKFILL)
            limit = 0 if other else await _limit(admin, order)
        else:
            other, limit = await _cold_limit(source, order)
        if other is not None:
            return Made(None, other)
        replicas = min(3, len(facts.nodes))
        most = limit + _HEADER_BYTES
        await admin.create([_topic(replay, target.name, order.partitions, replicas, most)])
        await admin.settled({replay.topic: order.partitions})
        return Made((await admin.facts()).topics[replay.topic].topic_id)


async def _limit(admin: ClusterAdmin, order: Order) -> int:
    configs = await admin.configs([order.topic])
    return configs[order.topic].number("max.message.bytes")


async def _cold_limit(source: Connection, order: Order) -> tuple[str | None, int]:
    async with cluster_admin(source) as there:
        other = _other(await there.facts(), source, order, INGEST)
        return (other, 0) if other is not None else (None, roomy(await _limit(there, order)))


async def other_topic(connection: Connection, order: Order, tier: str) -> str | None:
    """Why the plan cannot be of the topic that is there now; None: it is. Raises JobError."""
    async with cluster_admin(connection) as admin:
        return _other(await admin.facts(), connection, order, tier)


def _other(facts: ClusterFacts, connection: Connection, order: Order, tier: str) -> str | None:
    found, wanted = facts.topics.get(order.topic), order.topic_ids.get(tier)
    if found is None:
        return f"cluster {connection.name} has no topic {order.topic}"
    if wanted not in (None, found.topic_id):
        return recreated(order, f"its id is {found.topic_id}, it was {wanted}")
    return None


def recreated(order: Order, why: str) -> str:
    """What is said when a topic was made anew under a plan."""
    return (
        f"topic {order.topic} was deleted and made anew since this was planned ({why}): the plan's "
        "offsets are not its own; ask again when it is mirrored"
    )


def _topic(
    replay: Replay, cluster: str, partitions: int, replicas: int, max_message_bytes: int
) -> InternalTopic:
    configs = {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": UNLIMITED,
        "message.timestamp.after.max.ms": UNLIMITED,
        "retention.ms": FOREVER,  # by the records' time, not by the topic's: the runner deletes it
        "retention.bytes": FOREVER,
        "max.message.bytes": str(max_message_bytes),
    }
    return InternalTopic(replay.topic, cluster, partitions, replicas, configs)


async def delete(admin: ClusterAdmin, target: Connection, topic: str) -> None:
    """Delete it where it is there. Raises JobError, KafkaError, OSError or TimeoutError."""
    if topic not in (await admin.facts()).topics:
        return
    client = AIOKafkaAdminClient(**client_arguments(target))
    try:
        await client.start()
        answer = await client.delete_topics([topic])
        for _, code, *_ in answer.topic_error_codes:
            if code not in (0, 3):  # 3: it is gone already
                raise JobError(f"topic {topic} cannot be deleted: Kafka's error {code}")
    finally:
        await client.close()
