"""An hour of mixed traffic with a fault every five minutes: nothing grows.

SOAK_S: for how long. The figures and the picture are written to build/soak.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from chaos.cluster.gateways import PLAIN, SPOOLING, STATES
from chaos.cluster.soak import Sample, picture, sample, series, trend
from chaos.cluster.stand import Stand, stand
from headgate.devstack.servers import KafkaInstallation
from support.process.stack import Gateway, RunningRedis
from support.root import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(3 * 3600)]
LENGTH_S = float(os.environ.get("SOAK_S", "3600"))
EVERY_S, SAMPLE_S = LENGTH_S / 12, LENGTH_S / 360
# Nothing whose death begins the figures anew: what those leave behind is seen in the rounds.
FAULTS = (
    "a broker is killed",
    "the network stands still",
    "two brokers are killed",
    "the network is cut",
    "all brokers restart, one by one",
    "a worker stands still",
    "the network is half open",
    "two brokers stand still",
    "the network is slow",
    "replicas and leaders move",
    "a gateway reloads",
)
# What an hour may add, beyond the noise of the figure itself: (share of its mean, at least).
ROOM = {
    "RSS, MiB": (0.1, 10.0),
    "file descriptors": (0.1, 5.0),
    "tasks": (0.2, 10.0),
    "memory, MiB": (0.1, 1.0),
}
MOST_LINES_S = 2.0  # log lines of a gateway for each second, over the whole time


class Bulk:
    """Batches of 50 under Idempotency-Keys, half of them of contents that change rarely."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._numbers = count()
        self.outcomes: Counter[str] = Counter()

    async def run(self, until: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=40)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while not until.is_set():
                number = next(self._numbers)
                await self._post(session, number)
                await asyncio.sleep(0.2)

    async def _post(self, session: aiohttp.ClientSession, number: int) -> None:
        topic = STATES if number % 2 else PLAIN
        events = [
            {"id": f"bulk-{(number * 50 + one) % 2000}", "content": f"{number // 400}-{topic}"}
            for one in range(50)
        ]
        body = b"\n".join(json.dumps(one).encode() for one in events)
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f'"bulk-{number}"'}
        url = f"{self._urls[number // 2 % 2]}/v1/topics/{topic}/events"
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            self.outcomes["None"] += 50
            return
        for one in told.get("outcomes") or [told] * 50:
            self.outcomes[str(one.get("reason") or one.get("outcome"))] += 1


@pytest.mark.full
async def test_an_hour_leaves_nothing_behind(
    kafka_installation: KafkaInstallation,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
    seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    async with stand(
        kafka_installation, start_redis, start_gateway, tmp_path, seed, pause_s=0.4
    ) as it:
        bulk = Bulk([one.url for one in it.gateways.all[:SPOOLING]])
        samples, faults = await run(it, bulk)
        await it.until_calm()
        folder = ROOT / "build" / "soak"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.svg").write_text(picture(samples, faults))
        (folder / "samples.json").write_text(json.dumps(samples))
        texts = said(it.gateways.all)
        (folder / "log.txt").write_text("".join(f"{n:6} {one}\n" for one, n in texts.items()))
        trends = {
            name: trend(points)._asdict()
            for name, points in series(samples, since=LENGTH_S / 4).items()
        }
        figures = {
            "seed": seed,
            "answers": dict(Counter(str(one.outcome) for one in it.traffic.all)),
            "bulk": dict(bulk.outcomes),
            "trends": trends,
        }
        (folder / "figures.json").write_text(json.dumps(figures, indent=1))
        record_property("soak", json.dumps(figures))
        wrong = await it.wrong(bulk=True)
        assert not wrong, "\n".join(wrong[:20])
        assert growths(samples) == []
        assert bulk.outcomes["published"] > 1000 * LENGTH_S / 3600, bulk.outcomes


async def run(it: Stand, bulk: Bulk) -> tuple[list[Sample], list[tuple[float, str]]]:
    """Let it run for its length; what was sampled, and which fault began when."""
    samples: list[Sample] = []
    faults: list[tuple[float, str]] = []
    began = time.monotonic()

    async def watch(until: asyncio.Event) -> None:
        while not until.is_set():
            at = time.monotonic() - began
            samples.append(await asyncio.to_thread(sample, at, it.gateways.all, it.redis.master))
            await asyncio.sleep(SAMPLE_S)

    async def happens() -> None:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(stop))
            group.create_task(bulk.run(stop))
            try:
                for number, name in enumerate(FAULTS):
                    await asyncio.sleep(EVERY_S)
                    faults.append((time.monotonic() - began, name))
                    await it.faults.one(name, number)
                await asyncio.sleep(max(0.0, began + LENGTH_S - time.monotonic()))
            finally:
                stop.set()

    await it.load(LENGTH_S, happens)
    return samples, faults


def growths(samples: list[Sample]) -> list[str]:
    """Which series grew: from the first quarter on, the caches are full."""
    found = []
    for name, points in series(samples, since=LENGTH_S / 4).items():
        kind, _, _ = name.rpartition(" of ")
        line = trend(points)
        if kind == "log lines":
            if line.slope / 3600 > MOST_LINES_S:
                found.append(f"{name}: {line.slope / 3600:.2f} in a second")
            continue
        share, least = ROOM[kind]
        if line.slope * LENGTH_S / 3600 > max(share * line.mean, least, 2 * line.noise):
            found.append(f"{name}: {line}")
    return found


def said(gateways: list[Gateway]) -> Counter[str]:
    """What their logs have above INFO, with numbers left out."""
    texts: Counter[str] = Counter()
    for gateway in gateways:
        for line in gateway.log().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                texts[line[:160]] += 1
                continue
            if entry["level"] != "INFO":
                text = re.sub(r"\d+", "N", f"{entry['level']} {entry['logger']}: {entry['text']}")
                texts[text[:200]] += 1 + entry.get("repeated", 0)
    return Counter(dict(texts.most_common()))
