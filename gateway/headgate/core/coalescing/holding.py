"""Whether a topic's events are held: the one answer for all who route, publish, show or check.

The held topic decides, not the option: as long as it exists in Kafka, all events of its topic go
through it. All gateways see the same Kafka, so whatever their files say, and in whatever order
they reload, none publishes past what another one holds. The option decides when held events are
published (without it: at once), and that a topic without a held topic takes no events yet.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from headgate.core.coalescing.held import topic_of
from headgate.core.outcome import Failure, Reason
from headgate.core.topics.policy import PolicyTable, TopicPolicy
from headgate.core.topics.topic import TopicState

_RETRY_AFTER_S = 30
_END = (
    "or end it: let its producers wait until its held lag is 0, then delete {held} "
    "(docs/operate/coalescers.md)"
)


def is_held(policy: TopicPolicy, held: TopicState | None) -> bool:
    """Whether the topic's events go into its held topic. held: as Kafka has it, if it does."""
    return policy.coalesces or is_there(policy, held)


def is_there(policy: TopicPolicy, held: TopicState | None) -> bool:
    """Whether a topic's held topic exists, in the cluster that the topic belongs to."""
    return held is not None and held.cluster == policy.cluster


def as_held(policy: TopicPolicy) -> TopicPolicy:
    """What of the policy a held event meets: it is published as one record, so no strategy of the
    oversize policy is for it, whatever the section without coalesce_quiet_ms says.
    """
    return policy if policy.oversize == ("reject",) else replace(policy, oversize=("reject",))


def held_topics_of(
    states: Iterable[TopicState], policies: PolicyTable
) -> dict[str, tuple[TopicState, TopicPolicy]]:
    """The topics whose held topics are among these states, with both their sides."""
    found = {}
    for state in states:
        topic = topic_of(state.name)
        policy = None if topic is None else policies.match(topic)
        if topic is not None and policy is not None and is_there(policy, state):
            found[topic] = (state, policy)
    return found


class Oddity(Enum):
    """What does not fit between a held topic and the configuration."""

    NO_OPTION = "coalesce_quiet_ms is gone"
    EACH_COUNTS = "kind is event"
    OTHER_CLUSTER = "its section names another cluster"
    NO_SECTION = "no section matches"


class Leftover(NamedTuple):
    """A held topic that the configuration does not ask for. fix: the steps that end it."""

    oddity: Oddity
    topic: str
    text: str
    fix: str


def leftover(held: TopicState, policies: PolicyTable) -> Leftover | None:
    """What is to be said of this held topic; None where its topic coalesces."""
    topic = topic_of(held.name)
    if topic is None:
        return None
    policy = policies.match(topic)
    end = _END.format(held=held.name)
    if policy is None:
        text = f"{held.name} is there, but no [topics] section matches {topic}"
        text += ": what it holds stays there until there is one again"
        fix = f"If it is this gateway's, put the section back, {end}."
        return Leftover(Oddity.NO_SECTION, topic, text, fix)
    if policy.cluster != held.cluster:
        text = f"{held.name} is in cluster {held.cluster}, but {topic} belongs to {policy.cluster}"
        text += ": what it holds stays there until the topic is back"
        fix = f'Set cluster = "{held.cluster}" again, {end}.'
        return Leftover(Oddity.OTHER_CLUSTER, topic, text, fix)
    if policy.coalesces:
        return None
    if policy.kind == "event":
        text = f'{topic} has kind = "event", but {held.name} is there: new events are refused (503)'
        fix = f'Set kind = "state" and coalesce_quiet_ms again, {end}.'
        return Leftover(Oddity.EACH_COUNTS, topic, text, fix)
    text = f"events of {topic} are still held, in {held.name}, although coalesce_quiet_ms is gone"
    fix = f"Set coalesce_quiet_ms again, {end}."
    return Leftover(Oddity.NO_OPTION, topic, text + ": they are published at once", fix)


def refusal_of(policy: TopicPolicy, held: TopicState) -> Failure | None:
    """Why a topic takes no events although its held topic is there, else None."""
    if policy.kind != "event":
        return None
    detail = (
        f'kind = "event", but {held.name} is there, where later events of a key replace earlier '
        "ones: it must be deleted, once its lag is 0 (docs/operate/coalescers.md)"
    )
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=_RETRY_AFTER_S)
