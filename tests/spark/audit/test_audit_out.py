"""Where an audit writes: one folder for the driver and all executors, whatever Spark's default."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate_spark.audit.job import must_be_there
from headgate_spark.audit.scratch import scratch
from headgate_spark.cli import main
from headgate_spark.job.command_line import USAGE, JobError
from headgate_spark.session.session import open_session
from support.process.mirror_job import Job
from support.process.stack import RunningBroker
from support.scenarios.skew_topics import produce_world
from support.scenarios.skew_world import zipf


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "--config", "F", "--out", "s3a://bucket/audit"],
        ["audit", "--config", "F", "--out", "hdfs://name/audit"],
        ["audit", "--config", "F", "--out", "file:///srv/audit"],
        ["verify", "--config", "F", "--out", "s3://bucket/verify.json"],
        ["mirror", "--config", "F", "--metrics", "s3://bucket/mirror.prom"],
        ["replay", "--config", "F", "--metrics", "s3://bucket/replay.prom"],
    ],
)
def test_a_uri_is_no_path(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == USAGE
    said = capsys.readouterr().err
    assert f"{arguments[-1]} is a URI: give a path" in said
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_renames_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(JobError, match="files cannot be renamed there"), scratch(tmp_path):
        pytest.fail("it was taken")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_what_executors_write_elsewhere_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """Files of executors on other machines, where the folder is another one."""
    goal = tmp_path / "folder" / "facts"
    columns = (
        "'t' topic, 0 partition, id offset, cast('k' as binary) key, 1L bytes, 1L at_ms, "
        "'p' producer, false is_tombstone"
    )
    frame = spark.range(0, 100, 1, 4).selectExpr(*columns.split(", "))
    frame.write.parquet(f"file:{goal}")
    must_be_there(spark, f"file:{goal}", 100)
    next(goal.glob("part-*")).unlink()
    with pytest.raises(JobError, match=f"--out {tmp_path}: .* one folder for the driver") as error:
        must_be_there(spark, f"file:{goal}", 100)
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("is_set", ["environment", "master", "conf"])
def test_spark_connect_is_refused(is_set: str, monkeypatch: pytest.MonkeyPatch) -> None:
    master, settings = None, dict[str, str]()
    if is_set == "environment":
        monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    elif is_set == "master":
        master = "sc://127.0.0.1:1"
    else:
        settings = {"spark.remote": "sc://127.0.0.1:1"}
    with pytest.raises(JobError, match="cannot run over Spark Connect"):
        open_session("x", master, settings, say=lambda line: None)


@pytest.fixture
def ending_jobs() -> Iterator[list[Job]]:
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        job.end()


@pytest.mark.full  # a Spark of its own: 15 s of a processor for one setting of Hadoop's
@pytest.mark.kafka
def test_a_default_file_system_that_is_not_the_local_one(
    kafka: RunningBroker, tmp_path: Path, ending_jobs: list[Job]
) -> None:
    """As on a Hadoop cluster: a plain path would be one of HDFS there."""
    world = zipf(600, partitions=2)
    topic = kafka.create_topic("audit-out", 2)
    produce_world(kafka, topic, world)
    config, out, other = (tmp_path / name for name in ("headgate.toml", "out", "other"))
    other.mkdir()
    config.write_text(f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n')
    default = [
        "--conf", "spark.hadoop.fs.defaultFS=viewfs://default/",
        "--conf", f"spark.hadoop.fs.viewfs.mounttable.default.linkFallback=file://{other}",
    ]  # fmt: skip
    arguments = ["--config", str(config), "--topics", topic, "--out", str(out), "--no-publish"]
    ending_jobs.append(Job(tmp_path, "audit", *arguments, "--master", "local[1]", *default))
    assert ending_jobs[0].wait(300) == 0, ending_jobs[0].text()
    found = json.loads((out / "audit.json").read_text())["topics"][0]
    assert found["records"] == len(world)
    assert list((out / "keys.parquet").glob("part-*"))
    assert list(other.iterdir()) == []
