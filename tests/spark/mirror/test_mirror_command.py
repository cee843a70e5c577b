"""`headgate-spark mirror` as operators run it: real Spark, two real clusters."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headgate.replays.offset_map import MAP_TOPIC, read_entry
from headgate.replays.segments import Segment
from headgate_spark.cli import main
from support.kafka import kafka_log
from support.process.mirror_job import QUICK, Job, config_text
from support.process.stack import RunningBroker, eventually
from support.root import ROOT
from support.scenarios import mirror_world
from support.scenarios.mirror_world import OddSource, Two
from support.terminal.terminal import Terminal

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    return Two(kafka, backfill)


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    with ExitStack() as ending:

        def start(two: Two, topic: str, command: str, *more: str) -> Job:
            config = tmp_path / "headgate.toml"
            config.write_text(config_text(two, [topic]))
            job = Job(tmp_path, command, "--config", str(config), "--topics", topic, *more)
            ending.callback(job.end)
            return job

        yield start


@pytest.mark.full  # the scenario with kills mirrors once, too
def test_a_topic_is_mirrored_once_and_a_second_run_writes_nothing(
    two: Two, topic_name: str, start_job: Callable[..., Job]
) -> None:
    two.source.create_topic(topic_name, 3, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed=3)
    for partition in range(3):
        source.write(partition, 400)
    job = start_job(two, topic_name, "mirror")
    assert job.wait() == 0, job.text()
    assert mirror_world.judge(two, topic_name) >= 1200
    ends = kafka_log.end_offsets(two.target.bootstrap, topic_name)
    assert start_job(two, topic_name, "mirror").wait() == 0
    assert kafka_log.end_offsets(two.target.bootstrap, topic_name) == ends


def test_on_a_terminal_a_line_says_how_far_it_is(two: Two, topic_name: str, tmp_path: Path) -> None:
    """And what stays on the screen is what was said for good."""
    two.source.create_topic(topic_name, 2, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed=5)
    for partition in range(2):
        source.write(partition, 400)
    config = tmp_path / "headgate.toml"
    config.write_text(config_text(two, [topic_name]))
    code = os.pathsep.join(str(ROOT / one) for one in ("gateway", "spark"))
    environment = {"PYTHONPATH": code, "SPARK_LOCAL_DIRS": str(tmp_path)}
    for job, more in (("mirror", ("--bytes-per-s", "60000")), ("verify", ())):
        command = [sys.executable, "-m", "headgate_spark", job, "--config", str(config)]
        started = Terminal([*command, *more, *QUICK], environment, columns=100)
        with started as terminal:
            assert terminal.ended(240.0) == 0, terminal.screen.text
            screen = terminal.screen
        if job == "mirror":
            drawn = re.findall(r"headgate-spark: main: \[[#.]{20}\] +\d", terminal.written)
            assert len(set(drawn)) > 1, terminal.written
        assert "[###" not in screen.text
        assert "headgate-spark: main: " in screen.text


def metric(file: Path, name: str) -> list[float]:
    text = file.read_text() if file.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith(f"headgate_{name}{{")]
    return [float(line.split()[-1]) for line in lines]


async def test_a_mirror_that_has_just_started_says_how_old_is_what_it_lacks(
    two: Two, topic_name: str, start_job: Callable[..., Job], tmp_path: Path
) -> None:
    """It has seen nothing coming, as after a restart."""
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    minutes, chance = 10, random.Random(1)
    client = Producer({"bootstrap.servers": two.source.bootstrap})
    for _ in range(300):
        at_ms = int(time.time() * 1000) - minutes * 60_000
        client.produce(topic_name, chance.randbytes(10_000), partition=0, timestamp=at_ms)
    assert client.flush(30) == 0
    metrics = tmp_path / "mirror.prom"
    job = start_job(
        two, topic_name, "mirror", "--follow", "--metrics", str(metrics),
        "--bytes-per-s", "50000", "--master", "local[2]",
    )  # fmt: skip
    await eventually(lambda: bool(metric(metrics, "mirror_lag_seconds")), 90)
    lags, records = metric(metrics, "mirror_lag_seconds"), metric(metrics, "mirror_lag_records")
    assert lags[0] >= minutes * 60
    assert records[0] > 0
    await eventually(lambda: " s behind" in job.text(), 30)
    said = re.findall(r"(\d+) s behind", job.text())
    assert int(said[0]) >= minutes * 60
    job.child.signal(signal.SIGTERM)
    assert job.wait(60) == 0, job.text()


@pytest.mark.full  # half a minute of waiting
async def test_what_is_followed_stays_close_and_new_partitions_are_taken_along(
    two: Two, topic_name: str, start_job: Callable[..., Job], tmp_path: Path
) -> None:
    two.source.create_topic(topic_name, 8, mirror_world.SOURCE_CONFIGS)
    metrics = tmp_path / "mirror.prom"
    job = start_job(
        two, topic_name, "mirror", "--follow", "--interval", "5", "--metrics", str(metrics),
        "--bytes-per-s", "1000000", "--master", "local[2]",
    )  # fmt: skip
    source, lags = OddSource(two.source, topic_name, seed=11), []
    for number in range(24):
        source.write(number % 8, 30)
        lags += metric(metrics, "mirror_lag_seconds")
    await eventually(lambda: _is_level(two, topic_name), 60)
    kafka_log.add_partitions(two.source.bootstrap, topic_name, 10)
    OddSource(two.source, topic_name, seed=12).write(9, 50)
    await eventually(lambda: "topics have changed" in job.text(), 30)
    await eventually(lambda: _is_level(two, topic_name), 60)
    lags += metric(metrics, "mirror_lag_seconds")
    job.child.signal(signal.SIGTERM)
    assert job.wait(60) == 0, job.text()
    # the goal is the interval and ten seconds; others may use the cores, too
    sys.stdout.write(f"lag in s: at most {max(lags, default=0.0):.1f}\n")  # pytest -rP shows it
    assert mirror_world.judge(two, topic_name) >= 24 * 30 + 50
    assert not job.workers()
    out = tmp_path / "verify.json"
    assert start_job(two, topic_name, "verify", "--out", str(out)).wait() == 0
    found = json.loads(out.read_text())
    assert [one["partition"] for one in found] == list(range(10))
    assert all(one["good"] for one in found)
    assert sum(one["compared"] for one in found) >= 24 * 30 + 50


@pytest.mark.full  # half a minute of load
async def test_8_partitions_are_followed_within_the_interval_and_ten_seconds(
    two: Two,
    topic_name: str,
    start_job: Callable[..., Job],
) -> None:
    two.source.create_topic(topic_name, 8)
    job = start_job(
        two, topic_name, "mirror", "--follow", "--interval", "5", "--bytes-per-s", "1000000",
        "--master", "local[2]",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": two.source.bootstrap, "linger.ms": 5})

    def post(count: int) -> None:
        for number in range(8 * count):
            producer.produce(topic_name, bytes(500), partition=number % 8)
        assert producer.flush(30) == 0

    post(1)
    await eventually(lambda: _is_level(two, topic_name), 60)
    for _ in range(150):  # 40 kB a time: a fifth of what may be read
        post(10)
        await asyncio.sleep(0.2)
    await eventually(lambda: _is_level(two, topic_name), 60)
    job.child.signal(signal.SIGTERM)
    assert job.wait(60) == 0, job.text()
    lags = _lags(two, topic_name)
    assert len(lags) == 8 * 1500
    figures = {f"p{share}": lags[len(lags) * share // 100] for share in (50, 95, 99)}
    sys.stdout.write(f"lag in s: {figures}, at most {lags[-1]:.1f}\n")  # pytest -rP shows it


def _lags(two: Two, topic: str) -> list[float]:
    """How old each record was when its place was written to the map, in seconds: by the times of
    the records, since whoever looks is late as well."""
    mapped: dict[int, list[tuple[Segment, int]]] = {}
    for record in kafka_log.read_log(two.target.bootstrap, MAP_TOPIC):
        entry = read_entry(record.key, record.value)
        if entry is not None and entry.address.topic == topic and isinstance(entry.fact, Segment):
            mapped.setdefault(entry.address.partition, []).append((entry.fact, record.timestamp_ms))
    posted = {
        (one.partition, one.offset): one.timestamp_ms
        for one in kafka_log.read_log(two.source.bootstrap, topic)
    }
    return sorted(
        (at_ms - posted[partition, segment.source + step]) / 1000
        for partition, some in mapped.items()
        for segment, at_ms in some
        for step in range(segment.records)
        if segment.source + step  # the first waited for Spark's start
    )


def _is_level(two: Two, topic: str) -> bool:
    if kafka_log.partition_count(two.source.bootstrap, topic) != len(
        maps := mirror_world.read_maps(two.target, topic)
    ):
        return False
    ends = kafka_log.stable_offsets(two.source.bootstrap, topic)
    return all(maps[topic, one].table.source_end == end for one, end in ends.items())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "1"], "--interval 1: at least 5"),
        (["--bytes-per-s", "0"], "--bytes-per-s 0: at least 1"),
        (["--cluster", "nowhere"], "--cluster nowhere: no [clusters.nowhere] with tier = ingest"),
        (["--cluster", "lone"], "clusters.lone.backfill is not set"),
        (["--cluster", "odd"], 'clusters.odd.backfill = "lone": no [clusters.lone] with tier'),
    ],
)
def test_wrong_options_are_named_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text(
        '[clusters.lone]\nbootstrap_servers = ["127.0.0.1:1"]\n'
        '[clusters.odd]\nbootstrap_servers = ["127.0.0.1:1"]\nbackfill = "lone"\n'
    )
    assert main(["mirror", "--config", str(config), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_without_a_second_tier_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text('[clusters.main]\nbootstrap_servers = ["127.0.0.1:1"]\n')
    assert main(["verify", "--config", str(config)]) == 2
    assert "set clusters.<name>.backfill" in capsys.readouterr().err


@pytest.mark.full  # half a minute of standing still
async def test_following_goes_on_after_the_backfill_cluster_was_down_for_half_a_minute(
    kafka: RunningBroker,
    start_broker: Callable[..., RunningBroker],
    topic_name: str,
    start_job: Callable[..., Job],
) -> None:
    two = Two(kafka, start_broker())
    two.source.create_topic(topic_name, 2, mirror_world.SOURCE_CONFIGS)
    job = start_job(two, topic_name, "mirror", "--follow", "--master", "local[2]")
    source = OddSource(two.source, topic_name, seed=13)
    source.write(0, 200)
    await eventually(lambda: _is_level(two, topic_name), 60)
    two.target.kill()
    for number in range(30):
        source.write(number % 2, 20)
        await asyncio.sleep(1)
    await asyncio.to_thread(two.target.restart)
    await eventually(lambda: _is_level(two, topic_name), 120, 1.0)
    job.child.signal(signal.SIGTERM)
    assert job.wait(60) == 0, job.text()
    assert mirror_world.judge(two, topic_name) >= 800
