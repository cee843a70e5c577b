"""Two ingest clusters, each with its own backfill tier, behind one gateway: four real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headgate.devstack.servers import KafkaInstallation
from headgate.replays.offset_map import MAP_PARTITIONS, MAP_TOPIC
from headgate.replays.registry import REGISTRY_TOPIC
from support.clients import http_client
from support.kafka import kafka_log
from support.process.mirror_job import Job
from support.process.stack import Gateway, RunningBroker, single_node
from support.scenarios.replay_world import Api, ReplayRunner, until

pytestmark = [pytest.mark.kafka, pytest.mark.full, pytest.mark.timeout(600)]

AREAS = ("sales", "stock")
EVENTS = 30


class Pair:
    """One product area's two clusters."""

    def __init__(self, area: str, ingest: RunningBroker, backfill: RunningBroker) -> None:
        self.area, self.ingest, self.backfill = area, ingest, backfill
        self.topic = f"{area}.moved"
        for name, partitions in ((REGISTRY_TOPIC, 1), (MAP_TOPIC, MAP_PARTITIONS)):
            backfill.create_topic(name, partitions, {"cleanup.policy": "compact"})
        ingest.create_topic(self.topic, 2)

    def config(self) -> str:
        return (
            f'[clusters.{self.area}]\nbootstrap_servers = "{self.ingest.bootstrap}"\n'
            f'backfill = "{self.area}-old"\n'
            f'[clusters.{self.area}-old]\nbootstrap_servers = "{self.backfill.bootstrap}"\n'
            'tier = "backfill"\n'
            f'[topics."{self.area}.*"]\ncluster = "{self.area}"\nkey = ["/id"]\n'
        )


@pytest.fixture
def areas(kafka_installation: KafkaInstallation, tmp_path: Path) -> Iterator[list[Pair]]:
    with ExitStack() as ending:
        brokers = []
        for number in range(2 * len(AREAS)):
            plan = single_node(tmp_path / f"broker-{number}")
            brokers.append(RunningBroker(kafka_installation, plan))
            ending.callback(brokers[-1].kill)
        for one in brokers:
            one.wait()
        yield [Pair(area, *brokers[2 * at : 2 * at + 2]) for at, area in enumerate(AREAS)]


def placed(broker: RunningBroker, topic: str) -> dict[int, list[Any]]:
    """What an independent client reads, by partition."""
    found: dict[int, list[Any]] = {}
    for one in kafka_log.read_log(broker.bootstrap, topic):
        found.setdefault(one.partition, []).append(one)
    return found


def post_events(gateway: Gateway, pair: Pair, numbers: range) -> None:
    for number in numbers:
        body = b'{"id": "%s-%d"}' % (pair.area.encode(), number)
        answer = http_client.post(gateway.port, pair.topic, body)
        assert answer.status in (200, 201, 202), answer


def check_tiers(api: Api, pair: Pair) -> None:
    """Every offset is translated by this area's own map, and the copy is there."""
    sources, targets = placed(pair.ingest, pair.topic), placed(pair.backfill, pair.topic)
    assert sum(map(len, sources.values())) == sum(map(len, targets.values()))
    asked = {str(one): [each.offset for each in some] for one, some in sources.items()}
    page = {"topic": pair.topic, "to": "backfill", "offsets": asked}
    answer = api.ask("POST", "/v1/offsets/translate", page)
    assert answer.status == 200, answer
    coverage = api.get(f"/v1/coverage/{pair.topic}")
    assert coverage["backfill"] == f"{pair.area}-old", coverage
    for one, some in sources.items():
        assert [each.value for each in targets[one]] == [each.value for each in some]
        found = [each["offset"] for each in answer.page["offsets"][str(one)]]
        assert found == [each.offset for each in targets[one]]
        assert coverage["partitions"][str(one)]["target"]["end"] == targets[one][-1].offset + 1


def check_seek(api: Api, pair: Pair) -> str:
    """A replay is answered with this area's servers, and offsets that are right there."""
    made = api.create(pair.topic, deliver={"mode": "seek"})
    assert made.status == 201, made
    result = made.page["result"]
    assert result["bootstrap_servers"] == pair.backfill.bootstrap
    targets = placed(pair.backfill, pair.topic)
    for one, some in targets.items():
        place = result["offsets"][str(one)]
        assert place["start"] == some[0].offset
        assert place["end"] == some[-1].offset + 1
    return str(made.page["id"])


def until_ready(api: Api, replay_id: str) -> Any:
    path = f"/v1/replays/{replay_id}"
    return until(lambda: api.get(path), lambda now: now["state"] == "ready", 150)


def test_areas_keep_to_their_own_clusters(
    areas: list[Pair],
    start_gateway: Callable[..., Gateway],
    start_runner_of: Callable[[Path], ReplayRunner],
    tmp_path: Path,
) -> None:
    config = tmp_path / "several.toml"
    config.write_text("".join(one.config() for one in areas))
    gateway = start_gateway(config.read_text())
    api = Api(gateway)
    for at, pair in enumerate(areas):  # numbers differ, so that maps of the other area are wrong
        post_events(gateway, pair, range(EVENTS * (at + 1)))
    for pair, other in (areas, areas[::-1]):
        assert sum(map(len, placed(pair.ingest, pair.topic).values())) in (EVENTS, 2 * EVENTS)
        assert pair.topic not in kafka_log.topic_names(other.ingest.bootstrap)
    job = Job(tmp_path, "mirror", "--config", str(config))  # both areas, one after the other
    try:
        assert job.wait() == 0, job.text()
    finally:
        job.end()
    for pair, other in (areas, areas[::-1]):
        check_tiers(api, pair)
        assert pair.topic not in kafka_log.topic_names(other.backfill.bootstrap)
    made = [check_seek(api, pair) for pair in areas]
    copies = [api.create(pair.topic).page["id"] for pair in areas]
    start_runner_of(config)  # one process carries out those of both
    for pair, copy in zip(areas, copies, strict=True):
        ready = until_ready(api, copy)
        assert ready["result"]["bootstrap_servers"] == pair.backfill.bootstrap
        copied = placed(pair.backfill, f"replay.{copy}")
        assert {one: len(some) for one, some in copied.items()} == {
            one: len(some) for one, some in placed(pair.ingest, pair.topic).items()
        }
    rows = api.get("/v1/replays")["replays"]
    assert {one["id"] for one in rows} == {*made, *copies}
    assert all(one["created_at"] <= later["created_at"] for one, later in pairwise(rows)), rows


@pytest.fixture
def start_runner_of(tmp_path: Path) -> Iterator[Callable[[Path], ReplayRunner]]:
    with ExitStack() as ending:

        def start(config: Path) -> ReplayRunner:
            runner = ReplayRunner(config, tmp_path / "runner.log")
            ending.callback(runner.kill)
            return runner

        yield start
