"""A quick start for every Spark that tests start: 5 s of a processor instead of 9 to 18.

Their Java compiles less, and reads Spark's classes from an archive (AppCDS) that `make setup`
makes once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.devstack.java import cache_directory

# A short life: compiling less is quicker, and leaves the cores to other tests.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What most jobs do, so that its classes are in the archive.
_JOB = """
import sys
from headgate_spark.session.session import open_session
options = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false",
           "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
with open_session("classes", "local[2]", options, say=lambda line: None) as spark:
    spark.range(99).selectExpr("id % 7 as k", "cast(id as string) v").write.parquet(sys.argv[1])
    frame = spark.read.parquet(sys.argv[1]).repartition(2)
    same = frame.mapInArrow(lambda batches: batches, frame.schema)
    same.groupBy("k").count().orderBy("k").collect()
"""


def use_quick_start(environment: MutableMapping[str, str]) -> None:
    """Have Sparks that get this environment start quickly; without the archive if there is none.

    A class path that does not begin as the archive's does not use it either.
    """
    environment["SPARK_LAUNCHER_OPTS"] = QUICK
    environment["SPARK_SUBMIT_OPTS"] = f"{QUICK} -Xlog:disable -XX:SharedArchiveFile={_archive()}"


def _make_archive() -> None:
    goal = _archive()
    if goal.exists():
        return
    goal.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        made = Path(folder) / goal.name
        options = f"{QUICK} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        command = [sys.executable, "-c", _JOB, f"{folder}/data"]
        # It ends when Java does, which has its output, too.
        subprocess.run(command, env=environment, capture_output=True, check=True)
        if made.exists():  # else this Java makes none
            shutil.copyfile(made, partial := goal.with_name(f"{goal.name}.{os.getpid()}"))
            partial.rename(goal)


def _archive() -> Path:
    """Return the path of the archive, which fits one Java and one PySpark."""
    spark = importlib.util.find_spec("pyspark")
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    parts = map(Path, filter(None, (java, spark and spark.origin)))
    identity = [(part.resolve(), part.stat().st_mtime_ns) for part in parts if part.exists()]
    name = f"classes-{hashlib.sha256(repr(identity).encode()).hexdigest()[:12]}.jsa"
    return cache_directory(os.environ, "spark-tests") / name


if __name__ == "__main__":
    _make_archive()
