"""Each topic's result as the newest record of its name, for the gateway and its console."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.core.groups.facts import Partition
from headgate.core.skew_audits.summary import with_earlier
from headgate_spark.audit.report.result import Document
from headgate_spark.job.errors import JobError, reason_of
from headgate_spark.job.options import Cluster
from headgate_spark.session.kafka_view import KafkaView
from headgate_spark.session.ranges import since
from headgate_spark.session.source import read

SKEW_TOPIC = "headgate.skew"
# A document is a quarter of its size then, and gateways read all of the topic.
_COMPRESSED = {"compression.type": "gzip"}


def publish(spark: SparkSession, view: KafkaView, cluster: Cluster, result: Document) -> None:
    """A record has what is kept of those that it takes the place of. Raises JobError."""
    names = [one["topic"] for one in result["topics"]]
    client = {**cluster.client, **cluster.waiting}
    options = {f"kafka.{name}": value for name, value in {**_COMPRESSED, **client}.items()}
    try:
        view.ensure_compacted(SKEW_TOPIC)
        rows = list(_rows(result, _published(spark, view, cluster, names)))
        frame = spark.createDataFrame(rows, "key string, value string")
        frame.write.format("kafka").options(**options).option("topic", SKEW_TOPIC).save()
    except (PySparkException, Py4JJavaError, JobError) as error:
        raise JobError(
            f"the files are written, but not {SKEW_TOPIC}: {reason_of(error)}. With --no-publish "
            "nothing is written there"
        ) from error


def _rows(result: Document, published: Mapping[str, Document]) -> Iterator[tuple[str, str]]:
    for one in result["topics"]:
        document = {"generated_at": result["generated_at"], **one}
        yield one["topic"], json.dumps(with_earlier(document, published.get(one["topic"])))


def _published(
    spark: SparkSession, view: KafkaView, cluster: Cluster, names: Iterable[str]
) -> dict[str, Any]:
    """What is there of these topics. A record that nobody can read is as good as none."""
    ranges = [one for one in since(view, [Partition(SKEW_TOPIC, 0)], None) if one.end > one.start]
    if not ranges:
        return {}
    records = read(spark, cluster, ranges, headers=False)
    named = records.select(F.col("key").cast("string").alias("topic"), "value", "offset")
    chosen = named.where(F.col("topic").isin(*names))
    newest = chosen.groupBy("topic").agg(F.max_by("value", "offset").alias("value")).collect()
    found = {row["topic"]: _document(bytes(row["value"] or b"")) for row in newest}
    return {topic: document for topic, document in found.items() if document is not None}


def _document(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
