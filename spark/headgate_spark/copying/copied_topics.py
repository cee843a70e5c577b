"""What topics must be like that records are copied to: they keep them as they are, however old."""

from types import MappingProxyType

from headgate_spark.kafka.cluster_admin import TopicConfig

_UNLIMITED = str(2**63 - 1)
_FOREVER = "-1"
_MAX_BYTES = 2**31 - 1
_AS_THEY_ARE = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        # Records come with the timestamps that they had, years ago or ahead of every clock.
        "message.timestamp.before.max.ms": _UNLIMITED,
        "message.timestamp.after.max.ms": _UNLIMITED,
    }
)


def roomy(limit: int) -> int:
    """The limit of a mirror's topic whose source has this one: the same record is larger where its
    producer compressed it better than the mirror does."""
    return min(2 * limit, _MAX_BYTES)


def copied_configs(retention_ms: int, max_message_bytes: int) -> dict[str, str]:
    """The settings of a topic that keeps copied records as they are."""
    return {
        **_AS_THEY_ARE,
        "retention.ms": str(retention_ms),
        "retention.bytes": _FOREVER,
        "max.message.bytes": str(max_message_bytes),
    }


def wanted_configs(source: TopicConfig, retention_ms: int) -> dict[str, str]:
    """The settings of a mirror's topic that is made now."""
    maximum = roomy(source.number("max.message.bytes"))
    return {**copied_configs(retention_ms, maximum), "unclean.leader.election.enable": "false"}


def faults(source: TopicConfig, target: TopicConfig) -> list[str]:
    """What is wrong with a mirror's topic that exists: the setting, and what it must be."""
    found = target.values
    wrong = [
        f"{name} is {found[name]}: set it to {right}"
        for name, right in _AS_THEY_ARE.items()
        if found[name] != right
    ]
    # A limit that somebody chose for this topic is explicit; the broker's default is not.
    wrong += [
        f"{name} is the broker's {found[name]}: set it to -1, or to what you mean"
        for name in ("retention.ms", "retention.bytes")
        if found[name] != _FOREVER and name not in target.own
    ]
    if target.number("max.message.bytes") < source.number("max.message.bytes"):
        minimum = source.values["max.message.bytes"]
        wrong.append(f"max.message.bytes is {found['max.message.bytes']}: set it to {minimum}")
    return wrong
