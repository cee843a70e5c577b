"""Three Redis servers, one of them behind Sentinel: all that asks Redis works, and stays right when
one is lost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.clients.http_client import JSON, Answer, exchange, post
from support.gateway.coalescing_gateway import run_init
from support.kafka.kafka_log import read_log
from support.process.redis_sentinels import Watched, watched_redis
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 10000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[redis]
urls = [{urls}]
timeout_ms = 500
quarantine_ms = 1000
[coalescer]
session_timeout_ms = 6000
[spool]
path = "{folder}"
[topics.states]
key = ["/id"]
kind = "state"
suppress = "raw"
dedupe_ttl_s = 600
[topics.held]
key = ["/id"]
kind = "state"
suppress = "raw"
coalesce_quiet_ms = 300
coalesce_max_delay_ms = 1000
coalesce_partitions = 4
[topics.spooled]
key = ["/id"]
kind = "state"
suppress = "raw"
spool = true
spool_after_ms = 300
"""
KEYS = range(24)  # enough that each server knows some


class Stand(NamedTuple):
    broker: RunningBroker
    redis: list[RunningRedis]
    watched: Watched
    gateway: Gateway

    async def send(
        self, topic: str, key: int, content: str, headers: Mapping[str, str] | None = None
    ) -> str:
        answer = await asyncio.to_thread(
            post, self.gateway.port, topic, body_of(key, content), {**JSON, **(headers or {})}
        )
        return str(answer.document.get("outcome") or answer.document)

    async def outcomes(self, topic: str, content: str) -> list[str]:
        """What one event of each key is answered."""
        return [await self.send(topic, key, content) for key in KEYS]

    async def until(self, topic: str, content: str, expected: str) -> None:
        async def are_so() -> bool:
            return set(await self.outcomes(topic, content)) == {expected}

        await eventually(are_so, 40, 0.1)

    async def log(self, topic: str) -> list[dict[str, Any]]:
        read = await asyncio.to_thread(read_log, self.broker.bootstrap, topic)
        return [json.loads(each.value or b"") for each in read]

    async def ready(self) -> Answer:
        return await asyncio.to_thread(exchange, self.gateway.management_port, "GET", "/ready")


def body_of(key: int, content: str) -> bytes:
    return json.dumps({"id": key, "v": content}).encode()


@pytest.fixture
async def it(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> AsyncIterator[Stand]:
    broker, plain = start_broker(), [start_redis(), start_redis()]
    for topic in ("states", "held", "spooled"):
        broker.create_topic(topic, 3)
    with watched_redis(tmp_path / "watched") as watched:
        await eventually(watched.knows_all, 30, 0.2)
        urls = ", ".join(f'"{url}"' for url in (*(one.url for one in plain), watched.url))
        text = CONFIG.format(bootstrap=broker.bootstrap, urls=urls, folder=tmp_path / "spool")
        file = tmp_path / "init.toml"
        file.write_text(text)
        done = run_init(file)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Stand(broker, plain, watched, start_gateway(text))


async def test_suppression_goes_on_for_the_keys_of_the_others(it: Stand) -> None:
    await it.until("states", "a", "unchanged")
    it.redis[0].kill()
    published = await it.outcomes("states", "a")
    assert set(published) == {"published", "unchanged"}, "its keys, and those of the others"
    ready = json.loads((await it.ready()).body)
    name = f"redis {it.redis[0].url.removeprefix('redis://')}"
    assert name.split("?")[0] in json.dumps(ready)
    await asyncio.to_thread(it.redis[0].restart)
    await it.until("states", "a", "unchanged")
    former = it.watched.master
    former.kill()
    assert "published" in await it.outcomes("states", "b")
    await eventually(lambda: it.watched.master is not former, 30, 0.2)
    await it.until("states", "b", "unchanged")
    values = [each["v"] for each in await it.log("states") if each["id"] == 0]
    assert values == sorted(values)


async def test_idempotency_keys_and_event_ids_are_known(it: Stand) -> None:
    for number in KEYS:
        headers = {"Headgate-Event-Id": f"id-{number}"}
        assert await it.send("states", number, "x", headers) == "published"
        assert await it.send("states", number, "y") == "published"
        assert await it.send("states", number, "x", headers) == "duplicate"
        once = {"Idempotency-Key": f'"key-{number}"'}
        first = await asyncio.to_thread(
            post, it.gateway.port, "states", body_of(100 + number, "z"), {**JSON, **once}
        )
        again = await asyncio.to_thread(
            post, it.gateway.port, "states", body_of(100 + number, "z"), {**JSON, **once}
        )
        assert again.document["outcome"] == "duplicate"
        assert again.document["offset"] == first.document["offset"]
    assert len(await it.log("states")) == 3 * len(KEYS)


async def test_held_events_are_compared(it: Stand) -> None:
    await it.until("states", "a", "unchanged")  # the servers are trusted
    assert set(await it.outcomes("held", "a")) == {"held"}
    await eventually(lambda: is_logged(it, "held", len(KEYS)), 30, 0.2)
    await it.outcomes("held", "a")
    await eventually(lambda: holds_nothing(it), 30, 0.2)  # equal to the last: not published
    await it.outcomes("held", "b")

    async def has_all() -> bool:
        return sum(each["v"] == "b" for each in await it.log("held")) == len(KEYS)

    await eventually(has_all, 30, 0.2)
    assert sum(each["v"] == "a" for each in await it.log("held")) == len(KEYS)


async def holds_nothing(it: Stand) -> bool:
    port = it.gateway.management_port
    text = (await asyncio.to_thread(exchange, port, "GET", "/metrics")).body.decode()
    return re.findall(r'^headgate_held_keys{topic="held".*} (\S+)$', text, re.MULTILINE) == ["0.0"]


async def is_logged(it: Stand, topic: str, count: int) -> bool:
    return len(await it.log(topic)) >= count


async def test_what_was_spooled_is_suppressed_again_when_it_is_written(it: Stand) -> None:
    await it.until("spooled", "a", "unchanged")
    before = len(await it.log("spooled"))
    it.broker.kill()
    assert set(await it.outcomes("spooled", "b")) == {"spooled"}
    await asyncio.to_thread(it.broker.restart)
    await eventually(lambda: is_logged(it, "spooled", before + len(KEYS)), 60, 0.5)
    await it.until("spooled", "b", "unchanged")
    values = [each["v"] for each in await it.log("spooled") if each["id"] == 7]
    assert values == sorted(values)
