"""`mirror --follow` with topics that cannot be mirrored: the others go on. Without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from headgate_spark.copying.cluster import pairs
from headgate_spark.copying.reader import Copied, CopyOptions, CopyUnit
from headgate_spark.job.command_line import OK, USAGE
from headgate_spark.job.options import read_config
from headgate_spark.mirror import mirror
from headgate_spark.mirror.copier import copy_all
from headgate_spark.mirror.mirror import MirrorRequest
from support.kafka import kafka_log
from support.process.mirror_job import config_text
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import mapped_end, produce
from support.scenarios.mirror_world import Two
from support.terminal.reported import Reported

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


class Tasks:
    """Stands for Spark: runs what it is given in a thread, and can be told to stop it."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self._running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    def run(
        self, _: object, __: str, tasks: Sequence[Sequence[CopyUnit]], options: CopyOptions
    ) -> list[Copied]:
        async def run() -> list[Copied]:
            together = asyncio.gather(*(copy_all(units, options) for units in tasks))
            task = asyncio.ensure_future(together)
            self._running.append((asyncio.get_running_loop(), task))  # type: ignore[arg-type]
            try:
                return [one for some in await task for one in some]
            except asyncio.CancelledError:
                return []

        return asyncio.run(run())

    def cancelJobGroup(self, _: str) -> None:
        loop, task = self._running[-1]
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(task.cancel)


class Follower:
    """A mirror that runs in this process, and what it says."""

    def __init__(self, two: Two, folder: Path, request: dict[str, Any]) -> None:
        file = folder / "headgate.toml"
        file.write_text(config_text(two, ["*"]))
        config = read_config(file, {})
        self.reported = Reported()
        self.metrics = folder / "mirror.prom"
        more = {"interval_s": 0.2, "again_s": 0.5, "metrics": self.metrics, **request}
        self.inner = mirror.Mirror(
            SimpleNamespace(sparkContext=Tasks()),  # type: ignore[arg-type]
            config,
            pairs(config, None)[0],
            MirrorRequest(**more),
            self.reported.report,
        )

    def lines(self, name: str, topic: str) -> list[str]:
        """Lines of the metrics file."""
        text = self.metrics.read_text() if self.metrics.exists() else ""
        start = f'headgate_{name}{{topic="{topic}"'
        return [one.removeprefix(start) for one in text.splitlines() if one.startswith(start)]

    def count(self, text: str) -> int:
        return sum(text in one for one in self.reported.lines)


@pytest.fixture
def follower(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Follower]:
    monkeypatch.setattr(mirror, "run_on_spark", lambda context, *more: context.run(context, *more))
    monkeypatch.setattr(mirror, "_EVERY_S", 0.5)
    return lambda **request: Follower(two, tmp_path, request)


@asynccontextmanager
async def running(one: Follower) -> AsyncIterator[None]:
    task = asyncio.create_task(one.inner.run())
    try:
        yield
        assert not task.done()
    finally:
        one.inner._stopped.set()
        assert await asyncio.wait_for(task, 60) == OK


async def test_an_unfit_topic_is_skipped_and_comes_back_and_the_others_go_on(
    two: Two, topic_name: str, follower: Callable[..., Follower]
) -> None:
    good, large, fewer = (f"{topic_name}-{one}" for one in ("good", "large", "fewer"))
    for topic in (good, large, fewer):
        two.source.create_topic(topic, 1, {"max.message.bytes": "200000"})
        produce(two.source, topic, [b"a"])
    two.target.create_topic(large, 1, {**mirror_world.TARGET_CONFIGS, "max.message.bytes": "1000"})
    two.target.create_topic(fewer, 2, mirror_world.TARGET_CONFIGS)
    one = follower(is_following=True, topics=f"{topic_name}-*", lease_s=600.0)
    async with running(one):
        await eventually(lambda: mapped_end(two, good) == 1, 30)
        await eventually(lambda: one.lines("mirror_topic_skipped", fewer), 30)
        assert one.lines("mirror_topic_skipped", large) == [',reason="settings"} 1']
        assert one.lines("mirror_topic_skipped", fewer) == [',reason="partitions"} 1']
        assert one.lines("mirror_lag_records", large) == [',partition="0"} 1']
        produce(two.source, good, [b"b"])
        produce(two.source, large, [b"b"])
        await eventually(lambda: mapped_end(two, good) == 2, 30)
        await eventually(lambda: one.lines("mirror_lag_records", large)[0].endswith(" 2"), 30)
        two.target.set_topic_configs(large, {"max.message.bytes": "400000"})
        await eventually(lambda: mapped_end(two, large) == 2, 30)
        await eventually(lambda: not one.lines("mirror_topic_skipped", large), 30)
        two.target.delete_topic(fewer)
        await eventually(lambda: mapped_end(two, fewer) == 1, 60)
        await eventually(lambda: one.lines("mirror_lag_records", fewer) == [',partition="0"} 0'])
    assert one.count(f"topic {large} is skipped (settings)") == 1
    assert one.count(f"topic {large} can be mirrored again") == 1
    assert one.count(f"topic {fewer} is skipped (partitions)") == 1


async def test_a_topic_that_becomes_unfit_or_goes_leaves_no_old_lag(
    two: Two, topic_name: str, follower: Callable[..., Follower]
) -> None:
    good, changed, gone = (f"{topic_name}-{one}" for one in ("good", "changed", "gone"))
    for topic in (good, changed, gone):
        two.source.create_topic(topic, 1)
        produce(two.source, topic, [b"a"])
    one = follower(is_following=True, topics=f"{topic_name}-*", lease_s=2.0)
    async with running(one):
        for topic in (good, changed, gone):
            await eventually(lambda its=topic: mapped_end(two, its) == 1, 30)
        two.target.set_topic_configs(changed, {"cleanup.policy": "compact"})
        two.source.delete_topic(gone)
        await eventually(lambda: one.lines("mirror_topic_skipped", changed), 30)
        produce(two.source, changed, [b"b"] * 3)
        produce(two.source, good, [b"b"])
        await eventually(lambda: mapped_end(two, good) == 2, 30)
        await eventually(lambda: one.lines("mirror_lag_records", changed)[0].endswith(" 3"), 30)
        await eventually(lambda: not one.lines("mirror_lag_records", gone), 30)
        assert not one.lines("mirror_topic_skipped", gone)


async def test_metrics_that_cannot_be_written_do_not_end_a_mirror(
    two: Two, topic_name: str, follower: Callable[..., Follower], tmp_path: Path
) -> None:
    two.source.create_topic(topic_name, 1)
    produce(two.source, topic_name, [b"a"])
    file = tmp_path / "away" / "mirror.prom"
    one = follower(is_following=True, topics=topic_name, lease_s=600.0, metrics=file)
    async with running(one):
        await eventually(lambda: mapped_end(two, topic_name) == 1, 30)
        await eventually(lambda: one.count("cannot be written"), 30)
        produce(two.source, topic_name, [b"b"])
        await eventually(lambda: mapped_end(two, topic_name) == 2, 30)
        file.parent.mkdir()
        await eventually(file.exists, 30)
    assert one.count(f"--metrics {file} cannot be written") == 1
    assert one.count(f"--metrics {file} is written again") == 1


async def test_all_but_the_unfit_are_mirrored_once_and_the_exit_code_says_it(
    two: Two, topic_name: str, follower: Callable[..., Follower]
) -> None:
    good, foreign = f"{topic_name}-good", f"{topic_name}-foreign"
    for topic in (good, foreign):
        two.source.create_topic(topic, 1)
        produce(two.source, topic, [b"a"])
    two.target.create_topic(foreign, 1, mirror_world.TARGET_CONFIGS)
    stranger = Producer({"bootstrap.servers": two.target.bootstrap})
    stranger.produce(foreign, b"?")
    assert stranger.flush(30) == 0
    one = follower(topics=f"{topic_name}-*")
    assert await one.inner.run() == USAGE
    assert mapped_end(two, good) == 1
    assert one.lines("mirror_topic_skipped", foreign) == [',reason="foreign"} 1']
    two.target.delete_topic(foreign)
    await eventually(lambda: foreign not in kafka_log.topic_names(two.target.bootstrap))
    assert await one.inner.run() == OK
    assert mapped_end(two, foreign) == 1
