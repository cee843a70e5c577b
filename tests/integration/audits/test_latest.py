"""The newest skew audits, read from a real topic."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headgate.audits.latest import SKEW_TOPIC, LatestAudits, is_result, merged
from headgate.config.backend_settings import ClusterSettings
from headgate.model.outcome import Failure, Reason
from support.process.stack import RunningBroker, free_port


def latest(bootstrap: str) -> LatestAudits:
    return LatestAudits({"main": ClusterSettings(bootstrap_servers=(bootstrap,))})


@pytest.mark.full
@pytest.mark.kafka
async def test_the_newest_of_each_topic(start_broker: Callable[..., RunningBroker]) -> None:
    kafka = start_broker()  # the topic's name is fixed: audits of other tests would be there
    kafka.create_topic(SKEW_TOPIC, 1, {"cleanup.policy": "compact"})
    client = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number in range(3):
        for topic in ("orders", "deals"):
            client.produce(SKEW_TOPIC, json.dumps({"topic": topic, "number": number}), topic)
    client.produce(SKEW_TOPIC, None, "orders")  # forgotten: compaction will drop it
    client.produce(SKEW_TOPIC, "by hand", "odd")
    assert client.flush(30) == 0
    found = await latest(kafka.bootstrap).by_topic()
    assert not isinstance(found, Failure)
    assert {topic: json.loads(one)["number"] for topic, one in found.items()} == {"deals": 2}


async def test_a_failure_when_kafka_is_away() -> None:
    audits = latest(f"127.0.0.1:{free_port()}")
    found = await audits.by_topic()
    assert isinstance(found, Failure)
    assert found.reason is Reason.KAFKA_UNAVAILABLE
    assert await audits.by_topic() is found, "the next page does not wait for Kafka once more"


def test_the_newest_of_a_topic_that_has_moved_wins() -> None:
    old, new = (1000, b'{"number":1}'), (2000, b'{"number":2}')
    for clusters in ([{"orders": old}, {"orders": new}], [{"orders": new}, {"orders": old}]):
        assert merged(clusters) == {"orders": new[1]}


@pytest.mark.parametrize("value", [b"", b"no JSON", b'{"a":', b"[1]", b"\xff\xfe"])
def test_what_is_no_result_is_not_spliced_into_the_answer(value: bytes) -> None:
    assert not is_result(value)
    assert is_result(b'{"topic":"orders"}')
