"""What a process says of its suppression: which topics are suppressed now, and how Redis is."""

import math
from collections.abc import Collection, Iterable, Mapping

from headgate.backends.base import Topics
from headgate.core.suppression.states import QUARANTINE, TopicSuppression, worst
from headgate.core.topics.policy import PolicyTable
from headgate.metrics.health import Dependency
from headgate.suppression.sharded import ShardedSuppressor
from headgate.suppression.suppressor import Suppressor

States = Mapping[str, TopicSuppression]
AnySuppressor = Suppressor | ShardedSuppressor


def states_now(seen: Iterable[States], policies: PolicyTable, topics: Topics) -> States:
    """Of each topic that exists and suppresses by its policy the worst that any suppressor sees.

    A suppressor also remembers topics that were deleted, or have another policy by now.
    """
    return {name: one for name, one in worst(seen).items() if _counts(name, policies, topics)}


def _counts(name: str, policies: PolicyTable, topics: Topics) -> bool:
    policy = policies.match(name)
    return policy is not None and policy.suppress != "off" and topics.get(name) is not None


def redis_dependencies(
    suppressor: AnySuppressor, states: States, policies: PolicyTable
) -> list[Dependency]:
    """Redis as /ready shows it, each server for itself. states: those that count (`states_now`)."""
    refusing = policies.refusing(states)
    if isinstance(suppressor, Suppressor):
        return [redis_dependency(suppressor, states, refusing=refusing)]
    found = []
    for name, part in suppressor.parts.items():
        own = {topic: one for topic, one in part.states().items() if topic in states}
        found.append(redis_dependency(part, own, f"redis {name}", refusing))
    return found


def redis_dependency(
    suppressor: Suppressor,
    states: States,
    name: str = "redis",
    refusing: Collection[str] = (),
) -> Dependency:
    """One server. Not required: without it the gateway still takes events of other topics.

    refusing: topics that refuse events without Redis (`redis_loss = "refuse"`).

    It is well also while topics are in quarantine: it answers, and no event is lost. Every start
    and every change of what is compared begins with one, and must not turn health checks red.
    """
    ok, detail = suppressor.health(_effect(states, refusing))
    quarantined = [state.until_s or 0.0 for state in states.values() if state.state == QUARANTINE]
    if not ok or not quarantined:
        return Dependency(name, ok, False, detail, server=suppressor.store.server)
    until_s, count = max(quarantined), len(quarantined)
    topics = "1 topic suppresses" if count == 1 else f"{count} topics suppress"
    span = f"for up to {math.ceil(until_s)} s" if until_s else "yet"
    detail = f"{detail}; {topics} nothing {span} (quarantine)"
    return Dependency(name, ok, False, detail, until_s, server=suppressor.store.server)


def _effect(states: States, refusing: Collection[str]) -> str:
    """What happens to events of these topics while Redis is unavailable."""
    refused = sum(topic in refusing for topic in states)
    if not refused:
        return "events go past Redis"
    if refused == len(states):
        return 'events are refused (redis_loss = "refuse")'
    return 'events go past Redis, or are refused if the topic has redis_loss = "refuse"'
