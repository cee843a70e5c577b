"""Fixtures for everyone. Brokers and Redis servers are real, and every one is ended."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count, islice
from math import ceil
from pathlib import Path

import pytest

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import (
    BrokerPlan,
    KafkaInstallation,
    RedisPlan,
    new_id,
    prepare_kafka,
)
from support import file_seconds, scale
from support.process import spark_start
from support.process.postgres_server import running_postgres
from support.process.stack import (
    LASTING,
    Gateway,
    RunningBroker,
    RunningCluster,
    RunningRedis,
    free_port,
    running_broker,
    single_node,
)


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start import from where the tests do, and keep no state after them."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    roots = [*map(str, config.getini("pythonpath")), *filter(None, given)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(roots))
    os.environ["XDG_STATE_HOME"] = os.devnull  # a folder cannot be made there
    gc.disable()  # until `pytest_collection_finish`: a sixth of the time of a collection
    is_whole_run = "EXPECT_COMPILED" not in os.environ and not hasattr(config, "workerinput")
    if is_whole_run and os.environ.get("WRITE_SECONDS"):
        config.pluginmanager.register(file_seconds.Recorder())


def pytest_sessionstart() -> None:
    """Have Sparks start quickly; `make test-full` compiles what they run."""
    if not scale.is_full():
        spark_start.use_quick_start(os.environ)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection.

    They live until the end, and every collection in a test would visit the objects of 11,000 of
    them, which takes 0.3 s.
    """
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # after the fixtures of the file
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude whatever outlives a file from garbage collection, too.

    Parsed sources, charts and reports of thousands of tests would make each `gc.collect()` of a
    later test take 0.7 s. The files' own garbage is gone before.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


# Kinds whose tests wait for servers and take seconds. The others take milliseconds.
SLOW = ("browser", "chaos", "contract", "integration", "spark")


@pytest.hookimpl(trylast=True)  # after those that are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with slow tests on every worker, so that quick ones fill the gaps at the end.

    Each worker gets an equal number of tests, in order, and steals from the end of another
    worker's part when it has none. The slow files among them take equally long on each worker
    (`support.file_seconds`), the longest first. One worker gets all tests of Spark, for one
    session; as few as possible get the files that need a second cluster. A file stays together,
    because it may share a server.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow: list[list[pytest.Item]] = [[] for _ in range(workers)]
    quick: list[pytest.Item] = []
    files: dict[str, list[pytest.Item]] = {}
    above = len(f"{Path(__file__).parent}{os.sep}")
    for item in items:
        path = str(item.path)[above:]
        if path.partition(os.sep)[0] in SLOW:
            files.setdefault(path, []).append(item)
        else:
            quick.append(item)
    listed = file_seconds.read()
    seconds = {path: listed.get(path, file_seconds.DEFAULT) for path in files}
    second_cluster = {path for path, tests in files.items() if _has_two_clusters(tests)}
    share = sum(seconds.values()) / workers
    few = ceil(sum(map(seconds.__getitem__, second_cluster)) / share) if files else 0
    weights = [0] * workers

    def rank(path: str) -> tuple[bool, bool, int]:
        return not path.startswith("spark"), path not in second_cluster, -seconds[path]

    for path in sorted(files, key=rank):
        if path.startswith("spark"):
            among = range(1)
        else:
            among = range(max(0, workers - few) if path in second_cluster else 0, workers)
        lightest = min(among, key=weights.__getitem__)
        slow[lightest].extend(files[path])
        weights[lightest] += seconds[path]
    ordered: list[pytest.Item] = []
    rest = iter(quick)
    for number, first in enumerate(slow):
        size = (len(items) - len(ordered)) // (workers - number)
        ordered += [*first, *islice(rest, max(0, size - len(first)))]
    items[:] = [*ordered, *rest]


pytest_plugins = [
    "support.ci_rules",
    "support.open_connections",
    "support.scenarios.mirror_fixtures",
    "support.scenarios.replay_fixtures",
    "support.upgrades.fixtures",
]

scale.set_profiles()


def _has_two_clusters(tests: list[pytest.Item]) -> bool:
    return any("backfill" in getattr(test, "fixturenames", ()) for test in tests)


@pytest.fixture(scope="session")
def kafka_installation() -> KafkaInstallation:
    """Java, the jars and the class archive, made when missing."""
    return prepare_kafka(os.environ, say=lambda line: None)


@pytest.fixture(scope="session")
def kafka(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """The broker that all tests of one xdist worker share: use your own topics, never stop it."""
    folder = tmp_path_factory.mktemp("kafka")
    with running_broker(kafka_installation, folder, LASTING) as broker:
        yield broker


@pytest.fixture
def pausable(kafka: RunningBroker) -> Iterator[RunningBroker]:
    """`kafka` for a test that pauses it; the next one finds it answering."""
    yield kafka
    kafka.resume()
    kafka.wait()  # one that stood still for seconds was fenced


@pytest.fixture(scope="session")
def backfill(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A second cluster beside `kafka`, shared in the same way: the tier of the mirror."""
    folder = tmp_path_factory.mktemp("backfill")
    with running_broker(kafka_installation, folder, LASTING) as broker:
        yield broker


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    plain = "".join(one if one.isalnum() else "-" for one in request.node.name)
    return f"{plain[:80]}-{new_id().replace('_', '-')[:8]}"


@pytest.fixture
def start_broker(
    kafka_installation: KafkaInstallation, tmp_path: Path
) -> Iterator[Callable[..., RunningBroker]]:
    """A factory of brokers of the test's own: `start_broker(options={...})`."""
    numbers = count(1)
    with ExitStack() as ending:

        def start(options: Mapping[str, str] | None = None) -> RunningBroker:
            plan = single_node(tmp_path / f"broker-{next(numbers)}", options=options)
            broker = RunningBroker(kafka_installation, plan)
            ending.callback(broker.kill)
            broker.wait()
            return broker

        yield start


@pytest.fixture
def start_cluster(
    kafka_installation: KafkaInstallation, tmp_path: Path
) -> Iterator[Callable[..., RunningCluster]]:
    """A factory of clusters: `start_cluster(3)` has replication factor 3 and min ISR 2."""
    numbers = count(1)
    with ExitStack() as ending:

        def start(size: int = 3, options: Mapping[str, str] | None = None) -> RunningCluster:
            directory = tmp_path / f"cluster-{next(numbers)}"
            plans = _cluster_plans(directory, size, options or {})
            nodes = []
            for plan in plans:
                nodes.append(RunningBroker(kafka_installation, plan))
                ending.callback(nodes[-1].kill)
            for node in nodes:
                node.wait()
            return RunningCluster(nodes)

        yield start


def _cluster_plans(directory: Path, size: int, options: Mapping[str, str]) -> list[BrokerPlan]:
    ports = [(free_port(), free_port()) for _ in range(size)]
    voters = ",".join(f"{n}@{LOOPBACK}:{ports[n - 1][1]}" for n in range(1, size + 1))
    cluster_id = new_id()
    return [
        BrokerPlan(
            directory / f"node-{number}", cluster_id, number, port, controller_port, voters,
            cluster_size=size, options=options,
        )
        for number, (port, controller_port) in enumerate(ports, start=1)
    ]  # fmt: skip


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRedis]:
    """The Redis that all tests of one xdist worker share: use a namespace of your own."""
    server = RunningRedis(RedisPlan(tmp_path_factory.mktemp("redis"), free_port()))
    yield server
    server.kill()


@pytest.fixture
def start_redis(tmp_path: Path) -> Iterator[Callable[..., RunningRedis]]:
    """A factory of Redis servers of the test's own: `start_redis(save="1 1")` keeps snapshots."""
    numbers = count(1)
    with ExitStack() as ending:

        def start(save: str = "", *, unix: bool = False) -> RunningRedis:
            directory = tmp_path / f"redis-{next(numbers)}"
            socket = directory / "redis.sock" if unix else None
            server = RunningRedis(RedisPlan(directory, free_port(), save, socket))
            ending.callback(server.kill)
            return server

        yield start


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """A factory of real gateways: `start_gateway(config_text, "--workers", "2")`.

    The ports are free ones and override the configuration. Returns when /ready answers 200,
    unless `wait=False`.
    """
    numbers = count(1)
    with ExitStack() as ending:

        def start(
            config_text: str,
            *args: str,
            environment: Mapping[str, str] | None = None,
            wait: bool = True,
            python: str = sys.executable,
        ) -> Gateway:
            directory = tmp_path / f"gateway-{next(numbers)}"
            gateway = Gateway(directory, config_text, args, environment or {}, python)
            ending.callback(gateway.kill)
            if wait:
                gateway.wait()
            return gateway

        yield start


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """URLs of an own PostgreSQL server and of an SQLite file."""
    file = tmp_path_factory.mktemp("sqlite") / "effects.db"
    with running_postgres() as url:
        yield {"postgresql": url, "sqlite": f"sqlite+aiosqlite:///{file}"}


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    """Restores the root logger: a test that configures the log of a process affects no other."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
