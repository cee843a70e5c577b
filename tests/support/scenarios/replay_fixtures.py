"""Fixtures of replays: two tiers, a mirrored topic, a gateway and runners. See replay_world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from headgate.devstack.broker import KafkaInstallation
from support.process.stack import Gateway, RunningBroker, single_node
from support.scenarios.replay_world import Api, ReplayRunner, Two, mirror, post


@pytest.fixture(scope="module")
def two(
    kafka: RunningBroker,
    kafka_installation: KafkaInstallation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Two]:
    """Both tiers; the backfill one is the module's own."""
    plan = single_node(tmp_path_factory.mktemp("backfill"))
    broker = RunningBroker(kafka_installation, plan)
    try:
        broker.wait()
        found = Two(kafka, broker)
        found.create_internal()
        yield found
    finally:
        broker.kill()


@pytest.fixture
def topic(two: Two, topic_name: str) -> str:
    """Mirrored wholly: partition 0 has 40 records in 6 transactions, partition 1 has 20."""
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(40), aborted=2)
    post(two, topic_name, 1, range(100, 120))
    mirror(two, topic_name)
    return topic_name


@pytest.fixture(scope="module")
def api(two: Two, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The control plane of a gateway of the module's own."""
    gateway = Gateway(tmp_path_factory.mktemp("gateway"), two.config(), (), {})
    try:
        gateway.wait()
        yield Api(gateway)
    finally:
        gateway.kill()


@pytest.fixture
def start_runner(two: Two, tmp_path: Path) -> Iterator[Callable[..., ReplayRunner]]:
    """A factory of runners that follow."""
    numbers, config = count(1), tmp_path / "runner.toml"
    config.write_text(two.config())
    with ExitStack() as ending:

        def start(*more: str) -> ReplayRunner:
            runner = ReplayRunner(config, tmp_path / f"runner-{next(numbers)}.log", *more)
            ending.callback(runner.kill)
            return runner

        yield start
