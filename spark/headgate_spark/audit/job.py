"""The job `headgate-spark audit`: it reads a running cluster and diagnoses its topics."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from headgate.audits.results import SKEW_TOPIC, with_earlier
from headgate.commands.terminal import ProgressLine
from headgate.kafka.groups import Partition
from headgate.model.text import escaped
from headgate_spark.audit.collect import KEYS, LOAD, STEPS, count_all, figures_of
from headgate_spark.audit.diagnosis import with_unpublished
from headgate_spark.audit.facts import read_unpublished
from headgate_spark.audit.figures import TopicFigures
from headgate_spark.audit.page import page
from headgate_spark.audit.predictions import candidates
from headgate_spark.audit.result import Document, document, textfile, worst_first
from headgate_spark.audit.scratch import scratch
from headgate_spark.job.command_line import USAGE, JobError, now_ms, reason_of
from headgate_spark.job.options import Cluster, JobConfig, chosen_topics, must_exist
from headgate_spark.job.progress import Progress
from headgate_spark.session.kafka_view import (
    KafkaView,
    Range,
    by_offsets,
    lost,
    parse_offsets,
    since,
)
from headgate_spark.session.source import FACTS, facts_of, read, within

# ---- publication: each topic's result is the newest record of its name


# A document is a quarter of its size then, and gateways read all of the topic.
_COMPRESSED = {"compression.type": "gzip"}


def publish(spark: SparkSession, view: KafkaView, cluster: Cluster, result: Document) -> None:
    """Publish the results. Each record keeps summaries of its predecessors. Raises JobError."""
    names = [topic["topic"] for topic in result["topics"]]
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
    for topic in result["topics"]:
        document = {"generated_at": result["generated_at"], **topic}
        yield topic["topic"], json.dumps(with_earlier(document, published.get(topic["topic"])))


def _published(
    spark: SparkSession, view: KafkaView, cluster: Cluster, names: Iterable[str]
) -> dict[str, Any]:
    """Return the published results of these topics. An unreadable record counts as none."""
    ranges = [
        offsets
        for offsets in since(view, [Partition(SKEW_TOPIC, 0)], None)
        if offsets.end > offsets.start
    ]
    if not ranges:
        return {}
    records = read(spark, cluster, ranges, headers=False)
    named = records.select(F.col("key").cast("string").alias("topic"), "value", "offset")
    chosen = named.where(F.col("topic").isin(*names))
    newest = chosen.groupBy("topic").agg(F.max_by("value", "offset").alias("value")).collect()
    documents = {row["topic"]: _document(bytes(row["value"] or b"")) for row in newest}
    return {topic: document for topic, document in documents.items() if document is not None}


def _document(value: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(value)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


# ---- files: tables, JSON, the page and metrics, all of them or none


def write_files(
    result: Document, figures: Sequence[TopicFigures], folder: Path, out: Path, at_ms: int
) -> None:
    """Replace an earlier result by the tables in `folder` and the rest of the result.

    Everything is written beside the result first and then renamed. So Prometheus and browsers never
    see half a file, and a full disk leaves the earlier result intact. Raises JobError.
    """
    texts = {
        "audit.json": json.dumps(result, indent=1, ensure_ascii=False) + "\n",
        "index.html": page(result, figures),
        "headgate-skew.prom": textfile(result, at_ms),
    }
    try:
        for name, text in texts.items():
            (folder / name).write_text(escaped(text), encoding="utf-8")
        for name in texts:
            (folder / name).replace(out / name)
        for name in (LOAD, KEYS):
            if (out / name).exists():
                (out / name).rename(folder / f"earlier-{name}")
            (folder / name).rename(out / name)
    except OSError as error:
        raise JobError(f"--out {out} cannot take the result: {error}") from error


# ---- the job


# A restarted broker is unavailable for about 20 s; a longer wait is reported.
PATIENCE_S = 45.0

_NOTHING = "there is no record in this window: try another --from, --to or --topics"


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """A request of an audit.

    Attributes:
        from_ms, to_ms: The window; None for all that Kafka still has.
        patience_s: Time for which brokers may be unavailable.
    """

    cluster: str | None
    topics: str | None
    from_ms: int | None
    to_ms: int | None
    offsets: str | None
    counts: tuple[int, ...]
    out: Path
    publish: bool
    patience_s: float = PATIENCE_S


def audit(
    spark: SparkSession, config: JobConfig, request: AuditRequest, report: ProgressLine
) -> Document:
    """Read, count, diagnose, write and publish; return the result. Raises JobError."""
    config = config.patient(request.patience_s)
    cluster = chosen_cluster(config, request.cluster)
    progress = Progress(STEPS + 3 + request.publish, report)
    with ExitStack() as ending:
        view = ending.enter_context(KafkaView(spark, cluster))
        sizes = view.topics()
        ranges = _ranges(view, config, cluster, request, sizes)
        names = list(dict.fromkeys(offsets.tp.topic for offsets in ranges))
        present = {name: sizes[name] for name in names}
        folder = ending.enter_context(scratch(request.out))
        files = PurePosixPath(f"file:{folder}")  # whatever Spark's own default is
        read_facts(spark, view, cluster, ranges, f"{files}/facts", progress)
        window = (request.from_ms, request.to_ms)
        facts = within(spark.read.schema(FACTS).parquet(f"{files}/facts"), window)
        counts = {name: candidates(present[name], request.counts) for name in names}
        coalesce = _coalesce_ms(config, names)
        counted = count_all(spark, facts, files, present, counts, progress, coalesce)
        parts = _parts(ranges, present)
        figures = [
            figures_of(name, present[name], counted, window, parts.get(name, ())) for name in names
        ]
        if not any(figure.records for figure in figures):
            raise JobError(_NOTHING)
        unpublished = read_unpublished(spark, config, _windows(figures, request), progress)
        figures = worst_first(
            with_unpublished(figure, unpublished[figure.topic]) for figure in figures
        )
        with progress.step(f"writing {request.out}"):
            at_ms = now_ms()
            result = document(figures, at_ms)
            write_files(result, figures, folder, request.out, at_ms)
        if request.publish:
            with progress.step(f"publishing to {SKEW_TOPIC}", spark.sparkContext):
                publish(spark, view, cluster, result)
    return result


def chosen_cluster(config: JobConfig, name: str | None) -> Cluster:
    """Return the named cluster, or else the only one of tier ingest. Raises JobError."""
    if name is not None and name not in config.clusters:
        raise JobError(f"--cluster {name}: one of {', '.join(config.clusters)}", USAGE)
    ingest = [cluster for cluster in config.clusters.values() if cluster.tier == "ingest"]
    if name is None and len(ingest) != 1:
        raise JobError(f"--cluster: choose one of {', '.join(config.clusters)}", USAGE)
    return config.clusters[name] if name is not None else ingest[0]


def _ranges(
    view: KafkaView,
    config: JobConfig,
    cluster: Cluster,
    request: AuditRequest,
    sizes: dict[str, int],
) -> list[Range]:
    if request.offsets is not None:
        wanted = parse_offsets(request.offsets)
        must_exist(",".join({tp.topic for tp in wanted}), cluster, sizes)
        _must_have(wanted, sizes)
        return _with_records(by_offsets(view, wanted))
    names = chosen_topics(request.topics, config, cluster, set(sizes))
    must_exist(request.topics, cluster, sizes)
    tps = [Partition(name, number) for name in names for number in range(sizes[name])]
    return _with_records(since(view, tps, request.from_ms))


def _must_have(tps: Iterable[Partition], sizes: dict[str, int]) -> None:
    for topic, partition in tps:
        if not 0 <= partition < sizes[topic]:
            text = f"--offsets: {topic} has no partition {partition}; it has {sizes[topic]}, from 0"
            raise JobError(text, USAGE)


def _parts(ranges: Sequence[Range], present: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the requested partitions of topics that have others, too."""
    chosen: dict[str, set[int]] = defaultdict(set)
    for offsets in ranges:
        chosen[offsets.tp.topic].add(offsets.tp.partition)
    return {
        topic: tuple(sorted(numbers))
        for topic, numbers in chosen.items()
        if len(numbers) < present[topic]
    }


def _with_records(ranges: list[Range]) -> list[Range]:
    if not any(offsets.end > offsets.start for offsets in ranges):
        raise JobError(_NOTHING)
    return ranges


def read_facts(
    spark: SparkSession,
    view: KafkaView,
    cluster: Cluster,
    ranges: Sequence[Range],
    goal: str,
    progress: Progress,
) -> None:
    """Read Kafka once; everything is counted from the stored facts, which have no values.

    If an offset of the ranges cannot be read, the audit raises JobError and leaves nothing that
    looks like a result.
    """
    total = sum(offsets.end - offsets.start for offsets in ranges)
    try:
        with progress.step(f"reading up to {total:,} records", spark.sparkContext):
            facts = facts_of(spark, cluster, ranges)
            read = Observation("read")
            facts.observe(read, F.count(F.lit(1)).alias("rows")).write.parquet(goal)
            must_be_there(spark, goal, int(read.get["rows"]))
    except (PySparkException, Py4JJavaError) as error:  # PySpark translates some of them only
        if gone := lost(view, ranges):
            raise JobError(
                f"retention removed records while they were read: {'; '.join(gone)}. Nothing was "
                "written; try a later --from"
            ) from error
        raise JobError(
            f"reading {cluster.address} into {_folder(goal)} failed: "
            f"{reason_of(error)}. Nothing was written"
        ) from error


def must_be_there(spark: SparkSession, goal: str, rows: int) -> None:
    """Raise JobError unless this process can read all rows that the executors have written.

    If the folder is not shared, executors on other machines leave only some of them, or none.
    """
    try:
        readable = spark.read.schema(FACTS).parquet(goal).count()
    except (PySparkException, Py4JJavaError):  # an executor does not find what another wrote
        readable = -1
    if readable != rows:
        raise JobError(
            f"--out {_folder(goal)}: what Spark's executors write there is not found there by this "
            "process, or not by each other: it must be one folder for the driver and all "
            "executors, such as one on NFS. Nothing was written",
            USAGE,
        )


def _folder(goal: str) -> Path:
    return Path(goal.removeprefix("file:")).parent.parent


def _coalesce_ms(config: JobConfig, topics: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return quiet and maximum time of the topics that coalesce."""
    times_ms = {}
    for topic in topics:
        policy = config.policies.match(topic)
        if policy is not None and (quiet := policy.coalesce_quiet_ms) is not None:
            times_ms[topic] = (quiet, policy.coalesce_max_delay_ms or 5 * quiet)
    return times_ms


def _windows(
    figures: Sequence[TopicFigures], request: AuditRequest
) -> dict[str, tuple[int | None, int | None]]:
    """Return the windows of the facts. A request by offsets has the times of its records."""
    if request.offsets is None:
        return {figure.topic: (request.from_ms, request.to_ms) for figure in figures}
    return {figure.topic: (figure.from_ms, figure.to_ms) for figure in figures}
