"""The warning at the start about configured topics that do not exist in Kafka."""

from __future__ import annotations

import pytest

from headgate.kafka.options import ClusterOptions
from headgate.kafka.topics import KafkaTopics
from headgate.supervisor.worker import warn_of_missing_topics
from support.gateway.fakes import topic_state


def test_the_warning_names_the_topics_and_the_fix(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_missing_topics([])
    assert not caplog.records
    warn_of_missing_topics([f"t{number:02}" for number in range(22)])
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert "do not exist in Kafka: t00, t01, " in line.message
    assert "t19 and 2 more. Posts to them are answered 404: create them" in line.message


async def test_a_topic_is_missing_only_if_its_cluster_has_answered() -> None:
    topics = KafkaTopics({"main": ClusterOptions("127.0.0.1:1")}, 10_000)
    assert not topics.lacks("orders", "main")
    topics._readings["main"].was_read = True
    assert topics.lacks("orders", "main")
    assert not topics.lacks("orders", "other")
    topics._publish("main", {"orders": topic_state("orders")})
    assert not topics.lacks("orders", "main")
