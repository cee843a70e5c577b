"""Each topic's newest result in Kafka, with what is kept of those before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headgate.audits.results import MAX_EARLIER, summaries
from headgate_spark.audit.job import SKEW_TOPIC, publish
from headgate_spark.job.options import read_config
from headgate_spark.session.kafka_view import KafkaView
from support.kafka import kafka_log
from support.process.stack import RunningBroker
from support.scenarios.skew_summaries import published

pytestmark = pytest.mark.kafka
NAMES = ("kept-orders", "kept-deals")


def result_of(number: int, *names: str) -> dict[str, Any]:
    documents = [published(number) | {"topic": name} for name in names]
    for one in documents:
        del one["generated_at"]
    return {"generated_at": f"2026-01-31T12:{number:02}:00.000Z", "topics": documents}


def in_kafka(kafka: RunningBroker) -> dict[str, dict[str, Any]]:
    records = kafka_log.read_log(kafka.bootstrap, SKEW_TOPIC)
    found = {(record.key or b"").decode(): record.value or b"" for record in records}
    return {name: json.loads(found[name]) for name in NAMES if name in found}


def test_a_result_keeps_what_it_takes_the_place_of(
    kafka: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n')
    main = read_config(file, {}).clusters["main"]
    with KafkaView(spark, main) as view:
        publish(spark, view, main, result_of(1, *NAMES))
        publish(spark, view, main, result_of(2, NAMES[0]))
        found = in_kafka(kafka)
        assert [one.records for one in summaries(found[NAMES[0]])] == [2, 1]
        assert [one.records for one in summaries(found[NAMES[1]])] == [1]
        client = Producer({"bootstrap.servers": kafka.bootstrap})
        client.produce(SKEW_TOPIC, "by hand", NAMES[1])  # nobody can read it
        client.produce(SKEW_TOPIC, json.dumps(published(3)), NAMES[0])  # an older job's
        assert client.flush(30) == 0
        publish(spark, view, main, result_of(4, *NAMES))
    found = in_kafka(kafka)
    assert [one.records for one in summaries(found[NAMES[0]])] == [4, 3]
    assert [one.records for one in summaries(found[NAMES[1]])] == [4]
    assert len(found[NAMES[0]]["earlier"]) <= MAX_EARLIER
    assert {"findings", "top_keys"} <= set(found[NAMES[0]])
