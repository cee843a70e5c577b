"""Maps of what is asked for are kept, and no more of them than fits."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from headgate.kafka.options import ClusterOptions
from headgate.replays.offset_map import MAP_TOPIC, MapAddress, map_partition, segment_record
from headgate.replays.segments import Segment
from headgate.replays.tiers import OffsetMaps
from support.process.stack import RunningBroker
from support.scenarios.replay_world import Api, Two

pytestmark = pytest.mark.kafka


async def test_maps_that_are_empty_are_forgotten_too(kafka: RunningBroker, topic_name: str) -> None:
    """Whoever may look may ask of any partition of any topic that a policy's pattern matches."""
    maps = OffsetMaps(ClusterOptions(kafka.bootstrap), max_bytes=36_000)
    found = await maps.of(topic_name, range(500))
    assert len(found) == len(maps) == 500  # what is asked for now is answered
    await maps.of(f"{topic_name}-other", range(3))
    assert 3 <= len(maps) < 50


def test_a_map_that_a_later_version_wrote_is_not_taken_for_one_with_holes(
    two: Two, topic: str, api: Api
) -> None:
    """As behind a mirror that was upgraded before its gateways; other partitions stay readable."""
    asked = {"topic": topic, "to": "backfill", "offsets": {"0": [0]}}
    assert api.ask("POST", "/v1/offsets/translate", asked).status == 200
    place = MapAddress(topic, 0, 1)
    key, value = segment_record(place, Segment(1_000, 1_000, 1, 1_001, 0, 0))
    producer = Producer({"bootstrap.servers": two.backfill.bootstrap})
    producer.produce(MAP_TOPIC, b"\x03" + value[1:], key=key, partition=map_partition(topic, 0))
    assert producer.flush(30) == 0
    refused = [
        api.ask("POST", "/v1/offsets/translate", asked),
        api.ask("GET", f"/v1/coverage/{topic}"),
        api.create(topic),
    ]
    for answer in refused:
        assert (answer.status, answer.page["reason"]) == (422, "not_covered"), answer
        assert "later version" in answer.page["detail"]
    other = {**asked, "offsets": {"1": [0]}}
    assert api.ask("POST", "/v1/offsets/translate", other).status == 200
