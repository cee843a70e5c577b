"""What Kafka says of a topic: its settings, and the rules that they make together."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

# aiokafka's own limits aside, the broker measures a whole batch; the slack covers what our
# estimate of a batch may miss (varints, the batch header, a codec that inflates).
SLACK_RATIO = 0.01
SLACK_BYTES = 1024
LONGEST_NAME = 249  # org.apache.kafka.common.internals.Topic
_UNLIMITED: Final = 2**63 - 1


class TopicRules(NamedTuple):
    """What a topic's settings mean together. Most of them count only where another one allows it.

    deletes, compacts: what Kafka does with old records.
    kept_ms: the age at which retention removes records; None = at none (only what `deletes` has
    retention by time).
    compacted_after_ms: the age from which on compaction may remove all but the newest record of a
    key; None = at none.
    is_stamped: Kafka gives records the time at which it appends them, whatever time they bring.
    before_ms, after_ms: how far a record's own time may lie behind or ahead of the broker's clock;
    None = any distance, as for every time that Kafka overwrites.
    """

    deletes: bool
    compacts: bool
    kept_ms: int | None
    compacted_after_ms: int | None
    is_stamped: bool
    before_ms: int | None
    after_ms: int | None


class TopicState(NamedTuple):
    """One topic as last read from its cluster.

    topic_id: Kafka's 16-byte id; a topic that was deleted and created again has another one.
    max_message_bytes: the topic's real limit in bytes, per batch, after compression.
    The fields are Kafka's settings as they are; `rules` has what they mean together.
    """

    name: str
    cluster: str
    topic_id: bytes
    partitions: int
    max_message_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    retention_ms: int = 604_800_000
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = _UNLIMITED
    timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    min_compaction_lag_ms: int = 0

    @property
    def rules(self) -> TopicRules:
        """The rules that Kafka makes of these settings."""
        policies = self.cleanup_policy.split(",")
        deletes, compacts = "delete" in policies, "compact" in policies
        is_stamped = self.timestamp_type == "LogAppendTime"
        return TopicRules(
            deletes,
            compacts,
            self.retention_ms if deletes and self.retention_ms >= 0 else None,
            self.min_compaction_lag_ms if compacts else None,
            is_stamped,
            None if is_stamped else _limit(self.timestamp_before_max_ms),
            None if is_stamped else _limit(self.timestamp_after_max_ms),
        )

    @property
    def batch_limit_bytes(self) -> int:
        """The most bytes of records that a lane may put into one batch of this topic."""
        return max(1, int(self.max_message_bytes * (1 - SLACK_RATIO)) - SLACK_BYTES)


# Kafka's name of each setting, the field that has it, and how its text is read.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = MappingProxyType(
    {
        "max.message.bytes": ("max_message_bytes", int),
        "cleanup.policy": ("cleanup_policy", str),
        "retention.ms": ("retention_ms", int),
        "message.timestamp.type": ("timestamp_type", str),
        "message.timestamp.before.max.ms": ("timestamp_before_max_ms", int),
        "message.timestamp.after.max.ms": ("timestamp_after_max_ms", int),
        "compression.type": ("compression_type", str),
        "min.insync.replicas": ("min_insync_replicas", int),
        "unclean.leader.election.enable": ("unclean_leader_election", "true".__eq__),
        "min.compaction.lag.ms": ("min_compaction_lag_ms", int),
    }
)
# The common limit of Kafka before 4.0. A limit of its own for each direction came in 3.6, and
# counts where it is not the default, which is none (storage.internals.log.LogConfig).
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_DIRECTIONS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
SETTINGS: Final = (*_FIELDS, _DIFFERENCE)  # to ask Kafka for


def with_settings(state: TopicState, settings: Mapping[str, str | None]) -> TopicState:
    """Return the state with a topic's settings.

    Args:
        settings: Kafka's names and values; what is missing or None stays as it is.
    """
    found = {name: value for name, value in settings.items() if value is not None}
    common = found.get(_DIFFERENCE)
    if common is not None:
        for name in _DIRECTIONS:
            if int(found.get(name, _UNLIMITED)) == _UNLIMITED:
                found[name] = common
    fields = {
        field: parse(found[name]) for name, (field, parse) in _FIELDS.items() if name in found
    }
    return state._replace(**fields)  # type: ignore[arg-type]


def _limit(distance_ms: int) -> int | None:
    return None if distance_ms == _UNLIMITED else distance_ms


class PartitionState(NamedTuple):
    """One partition as its cluster describes it. leader, replicas, in_sync: node ids, leader -1 =
    none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
