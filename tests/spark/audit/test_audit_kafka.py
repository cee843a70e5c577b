"""The audit of real topics, from the connector to the page, and its predictions made true."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.kafka.groups import Partition
from headgate_spark.audit.job import SKEW_TOPIC, AuditRequest, audit, publish, read_facts
from headgate_spark.job.command_line import JobError, report_to_people
from headgate_spark.job.options import JobConfig, read_config
from headgate_spark.job.progress import Progress
from headgate_spark.session.kafka_view import KafkaView, Range, since
from headgate_spark.session.source import FACTS, within
from support.kafka import kafka_log
from support.process.stack import RunningBroker
from support.scenarios import skew_world
from support.scenarios.skew_topics import produce, produce_world

pytestmark = pytest.mark.kafka
BOMB, ZIPF, ODD, HEAVY = "audit-bomb", "audit-zipf", "audit-odd", "audit-heavy"


def config_of(broker: RunningBroker, folder: Path) -> JobConfig:
    file = folder / "headgate.toml"
    file.write_text(
        f'[clusters.main]\nbootstrap_servers = ["{broker.bootstrap}"]\n[topics."audit-*"]\n'
    )
    return read_config(file, {})


def request_of(out: Path, topics: str | None = None, **more: Any) -> AuditRequest:
    wanted: dict[str, Any] = {
        "cluster": None,
        "topics": topics,
        "from_ms": None,
        "to_ms": None,
        "offsets": None,
        "counts": (7,),
        "out": out,
        "publish": False,
    }
    return AuditRequest(**{**wanted, **more})


def bomb() -> skew_world.Dataset:
    """Incident A with values of 8 kB in place of 800 kB, and 3 bytes in place of 300."""
    world = skew_world.data_bomb()
    return skew_world.Dataset(
        world.topic, world.partitions, world.keys, world.partition, world.sizes // 100,
        world.times_ms, world.producers,
    )  # fmt: skip


Result = tuple[dict[str, Any], Path]


def test_an_audit_of_real_topics(kafka: RunningBroker, spark: SparkSession, tmp_path: Path) -> None:
    # one test for all: with two workers, several would read and count everything twice
    world = bomb()
    produce_world(kafka, kafka.create_topic(BOMB, 12), world)
    produce_world(kafka, kafka.create_topic(ZIPF, 6), skew_world.zipf(6000, partitions=6))
    produce_odd(kafka)
    produce_heavy(kafka)
    config = config_of(kafka, tmp_path)
    result = audit(spark, config, request_of(tmp_path, publish=True), report_to_people()), tmp_path
    check_incident_a(result, world)
    check_bytes(result, world)
    check_prediction(kafka, result)
    check_what_is_odd(result)
    check_what_is_heavy(result)
    check_files_and_topic(kafka, result)
    check_part(spark, config, tmp_path)
    check_errors(kafka, spark, tmp_path)
    check_failure_leaves_the_result(kafka, spark, tmp_path)


def produce_odd(kafka: RunningBroker) -> None:
    """No keys, no values, no headers or empty ones, and librdkafka's default partitioner."""
    kafka.create_topic(ODD, 5)
    count = 600
    keys = [None if number % 3 == 0 else b"key-%d" % number for number in range(count)]
    values = [None if number % 4 == 0 else b"value" for number in range(count)]
    produce(kafka, ODD, keys, values, [None, ""] * (count // 2))


def produce_heavy(kafka: RunningBroker) -> None:
    """Records of 10 MB among small ones."""
    kafka.create_topic(HEAVY, 2, {"max.message.bytes": "12000000"})
    sizes = [10_000_000 if number % 40 == 0 else 100 for number in range(120)]
    keys = [b"key-%d" % number if number % 40 else b"heavy" for number in range(120)]
    produce(kafka, HEAVY, keys, [b"x" * size for size in sizes], [None] * 120)


def topic_of(result: Result, name: str) -> dict[str, Any]:
    return next(one for one in result[0]["topics"] if one["topic"] == name)


def check_incident_a(result: Result, bomb: skew_world.Dataset, topic: str = BOMB) -> None:
    found = topic_of(result, topic)
    assert found["diagnoses"] == ["chatty", "large"]
    heaviest = max(found["top_keys"], key=lambda one: one["bytes"])
    assert (heaviest["key"], heaviest["producer"]) == ("2342565", "deal-admin")
    assert heaviest["records"] == 1013
    assert heaviest["run_p95"] == pytest.approx(270, abs=2), "Spark's percentiles are approximate"
    assert found["records"] == len(bomb)
    advice = {one["action"]: one for one in found["recommendations"]}
    assert advice["coalesce"]["key"] == "2342565"
    assert "more partitions do not help" in advice["keep-partitions"]["why"]
    assert found["max_useful_partitions"] == 1


def check_bytes(result: Result, bomb: skew_world.Dataset, topic: str = BOMB) -> None:
    expected = sum(
        len(key) + int(size) + len("hg-producer") + len(who)
        for key, size, who in zip(bomb.keys, bomb.sizes, bomb.producers, strict=True)
    )
    assert topic_of(result, topic)["bytes"] == expected


def check_prediction(kafka: RunningBroker, result: Result) -> None:
    world = skew_world.zipf(6000, partitions=6)
    predicted = {one["partitions"]: one for one in topic_of(result, ZIPF)["what_if"]}[7]
    topic = kafka.create_topic("audited-again", 7)
    client = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for key in world.keys:
        client.produce(topic, b"x" * 200, key)
    assert client.flush(60) == 0
    log = kafka_log.read_log(kafka.bootstrap, topic)
    load = np.bincount([record.partition for record in log], minlength=7)
    assert len(log) == len(world)
    measured = load.max() / load.mean()
    assert measured == pytest.approx(predicted["max_over_mean_records"], rel=0.01)


def check_what_is_odd(result: Result) -> None:
    found = topic_of(result, ODD)
    assert (found["records"], found["keyless_records"], found["tombstones"]) == (600, 200, 150)
    assert [(one["producer"], one["records"]) for one in found["producers"]] == [(None, 600)]
    assert {one["producer"] for one in found["top_keys"]} == {None}
    assert "foreign_partitioner" in found["diagnoses"]
    assert "CRC32" in found["foreign_partitioner"]["cause"]
    keys = [b"key-%d" % number for number in range(600) if number % 3]
    wrong = [key for key in keys if skew_world.crc32_place(key, 5) != skew_world.place(key, 5)]
    assert found["foreign_partitioner"]["records"] == len(wrong)


def check_what_is_heavy(result: Result) -> None:
    found = topic_of(result, HEAVY)
    small = sum(100 + len(b"key-%d" % number) for number in range(120) if number % 40)
    large = 10_000_000 + len("heavy")
    assert (found["records"], found["bytes"]) == (120, small + 3 * large)
    assert found["sizes"]["max"] == large
    assert "large" in found["diagnoses"]


def check_files_and_topic(kafka: RunningBroker, result: Result) -> None:
    document, out = result
    assert json.loads((out / "audit.json").read_text()) == document
    page = (out / "index.html").read_text()
    topics = len(document["topics"])
    assert (
        2 * topics <= page.count('<svg role="img"') <= 4 * topics
    )  # one that would be empty is left out
    assert "http://" not in page
    assert "https://" not in page
    metrics = (out / "headgate-skew.prom").read_text()
    assert f'headgate_audit_diagnosis{{topic="{BOMB}",diagnosis="chatty"}} 1' in metrics
    published = {
        (record.key or b"").decode(): json.loads(record.value or b"")
        for record in kafka_log.read_log(kafka.bootstrap, SKEW_TOPIC)
    }
    for one in document["topics"]:
        at = document["generated_at"]
        assert published[one["topic"]] == {"generated_at": at, **one, "earlier": []}
    left = {path.name for path in out.iterdir()}
    assert left == {
        "audit.json", "index.html", "headgate-skew.prom", "headgate.toml", "load.parquet",
        "keys.parquet",
    }  # fmt: skip


def check_part(spark: SparkSession, config: JobConfig, tmp_path: Path) -> None:
    """Two partitions of zipf's, the first of them without its last record."""
    ends = np.bincount(skew_world.zipf(6000, partitions=6).partition, minlength=6).tolist()
    offsets = json.dumps({ZIPF: {"4": [0, ends[4]], "1": [0, ends[1] - 1]}})
    out = tmp_path / "part"
    found = audit(spark, config, request_of(out, offsets=offsets), report_to_people())["topics"][0]
    assert (found["partitions"], found["partitions_read"]) == (6, [1, 4])
    assert found["records"] == ends[1] + ends[4] - 1
    limit = max(ends[1] - 1, ends[4])
    assert found["by_records"]["max_over_mean"] == pytest.approx(2 * limit / found["records"])
    assert found["what_if"] == []
    assert found["foreign_partitioner"]["records"] == 0, "by the topic's count, not by two"
    shutil.rmtree(out)


def check_errors(kafka: RunningBroker, spark: SparkSession, tmp_path: Path) -> None:
    config = config_of(kafka, tmp_path)
    with pytest.raises(JobError, match=r"has no topic 'audit-none'; it has .*audit-bomb"):
        audit(spark, config, request_of(tmp_path, "audit-none"), report_to_people())
    offsets = json.dumps({BOMB: {"0": [0, 10_000_000]}})
    with pytest.raises(JobError, match=r"offsets 0 to 10000000 of .* out of range: .* holds 0 to"):
        audit(spark, config, request_of(tmp_path, offsets=offsets), report_to_people())
    offsets = json.dumps({BOMB: {"12": [0, 1]}})
    with pytest.raises(JobError, match=r"--offsets: .* has no partition 12; it has 12, from 0"):
        audit(spark, config, request_of(tmp_path, offsets=offsets), report_to_people())
    with pytest.raises(JobError, match="no record in this window"):
        audit(
            spark, config, request_of(tmp_path, BOMB, from_ms=4_000_000_000_000), report_to_people()
        )
    huge = {"generated_at": "now", "topics": [{"topic": ODD, "text": "x" * 2_000_000}]}
    main = config.clusters["main"]
    with (
        KafkaView(spark, main) as view,
        pytest.raises(JobError, match=rf"not {SKEW_TOPIC}: .*max.request.size.* --no-publish"),
    ):
        publish(spark, view, main, huge)


def check_failure_leaves_the_result(
    kafka: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """The last thing that is counted fails: all files are still of the audit before."""
    config_of(kafka, tmp_path)
    file = tmp_path / "headgate.toml"
    file.write_text(file.read_text() + 'coalesce_quiet_ms = "soon"\n')
    broken = read_config(file, {})
    before = contents(tmp_path)
    assert {path.parent.name for path in before} >= {"load.parquet", "keys.parquet"}
    with pytest.raises(PySparkException):
        audit(spark, broken, request_of(tmp_path, ODD), report_to_people())
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_incident_a_at_its_real_size(
    kafka: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """1,013 saves of 800 kB among 8,000 small records: 810 MB in Kafka."""
    world = skew_world.data_bomb()
    topic = kafka.create_topic("audit-incident-a", 12)
    produce_world(kafka, topic, world)
    result = (
        audit(spark, config_of(kafka, tmp_path), request_of(tmp_path, topic), report_to_people()),
        tmp_path,
    )
    check_incident_a(result, world, topic)
    check_bytes(result, world, topic)


def test_retention_that_passes_is_an_error(
    kafka: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """The log's start passes the range between its planning and its reading."""
    topic = kafka.create_topic("audited-late", 1)
    produce(kafka, topic, [b"key"] * 100, [b"value"] * 100, [None] * 100)
    cluster, place = config_of(kafka, tmp_path).clusters["main"], Partition(topic, 0)
    with KafkaView(spark, cluster) as view:
        ranges = since(view, [place], None)
        assert ranges == [Range(place, 0, 100)]
        assert since(view, [place], 0) == ranges
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for done in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
            done.result(30)
        with pytest.raises(JobError, match=r"retention removed .* offset 0, now at 50"):
            read_facts(
                spark,
                view,
                cluster,
                ranges,
                str(tmp_path / "late"),
                Progress(1, report_to_people()),
            )


def test_a_window_is_of_the_records_own_times(
    kafka: RunningBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """A producer whose clock is ahead comes first: what follows is of the window all the same."""
    topic, hour_ms = kafka.create_topic("audited-out-of-order", 1), 3_600_000
    noon_ms = 1_750_000_000_000
    times = [noon_ms, noon_ms + 2 * hour_ms, noon_ms - hour_ms, noon_ms + 1, noon_ms + hour_ms]
    produce(kafka, topic, [b"key"] * 5, [b"value"] * 5, [None] * 5, times_ms=times)
    cluster, place = config_of(kafka, tmp_path).clusters["main"], Partition(topic, 0)
    with KafkaView(spark, cluster) as view:
        ranges = since(view, [place], noon_ms)
        read_facts(
            spark, view, cluster, ranges, str(tmp_path / "facts"), Progress(1, report_to_people())
        )
    facts = spark.read.schema(FACTS).parquet(str(tmp_path / "facts"))
    found = within(facts, (noon_ms, noon_ms + hour_ms)).select("offset").collect()
    assert sorted(row["offset"] for row in found) == [0, 3]
