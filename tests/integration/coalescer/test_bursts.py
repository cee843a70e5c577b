"""Bursts from end to end: held until POST /v1/bursts/{id}/commit, whichever gateway gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headgate.model.internal_topics import held_topic
from support.clients.http_client import exchange
from support.gateway.coalescing_gateway import Client, config_text, last_values, run_init
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

MINUTE_MS = 60_000


class Bursts:
    """Two gateways behind one address, and topics whose windows stay open for minutes."""

    def __init__(self, kafka: RunningBroker, gateways: list[Gateway], topic: str) -> None:
        self._kafka = kafka
        self._gateways = gateways
        self.topic = topic
        self.client = Client(gateways, topic)

    def save(self, burst: str, **document: object) -> None:
        status, answer = self.client.post(document, headgate_burst=burst)
        assert (status, answer.get("outcome")) == (202, "held"), answer

    def commit(self, burst: str, query: str = "") -> tuple[int, dict[str, object]]:
        return self.client.ask("POST", f"/v1/bursts/{quote(burst, safe='')}/commit{query}")

    def values(self) -> list[str]:
        return [(one.value or b"").decode() for one in read_log(self._kafka.bootstrap, self.topic)]

    def last(self) -> dict[str, str]:
        return last_values(self._kafka, self.topic)

    def held(self, name: str) -> list[Any]:
        """What the gateways' pages of the topic say; of keys the sum, for each has its own."""
        pages = [
            exchange(one.management_port, "GET", f"/v1/topics/{self.topic}").document
            for one in self._gateways
        ]
        # The parent learns of the topic, and of what its workers hold, within a second or so.
        found = [page.get("held", {}).get(name) or 0 for page in pages]
        return [sum(found)] if name == "keys" else found

    def ended(self, outcome: str) -> int:
        """Events of the topic that ended so, as the gateways' metrics have it."""
        found = 0
        for gateway in self._gateways:
            text = exchange(gateway.management_port, "GET", "/metrics").body.decode()
            for line in text.splitlines():
                if line.startswith("headgate_events_total{") and f'"{outcome}"' in line:
                    found += int(float(line.rpartition(" ")[2]))
        return found


@pytest.fixture
def bursts(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> Iterator[Callable[..., Bursts]]:
    started: list[Bursts] = []

    def start(burst_max_ms: int, gateways: int) -> Bursts:
        kafka.create_topic(topic_name, 3)
        slow = {"coalesce_quiet_ms": 5 * MINUTE_MS, "coalesce_max_delay_ms": 10 * MINUTE_MS}
        text = config_text(kafka, redis_server.url, topic_name)
        lines = [one for one in text.splitlines() if one.partition(" ")[0] not in slow]
        lines += [f"{name} = {value}" for name, value in slow.items()]
        text = "\n".join([*lines, f"coalesce_burst_max_ms = {burst_max_ms}", ""])
        config = tmp_path / "init.toml"
        config.write_text(text)
        assert run_init(config).returncode == 0
        found = Bursts(kafka, [start_gateway(text) for _ in range(gateways)], topic_name)
        started.append(found)
        return found

    yield start
    for one in started:
        one.client.close()


async def test_a_committed_burst_ends_at_once_and_one_without_a_change_writes_nothing(
    bursts: Callable[..., Bursts], kafka: RunningBroker
) -> None:
    world = bursts(10 * MINUTE_MS, 2)
    keys = [f"deal-{number}" for number in range(8)]  # they lie in several partitions
    for step in range(4):
        for key in keys:
            world.save("first run", id=key, step=step)
    assert world.values() == []
    await eventually(lambda: world.held("keys") == [len(keys)], 30, 0.3)
    await eventually(lambda: max(world.held("oldest_s")) > 0, 30, 0.3)
    await eventually(lambda: min(world.held("lag")) == 4 * len(keys), 30, 0.3)
    expected = {"outcome": "committed", "burst": "first run", "topics": [world.topic]}
    assert world.commit("first run") == (200, expected)
    wanted = {key: world.client.held[key][-1] for key in keys}
    await eventually(lambda: world.last() == wanted, 30, 0.3)
    assert len(world.values()) == len(keys)
    await eventually(lambda: world.held("keys") == [0] and max(world.held("lag")) == 0, 30, 0.3)
    # There and back again: no net change, no record, and the figures say so.
    for step in (9, 3):
        for key in keys:
            world.save("second", id=key, step=step)
    assert world.commit("second", f"?topic={world.topic}")[0] == 200
    await eventually(lambda: world.ended("unchanged") == len(keys), 30, 0.3)
    assert len(world.values()) == len(keys)
    await eventually(lambda: world.ended("superseded") == 4 * len(keys), 30, 0.3)
    markers = [one for one in read_log(kafka.bootstrap, held_topic(world.topic)) if not one.key]
    assert {one.header("hg-burst-end") for one in markers} == {b"first run", b"second"}
    assert sorted(one.partition for one in markers) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_a_burst_that_nobody_commits_ends_by_its_limit(
    bursts: Callable[..., Bursts],
) -> None:
    world = bursts(2_000, 1)
    # In one request: three may take longer than the limit.
    saves = [f'{{"id": "deal-1", "step": {step}}}' for step in range(3)]
    path, headers = f"/v1/topics/{world.topic}/events", {"headgate-burst": "forgotten"}
    headers["content-type"] = "application/json"
    status, answer = world.client.ask("POST", path, f"[{', '.join(saves)}]", headers)
    assert (status, answer["summary"]) == (200, {"held": 3}), answer
    await eventually(lambda: world.values() == saves[-1:], 30, 0.3)


async def test_commits_of_invalid_bursts_are_refused(bursts: Callable[..., Bursts]) -> None:
    world = bursts(MINUTE_MS, 1)
    wrong = [
        ("b", "?topic=no-such-topic", 404, "unknown_topic"),
        ("x" * 129, "", 400, "malformed"),
        ("déjà", "", 400, "malformed"),
    ]
    for burst, query, status, reason in wrong:
        found, answer = world.commit(burst, query)
        assert (found, answer["reason"]) == (status, reason), answer
    assert world.client.ask("GET", "/v1/bursts/b/commit")[0] == 405
