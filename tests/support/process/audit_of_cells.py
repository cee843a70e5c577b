"""Audits a generated topic in a driver of 512 MB, and prints what it took: run by a test.

Arguments: a folder, partitions, windows of 5 minutes. Each partition has one record in each window.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from aiokafka.partitioner import murmur2
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate_spark.audit.collect import LOAD, STEPS, count_all, figures_of
from headgate_spark.audit.page import page
from headgate_spark.audit.result import document
from headgate_spark.job.command_line import report_to_people
from headgate_spark.job.progress import Progress
from headgate_spark.session.session import open_session

START_MS = 1_750_000_200_000


def keys_of(partitions: int) -> list[tuple[int, bytearray]]:
    """A key of each partition."""
    found: dict[int, bytearray] = {}
    number = 0
    while len(found) < partitions:
        key = b"key-%d" % number
        found.setdefault((murmur2(key) & 0x7FFFFFFF) % partitions, bytearray(key))
        number += 1
    return sorted(found.items())


def generate(spark: SparkSession, partitions: int, windows: int, folder: str) -> None:
    """Facts of the topic `cells`."""
    keys = spark.createDataFrame(keys_of(partitions), "partition int, key binary")
    rows = spark.range(0, partitions * windows, 1, 8).select(
        F.lit("cells").alias("topic"),
        F.pmod(F.col("id"), F.lit(partitions)).cast("int").alias("partition"),
        F.floor(F.col("id") / partitions).cast("long").alias("offset"),
        F.lit(100).cast("long").alias("bytes"),
        (START_MS + 300_000 * F.floor(F.col("id") / partitions)).cast("long").alias("at_ms"),
        F.lit("web").alias("producer"),
        F.lit(False).alias("is_tombstone"),
    )
    rows.join(F.broadcast(keys), "partition").write.parquet(folder)


def main() -> None:
    folder, partitions, windows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    settings = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "4"}
    spark = open_session("cells", "local[2]", settings, say=lambda line: None)
    generate(spark, partitions, windows, f"{folder}/facts")
    began = time.monotonic()
    facts = spark.read.parquet(f"{folder}/facts")
    progress = Progress(STEPS, report_to_people())
    counted = count_all(
        spark, facts, Path(folder), {"cells": partitions}, {"cells": (partitions,)}, progress
    )
    figures = [figures_of("cells", partitions, counted, (None, None))]
    result = document(figures, 0)
    text = page(result, figures)
    took_s = time.monotonic() - began
    cells = spark.read.parquet(f"{folder}/{LOAD}").count()
    spark.stop()
    report = {
        "cells": cells,
        "records": figures[0].records,
        "diagnoses": result["topics"][0]["diagnoses"],
        "python_max_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "page_bytes": len(text),
        "seconds": round(took_s, 1),
    }
    sys.stdout.write(json.dumps(report) + "\n")


main()
