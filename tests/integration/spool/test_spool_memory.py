"""A large backlog of small events in memory: chunks at a time, however many lie there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headgate.model.publish import Record
from headgate.spool.database import Append
from headgate.spool.journal import Journal
from support.clients.http_client import exchange
from support.process.stack import Gateway, RunningBroker
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[spool]
path = "{folder}"
drain_events_per_s = 1000000
[topics.deals]
key = ["/id"]
spool = true
"""
COMMAND = """
import resource, sys
from headgate.cli import main
code = main(["spool", *sys.argv[1:]])
sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))
sys.exit(code)
"""
SPARE_MB = 40


def fill(folder: Path, events: int, of_chunk: int) -> None:
    journal, at_ms = Journal(folder), int(time.time() * 1000)
    number = 0
    while number < events:
        appends = []
        for _ in range(200 if of_chunk == 1 else 1):
            records = [
                Record(
                    "deals", place % 3, b"%d" % place, b'{"id":%d}' % place, [("a", b"b")], at_ms
                )
                for place in range(number, number + of_chunk)
            ]
            appends.append(Append("deals", len(appends) % 3, 3, at_ms, records))
            number += of_chunk
        journal.commit(appends, [])
    journal.close()


def memory_mb(gateway: Gateway) -> float:
    """Of the largest of its processes."""
    return max(psutil.Process(pid).memory_info().rss for pid in gateway.pids) / 2**20


def command_mb(*arguments: str) -> int:
    found = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=600,
        check=True,
    )
    return int(found.stderr)


@pytest.mark.parametrize("of_chunk", [1, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.parametrize("events", scaled(20_000, 500_000))
async def test_a_large_backlog_is_held_on_disk_and_not_in_memory(
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    events: int,
    of_chunk: int,
) -> None:
    broker = start_broker()
    broker.create_topic("deals", 3)
    broker.kill()
    figures: dict[str, float] = {}
    for name, count in (("empty", 0), ("full", events)):
        folder = tmp_path / name
        await asyncio.to_thread(fill, folder, count, of_chunk)
        figures[f"list {name}"] = await asyncio.to_thread(command_mb, "list", str(folder))
        figures[f"export {name}"] = await asyncio.to_thread(command_mb, "export", str(folder))
    began_s = time.monotonic()
    gateways = {
        name: start_gateway(CONFIG.format(bootstrap=broker.bootstrap, folder=tmp_path / name))
        for name in ("empty", "full")
    }
    figures["start s"] = round(time.monotonic() - began_s, 1)
    for name, gateway in gateways.items():
        for _ in range(20):
            page = exchange(gateway.management_port, "GET", "/v1/spool").document
            await asyncio.sleep(0.05)
        figures[f"start {name}"] = round(memory_mb(gateway))
    assert page["events"] == events
    await asyncio.to_thread(broker.restart)
    began_s = time.monotonic()
    peak = dict.fromkeys(gateways, 0.0)
    while True:
        for name, gateway in gateways.items():
            peak[name] = max(peak[name], memory_mb(gateway))
        left = exchange(gateways["full"].management_port, "GET", "/v1/spool").document["events"]
        if not left or time.monotonic() - began_s > 600:
            break
        await asyncio.sleep(0.1)
    figures["drain s"] = round(time.monotonic() - began_s, 1)
    figures |= {f"drain {name}": round(mb) for name, mb in peak.items()}
    record_property("spool memory", {"events": events, "of a chunk": of_chunk, **figures})
    assert not left
    for what in ("list", "export", "start", "drain"):
        assert figures[f"{what} full"] < figures[f"{what} empty"] + SPARE_MB, figures
