# Not compiled: no event passes it.
"""Internal topics that `headgate init` creates or checks, and their required settings."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from headgate.model.outcome import Failure, Reason
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.topics import LONGEST_NAME, TopicState, is_glob

# ---- held topics: the decision to hold a topic's events, and checks of the configuration


# ---- records of held topics: held events, done marks, ends of bursts
#
# The gateway writes events there with the headers of their future record, and the coalescer reads
# them back (docs/design/coalescing-protocol.md; H = the held topic, O = the topic).
HELD_PREFIX = "headgate.held."


def held_topic(topic: str) -> str:
    """Return the name of the held topic of a coalescing topic."""
    return HELD_PREFIX + topic


def topic_of(held: str) -> str | None:
    """Return the topic whose events a held topic holds; None if it is not a held topic."""
    return held[len(HELD_PREFIX) :] if held.startswith(HELD_PREFIX) else None


# ---- the decision to hold a topic's events, and checks of held topics
#
# The held topic decides, not the option: as long as it exists in Kafka, all events of its topic go
# through it. All gateways see the same Kafka. Therefore no gateway overtakes events that another
# one holds, whatever their files say and in whatever order they reload. The option decides when
# held events are published: without it at once. A topic with the option but without a held topic
# takes no events yet.
_RETRY_AFTER_S = 30
_END = (
    "or end it: let its producers wait until its held lag is 0, then delete {held} "
    "(docs/operate/coalescers.md)"
)


def is_held(policy: TopicPolicy, held: TopicState | None) -> bool:
    """Return whether the topic's events go into its held topic.

    Args:
        policy: The policy of the topic.
        held: The state of the held topic in Kafka; None if it does not exist.
    """
    return policy.coalesces or is_there(policy, held)


def is_there(policy: TopicPolicy, held: TopicState | None) -> bool:
    """Return whether the held topic exists in the cluster of its topic."""
    return held is not None and held.cluster == policy.cluster


def as_held(policy: TopicPolicy) -> TopicPolicy:
    """Return the policy for held events, without oversize strategies.

    A held event is always published as one record, also if its section has lost coalesce_quiet_ms
    and names strategies.
    """
    return policy if policy.oversize == ("reject",) else replace(policy, oversize=("reject",))


def held_topics_of(
    states: Iterable[TopicState], policies: PolicyTable
) -> dict[str, tuple[TopicState, TopicPolicy]]:
    """Return the topics whose held topics are among the states, with state and policy."""
    held = {}
    for state in states:
        topic = topic_of(state.name)
        policy = None if topic is None else policies.match(topic)
        if topic is not None and policy is not None and is_there(policy, state):
            held[topic] = (state, policy)
    return held


class Oddity(Enum):
    """Mismatch between a held topic and the configuration."""

    NO_OPTION = "coalesce_quiet_ms is gone"
    EACH_COUNTS = "kind is event"
    OTHER_CLUSTER = "its section names another cluster"
    NO_SECTION = "no section matches"


class Leftover(NamedTuple):
    """A held topic without a matching configuration; `fix` is the steps that resolve it."""

    oddity: Oddity
    topic: str
    text: str
    fix: str


def leftover(held: TopicState, policies: PolicyTable) -> Leftover | None:
    """Return the mismatch of a held topic; None if its topic coalesces."""
    topic = topic_of(held.name)
    if topic is None:
        return None
    policy = policies.match(topic)
    end = _END.format(held=held.name)
    if policy is None:
        text = f"{held.name} exists, but no [topics] section matches {topic}"
        text += ": its events stay there until a section matches"
        fix = f"If it is this gateway's, put the section back, {end}."
        return Leftover(Oddity.NO_SECTION, topic, text, fix)
    if policy.cluster != held.cluster:
        text = f"{held.name} is in cluster {held.cluster}, but {topic} belongs to {policy.cluster}"
        text += ": its events stay there until the topic returns to that cluster"
        fix = f'Set cluster = "{held.cluster}" again, {end}.'
        return Leftover(Oddity.OTHER_CLUSTER, topic, text, fix)
    if policy.coalesces:
        return None
    if policy.kind == "event":
        text = f'{topic} has kind = "event", but {held.name} exists: new events are refused (503)'
        fix = f'Set kind = "state" and coalesce_quiet_ms again, {end}.'
        return Leftover(Oddity.EACH_COUNTS, topic, text, fix)
    text = f"events of {topic} are still held, in {held.name}, although coalesce_quiet_ms is gone"
    fix = f"Set coalesce_quiet_ms again, {end}."
    return Leftover(Oddity.NO_OPTION, topic, text + ": they are published at once", fix)


def refusal_of(policy: TopicPolicy, held: TopicState) -> Failure | None:
    """Return why a topic takes no events although its held topic exists; else None."""
    if policy.kind != "event":
        return None
    detail = (
        f'kind = "event", but {held.name} exists, where later events of a key replace earlier '
        "ones: it must be deleted, once its lag is 0 (docs/operate/coalescers.md)"
    )
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S)


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


def faults(wanted: InternalTopic, actual: TopicState, topic_limit_bytes: int) -> list[str]:
    """Return the faults of an existing internal topic, each with its fix.

    Any number of partitions is accepted and kept, because a change would break the order of a
    key's events.
    """
    wrong, rules = [], actual.rules
    if rules.compacts or not rules.deletes:
        wrong.append(f"cleanup.policy is {actual.cleanup_policy}: set it to delete")
    if rules.is_stamped:
        wrong.append("message.timestamp.type is LogAppendTime: set it to CreateTime")
    min_ms = int(wanted.configs["retention.ms"]) // 2
    if rules.kept_ms is not None and rules.kept_ms < min_ms:
        wrong.append(f"retention.ms is {actual.retention_ms}: set it to {min_ms} or more")
    if actual.max_message_bytes < topic_limit_bytes:
        minimum = wanted.configs["max.message.bytes"]
        wrong.append(f"max.message.bytes is {actual.max_message_bytes}: set it to {minimum}")
    if actual.unclean_leader_election:
        wrong.append("unclean.leader.election.enable is true: set it to false")
    return wrong


def replicas_on(nodes: int) -> int:
    """Return the replication factor of a new topic in a cluster of this many nodes."""
    return min(_REPLICAS, nodes)


def on_cluster(topics: Iterable[InternalTopic], cluster: str) -> list[InternalTopic]:
    """Return the topics of one cluster."""
    return [topic for topic in topics if topic.cluster == cluster]
