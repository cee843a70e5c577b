"""Redis fails over by Sentinel, to a replica that may be behind: no change is dropped for it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.redis.sentinel import sentinels_of
from support.clients.http_client import exchange, post
from support.kafka.kafka_log import read_log
from support.process.redis_sentinels import watched_redis
from support.process.stack import Gateway, RunningBroker, eventually

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
quarantine_ms = 2000
timeout_ms = 500
[topics.{topic}]
key = ["/id"]
kind = "state"
suppress = "raw"
"""


def test_a_url_names_sentinels_service_and_database() -> None:
    url = "rediss+sentinel://u:p%40@one,two:123/main/2?ssl_ca_certs=/ca.pem&sentinel_password=s"
    found, login = sentinels_of(url)
    assert found.hosts == [("one", 26_379), ("two", 123)]
    assert login == {"password": "s"}
    expected = "rediss://u:p%40@[::1]:6379/2?ssl_ca_certs=%2Fca.pem"
    assert found.master("::1", 6379) == expected


@pytest.mark.parametrize("url", ["redis+sentinel://one", "redis+sentinel:///main"])
def test_a_url_without_hosts_or_service_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="HOST"):
        sentinels_of(url)


@pytest.mark.kafka
@pytest.mark.redis
async def test_a_failover_drops_no_change_and_suppression_comes_back(
    kafka: RunningBroker,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    kafka.create_topic(topic_name, 3)
    with watched_redis(tmp_path / "redis") as redis:
        await eventually(redis.knows_all, 30, 0.2)
        text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
        gateway = start_gateway(text)
        writer = Writer(gateway, topic_name)
        await eventually(lambda: writer.until("unchanged"), 30, 0.1)
        former = redis.master
        former.kill()
        for _ in range(60):  # through the outage, the election and the quarantine
            await writer.send()
            await asyncio.sleep(0.1)
        assert redis.master is not former
        await eventually(lambda: writer.until("unchanged"), 30, 0.1)
        pauses = await asyncio.to_thread(
            exchange, gateway.management_port, "GET", "/v1/pauses/readers"
        )
        assert pauses.status == 200, pauses.body  # asks the new master, too
        for _ in range(50):
            await writer.send()
    log = await asyncio.to_thread(read_log, kafka.bootstrap, topic_name)
    assert [json.loads(one.value or b"")["v"] for one in log] == writer.published
    assert "unchanged" in writer.outcomes[-50:]


class Writer:
    """One key's events, one after another: each repeats the last content, or brings another."""

    def __init__(self, gateway: Gateway, topic: str) -> None:
        self._gateway, self._topic = gateway, topic
        self._random = random.Random(1)
        self._content = 0
        self.published: list[int] = []
        self.outcomes: list[str] = []

    async def send(self, *, again: bool | None = None) -> str:
        again = self._random.random() < 0.5 if again is None else again
        if not again:  # sometimes a content that Redis may remember of an earlier time
            self._content = self._random.randrange(3)
        body = json.dumps({"id": 1, "v": self._content}).encode()
        answer = await asyncio.to_thread(post, self._gateway.port, self._topic, body)
        outcome = str(answer.document["outcome"])
        if outcome == "unchanged":
            assert self.published[-1] == self._content, "a change was dropped"
        else:
            assert outcome == "published", answer.body
            self.published.append(self._content)
        self.outcomes.append(outcome)
        return outcome

    async def until(self, outcome: str) -> bool:
        return await self.send(again=bool(self.published)) == outcome
