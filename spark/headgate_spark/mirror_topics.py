"""What a mirror's topic must be like: it keeps records as they are, however old they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

UNLIMITED = str(2**63 - 1)
FOREVER = "-1"
_MOST_BYTES = 2**31 - 1


class TopicConfig(NamedTuple):
    """A topic's settings in force, by Kafka's names. own: those that are set for it alone."""

    values: Mapping[str, str]
    own: frozenset[str]

    def number(self, name: str) -> int:
        """A setting that is a number."""
        return int(self.values[name])


def roomy(limit: int) -> int:
    """The limit of a mirror's topic whose source has this one: the same record is larger where its
    producer compressed it better than the mirror does."""
    return min(2 * limit, _MOST_BYTES)


def wanted_configs(source: TopicConfig, retention_ms: int) -> dict[str, str]:
    """The settings of a mirror's topic that is made now."""
    return {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        # Records come with the timestamps that they had, years ago or ahead of every clock.
        "message.timestamp.before.max.ms": UNLIMITED,
        "message.timestamp.after.max.ms": UNLIMITED,
        "retention.ms": str(retention_ms),
        "retention.bytes": FOREVER,
        "max.message.bytes": str(roomy(source.number("max.message.bytes"))),
        "unclean.leader.election.enable": "false",
    }


def faults(source: TopicConfig, target: TopicConfig) -> list[str]:
    """What is wrong with a mirror's topic that exists: the setting, and what it must be."""
    found = target.values
    fixed = {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": UNLIMITED,
        "message.timestamp.after.max.ms": UNLIMITED,
    }
    wrong = [
        f"{name} is {found[name]}: set it to {right}"
        for name, right in fixed.items()
        if found[name] != right
    ]
    # A limit that somebody chose for this topic is explicit; the broker's default is not.
    wrong += [
        f"{name} is the broker's {found[name]}: set it to -1, or to what you mean"
        for name in ("retention.ms", "retention.bytes")
        if found[name] != FOREVER and name not in target.own
    ]
    if target.number("max.message.bytes") < source.number("max.message.bytes"):
        least = source.values["max.message.bytes"]
        wrong.append(f"max.message.bytes is {found['max.message.bytes']}: set it to {least}")
    return wrong
