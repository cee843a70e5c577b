"""Records whose header names are not UTF-8, which librdkafka lets through: replays take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headgate.kafka.groups import Partition
from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import first_readable
from headgate.replays.offset_map import (
    MAP_TOPIC,
    Layout,
    MapAddress,
    layout_record,
    map_partition,
    segment_record,
)
from headgate.replays.segments import Segment
from support.kafka import kafka_log
from support.kafka.record_batches import append, encoded
from support.process.stack import RunningBroker
from support.scenarios.replay_copies import until_ready
from support.scenarios.replay_world import BASE_MS, Api, ReplayRunner, Two

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RECORDS = 5
NAME = b"n\xff"


def strange_batches() -> list[bytes]:
    """Batches of one record, a second apart."""
    return [
        encoded(BASE_MS + number * 1000, b"%d" % number, [(NAME, b"v")])
        for number in range(RECORDS)
    ]


def mirrored(two: Two, topic: str) -> None:
    """The same records at the same offsets on both tiers, and the map that says so."""
    for broker in two:
        broker.create_topic(topic, 1)
        asyncio.run(append(broker.bootstrap, topic, strange_batches()))
    place = MapAddress(topic, 0, 1)
    ids = [kafka_log.topic_id(one.bootstrap, topic) for one in two]
    last_ms = BASE_MS + (RECORDS - 1) * 1000
    producer = Producer({"bootstrap.servers": two.backfill.bootstrap})
    for key, value in (
        layout_record(place, Layout(1, *ids, BASE_MS)),
        segment_record(place, Segment(0, 0, RECORDS, RECORDS, BASE_MS, last_ms)),
    ):
        producer.produce(MAP_TOPIC, value, key=key, partition=map_partition(topic, 0))
    assert producer.flush(30) == 0


def test_a_replay_from_a_time_on(
    two: Two, topic_name: str, api: Api, start_runner: Callable[[], ReplayRunner]
) -> None:
    mirrored(two, topic_name)
    made = api.create(topic_name, **{"from": {"timestamp": BASE_MS + 1500}})
    assert made.status == 201, made.page
    assert made.page["planned"]["records"] == RECORDS - 2
    assert made.page["planned"]["bytes"] > 0
    start_runner()
    assert until_ready(api, made.page)["done"]["records"] == RECORDS - 2


async def test_the_monitor_reads_on_over_them(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    await append(kafka.bootstrap, topic_name, strange_batches())
    place = Partition(topic_name, 0)
    found = await first_readable(ClusterOptions(kafka.bootstrap), {place: (1, RECORDS)})
    assert found == {place: 1}
