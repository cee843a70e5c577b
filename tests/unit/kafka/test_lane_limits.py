"""Each cluster's lanes have the bounds of its own section."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headgate.config.backend_settings import ClusterSettings
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import ClusterOptions, LaneLimits, lane_limits
from headgate.kafka.topics import KafkaTopics
from headgate.model.outcome import Reason
from headgate.model.publish import Publish, Record
from headgate.model.record import size_of
from headgate.model.topics import TopicState
from support.gateway.meters import a_meter

STATES = {
    "deals": TopicState("deals", "small", bytes(16), 1),
    "clicks": TopicState("clicks", "large", bytes(16), 1),
}


class Topics:
    """What lanes ask of `KafkaTopics`, where nothing changes."""

    def get(self, topic: str) -> TopicState | None:
        return STATES.get(topic)

    def on_change(self, told: Callable[..., None]) -> None:
        """Nothing does."""


def cluster(**options: int) -> ClusterSettings:
    return ClusterSettings(bootstrap_servers=["127.0.0.1:1"], **cast("dict[str, Any]", options))


async def test_a_cluster_with_little_room_leaves_the_others_theirs() -> None:
    settings = {"small": cluster(lane_max_bytes=2048), "large": cluster(lane_stall_ms=500)}
    limits = {name: lane_limits(one) for name, one in settings.items()}
    assert (limits["small"].stall_ms, limits["large"].stall_ms) == (LaneLimits().stall_ms, 500)
    clusters = dict.fromkeys(settings, ClusterOptions("127.0.0.1:1"))
    lanes = KafkaLanes(clusters, cast(KafkaTopics, Topics()), cast(Any, None), limits, a_meter())
    for state in STATES.values():
        record = Record(state.name, 0, b"k", bytes(3000), [], 0)
        lanes.put(Publish(record, size_of(b"k", record.value, []), None, 0, None))
    full, other = (lanes.refusal(state, 0) for state in STATES.values())
    assert full is not None
    assert full.reason is Reason.OVERLOADED
    assert other is not None
    assert other.reason is Reason.KAFKA_UNAVAILABLE, "not connected, but it has room"
    for topic in STATES:
        assert [one[0] for one in lanes.depths()].count(topic) == 1
