"""Fixtures of replays: two tiers, a mirrored topic, a gateway and runners. See replay_world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from support.process.stack import Gateway, RunningBroker
from support.scenarios.replay_world import Api, ReplayRunner, Two, mirror, post


@pytest.fixture(scope="module")
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    """Both tiers, shared by all; the registry and the map are the module's own."""
    found = Two(kafka, backfill)
    found.delete_internal()
    found.create_internal()
    return found


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

        def start(
            *more: str, file: Path = config, environment: Mapping[str, str] | None = None
        ) -> ReplayRunner:
            log = tmp_path / f"runner-{next(numbers)}.log"
            runner = ReplayRunner(file, log, *more, environment=environment)
            ending.callback(runner.kill)
            return runner

        yield start
