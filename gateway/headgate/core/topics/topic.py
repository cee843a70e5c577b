"""What Kafka says of a topic: the limits that a record must meet before it is handed over."""

from typing import NamedTuple

# aiokafka's own limits aside, the broker measures a whole batch; the slack covers what our
# estimate of a batch may miss (varints, the batch header, a codec that inflates).
SLACK_RATIO = 0.01
SLACK_BYTES = 1024
LONGEST_NAME = 249  # org.apache.kafka.common.internals.Topic


class TopicState(NamedTuple):
    """One topic as last read from its cluster.

    topic_id: Kafka's 16-byte id; a topic that was deleted and created again has another one.
    max_message_bytes: the topic's real limit in bytes, per batch, after compression.
    retention_ms: -1 = for ever.  timestamp_before_max_ms / _after_max_ms: how far a record's
    timestamp may lie behind or ahead of the broker's clock, in ms.
    """

    name: str
    cluster: str
    topic_id: bytes
    partitions: int
    max_message_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    retention_ms: int = 604_800_000
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False

    @property
    def batch_limit_bytes(self) -> int:
        """The most bytes of records that a lane may put into one batch of this topic."""
        return max(1, int(self.max_message_bytes * (1 - SLACK_RATIO)) - SLACK_BYTES)


class PartitionState(NamedTuple):
    """One partition as its cluster describes it. leader, replicas, in_sync: node ids, leader -1 =
    none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
