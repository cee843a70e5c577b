"""The topic of facts: its name, settings, and the columns of its records (shared with the jobs).

A fact describes an event that got no record of its own: unchanged, superseded, duplicate
or rejected. A record carries many facts of one topic as JSON, one array a column, all of one
length; its key is the topic's name:

    {"topic": "deals", "one_in": 1, "at_ms": [..], "producer": [..], "outcome": [..], ...}
"""

from collections.abc import Mapping
from typing import Final

from headgate.model.internal_topics import InternalTopic
from headgate.model.policy import PolicyTable
from headgate.model.topics import TopicState

FACTS_TOPIC: Final = "headgate.facts"
_RETENTION_MS: Final = 604_800_000
_PARTITIONS: Final = 6  # shared by all topics: the facts of each topic are on one
_MIN_RECORD_BYTES: Final = 65_536  # two records of a few hundred facts
TOPIC: Final = "topic"
# Number of events that each fact stands for, if a topic has facts of a sample (`facts_one_in`).
ONE_IN: Final = "one_in"

AT_MS: Final = "at_ms"  # time of the event's outcome, in ms since 1970
PRODUCER: Final = "producer"
OUTCOME: Final = "outcome"  # unchanged, superseded, duplicate or rejected
REASON: Final = "reason"  # reason of a rejected event, else null
PARTITION: Final = "partition"  # position of the record with the content, or null
OFFSET: Final = "offset"
KEY: Final = "key"  # null if the event had none, or was refused before its key was read
KEY_BASE64: Final = "key_base64"  # replaces `key` if any of the keys is not UTF-8
# Size of the event's value as received, 0 for a tombstone; the sum if `events` is not 1.
BYTES: Final = "bytes"
EVENTS: Final = "events"  # number of events: superseded ones are summed by window

# The columns with their types in SQL; `key` and `key_base64` exclude each other.
COLUMNS: Final[Mapping[str, str]] = {
    AT_MS: "bigint",
    PRODUCER: "string",
    OUTCOME: "string",
    REASON: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    KEY: "string",
    KEY_BASE64: "string",
    BYTES: "bigint",
    EVENTS: "bigint",
}
KEY_MAX_BYTES: Final = 1024  # a longer key is cut and made unique again by a digest


def facts_cluster(tiers: Mapping[str, str]) -> str | None:
    """Return the cluster of the topic of facts: the first one of tier ingest.

    Args:
        tiers: Tiers by the clusters' names, in the order of the configuration.
    """
    return next((name for name, tier in tiers.items() if tier == "ingest"), None)


def facts_topic(
    policies: PolicyTable, states: Mapping[str, TopicState], cluster: str
) -> InternalTopic | None:
    """Return the topic of facts, as safe as its cluster's safest topic; None if nothing needs it.

    Args:
        policies: The policies of all topics.
        states: The topics that exist on the cluster.
        cluster: The cluster of the facts (`facts_cluster`).
    """
    if not any(policy.facts for policy in policies.policies):
        return None
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(_RETENTION_MS),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(
            max((state.min_insync_replicas for state in states.values()), default=1)
        ),
    }
    replicas = max((state.replication_factor for state in states.values()), default=1)
    return InternalTopic(FACTS_TOPIC, cluster, _PARTITIONS, replicas, configs)


def facts_faults(found: TopicState) -> list[str]:
    """Return the faults of a topic of facts that exists, each with its fix."""
    wrong, rules = [], found.rules
    if rules.compacts:
        # all facts of a topic have one key
        wrong.append(f"cleanup.policy is {found.cleanup_policy}: set it to delete")
    if rules.is_stamped:
        wrong.append("message.timestamp.type is LogAppendTime: set it to CreateTime")
    if found.max_message_bytes < _MIN_RECORD_BYTES:
        minimum = _MIN_RECORD_BYTES
        wrong.append(f"max.message.bytes is {found.max_message_bytes}: set it to {minimum} or more")
    return wrong
