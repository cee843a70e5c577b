"""Gateway and broker are killed at random while producers go on: nothing answered is lost.

Writers send one event of a key after another and keep what they were told. At the end an
independent client reads the log.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest

from support.clients.http_client import ClosedError, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(1200)]

CONFIG = """
[http]
request_timeout_ms = 8000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
delivery_timeout_ms = 8000
[redis]
url = "{redis}"
quarantine_ms = 500
[spool]
path = "{folder}"
drain_events_per_s = 500
[topics.deals]
key = ["/id"]
kind = "state"
suppress = "raw"
spool = true
spool_after_ms = 300
"""
WRITERS = 6
NOTHING = "lost"  # no answer came


class Told(NamedTuple):
    """One event. began, ended: monotonic seconds."""

    key: int
    number: int
    content: int
    outcome: str
    began: float
    ended: float


class Writer(threading.Thread):
    """One key's events, one after another; every third has the content of the one before."""

    def __init__(self, port: int, key: int) -> None:
        super().__init__(name=f"writer {key}")
        self.told: list[Told] = []
        self._port, self._key = port, key
        self.ending = threading.Event()

    def run(self) -> None:
        content = 0
        while not self.ending.is_set():
            number = len(self.told)
            content += number % 3 != 2
            began = time.monotonic()
            outcome = self._send({"id": self._key, "v": content})
            self.told.append(Told(self._key, number, content, outcome, began, time.monotonic()))
            self.ending.wait(0.02 if outcome in ("published", "unchanged", "spooled") else 0.1)

    def _send(self, event: dict[str, int]) -> str:
        try:
            answer = post(self._port, "deals", json.dumps(event).encode(), deadline_s=20)
            found = answer.document
        except (OSError, HTTPException, ClosedError, ValueError):
            return NOTHING
        return str(found.get("outcome") or found.get("reason"))


def check(told: list[Told], log: list[LogRecord]) -> Counter[str]:
    contents: dict[int, list[int]] = {}
    for record in log:
        found = json.loads(record.value or b"")
        contents.setdefault(found["id"], []).append(found["v"])
    for key in {one.key for one in told}:
        of_key, written = [one for one in told if one.key == key], contents.get(key, [])
        well = [one for one in of_key if one.outcome in ("published", "spooled")]
        for one in well:
            assert one.content in written, f"{one} is not in the log"
        for one in of_key:
            if one.outcome == "unchanged":  # of an earlier one with the same content
                assert one.content in written, one
        # First records in the order of arrival, and so the last ones: contents only grow. Of those
        # alone that were answered well: what is `unknown` may land late.
        contents_well = sorted({one.content for one in well})
        firsts = [written.index(v) for v in contents_well]
        assert firsts == sorted(firsts), f"key {key}: {written}"
        lasts = [len(written) - 1 - written[::-1].index(v) for v in contents_well]
        assert lasts == sorted(lasts), f"key {key}: {written}"
    return Counter(one.outcome for one in told)


@pytest.mark.parametrize("kills", scaled(2, 60))
async def test_kills_lose_nothing_that_was_answered_and_keep_the_order(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    kills: int,
) -> None:
    broker, redis, rng = start_broker(), start_redis(), random.Random(kills)
    broker.create_topic("deals", 3)
    gateway = start_gateway(
        CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url, folder=tmp_path / "spool")
    )
    await asyncio.sleep(1.5)  # it notes what Kafka says of its topics
    writers = [Writer(gateway.port, key) for key in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(kills):
            await asyncio.sleep(rng.random() * 2)
            await asyncio.to_thread(broker.kill)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(rng.random() * 1.5)
                await asyncio.to_thread(gateway.kill)
                await asyncio.to_thread(gateway.restart)
            await asyncio.sleep(rng.random() * 1.5)
            await asyncio.to_thread(broker.restart)
            if rng.random() < 0.5:  # while it drains
                await asyncio.sleep(rng.random())
                await asyncio.to_thread(gateway.kill)
                await asyncio.to_thread(gateway.restart)
    finally:
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            await asyncio.to_thread(writer.join)
    await eventually(lambda: _is_empty(gateway), 60, 0.2)
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    counts = check([one for writer in writers for one in writer.told], log)
    record_property("spool", {"kills": kills, "outcomes": dict(counts), "records": len(log)})
    assert counts["spooled"] > 10, counts
    assert counts["published"] > 10, counts


def _is_empty(gateway: Gateway) -> bool:
    found = exchange(gateway.management_port, "GET", "/v1/spool").document
    state = found["state"]  # None: the worker has not told yet
    return state is not None and state["detail"] == "empty" and not found["events"]
