"""Internal topics that `headgate init` creates or checks, and their required settings."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headgate.core.coalescing import held_topic
from headgate.core.topics.policy import PolicyTable, TopicPolicy
from headgate.core.topics.topic import LONGEST_NAME, TopicState, is_glob

_RETENTION_MS = 604_800_000
_HEADERS_BYTES = 16_384  # additional headers of a held record
_REPLICAS = 3  # if there are as many nodes


class InternalTopic(NamedTuple):
    """A topic that must exist; `configs` has Kafka's names."""

    name: str
    cluster: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class Unplanned(NamedTuple):
    """A topic whose internal topic cannot be created; `why` is for the operator."""

    topic: str
    why: str


def held_topics(
    policies: PolicyTable, states: Mapping[str, TopicState]
) -> tuple[list[InternalTopic], list[Unplanned]]:
    """Plan the held topics of all coalescing topics, including those that globs match.

    Args:
        policies: The policies.
        states: The existing topics by name, each from the cluster of its policy.

    Returns:
        The held topics, and the topics that cannot have one.
    """
    names = {
        each.pattern for each in policies.policies if each.coalesces and not is_glob(each.pattern)
    }
    planned, unplanned = [], []
    for name in sorted(names | states.keys()):
        policy = policies.match(name)
        if policy is None or not policy.coalesces:
            continue
        if name not in states:
            why = f"cluster {policy.cluster} has no topic {name!r}: create it first"
            unplanned.append(Unplanned(name, why))
        elif len(held_topic(name)) > LONGEST_NAME:
            why = f"its name is too long: {held_topic(name)!r} has more than {LONGEST_NAME} letters"
            unplanned.append(Unplanned(name, why))
        else:
            planned.append(_held_topic(policy, states[name]))
    return planned, unplanned


def _held_topic(policy: TopicPolicy, topic: TopicState) -> InternalTopic:
    configs = {
        "cleanup.policy": "delete",
        "compression.type": "zstd",
        "retention.ms": str(_retention_ms(policy)),
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": str(topic.max_message_bytes + _HEADERS_BYTES),
        "min.insync.replicas": str(topic.min_insync_replicas),
        "unclean.leader.election.enable": "false",
    }
    return InternalTopic(
        held_topic(topic.name),
        policy.cluster,
        policy.coalesce_partitions,
        topic.replication_factor,
        configs,
    )


def _retention_ms(policy: TopicPolicy) -> int:
    """Return the retention of a held topic, in milliseconds (rule 14).

    It exceeds the longest standstill plus the longest burst. `faults` accepts half of it.
    """
    return max(_RETENTION_MS, 4 * policy.coalesce_burst_max_ms)


def faults(wanted: InternalTopic, found: TopicState, topic_limit_bytes: int) -> list[str]:
    """Return the faults of an existing internal topic, each with its fix.

    Any number of partitions is accepted and kept, because a change would break the order of a
    key's events.
    """
    wrong, rules = [], found.rules
    if rules.compacts or not rules.deletes:
        wrong.append(f"cleanup.policy is {found.cleanup_policy}: set it to delete")
    if rules.is_stamped:
        wrong.append("message.timestamp.type is LogAppendTime: set it to CreateTime")
    min_ms = int(wanted.configs["retention.ms"]) // 2
    if rules.kept_ms is not None and rules.kept_ms < min_ms:
        wrong.append(f"retention.ms is {found.retention_ms}: set it to {min_ms} or more")
    if found.max_message_bytes < topic_limit_bytes:
        minimum = wanted.configs["max.message.bytes"]
        wrong.append(f"max.message.bytes is {found.max_message_bytes}: set it to {minimum}")
    if found.unclean_leader_election:
        wrong.append("unclean.leader.election.enable is true: set it to false")
    return wrong


def replicas_on(nodes: int) -> int:
    """Return the replication factor of a new topic in a cluster of this many nodes."""
    return min(_REPLICAS, nodes)


def on_cluster(topics: Iterable[InternalTopic], cluster: str) -> list[InternalTopic]:
    """Return the topics of one cluster."""
    return [topic for topic in topics if topic.cluster == cluster]
