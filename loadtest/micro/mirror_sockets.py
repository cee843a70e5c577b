"""Connections, rate and processor time of one task of the mirror, beside those of another version.

    python loadtest/micro/mirror_sockets.py [--beside CHECKOUT] [--records N] [--rounds N]
        [--delay MS]

Two brokers of its own. Each round copies a topic in a fresh process, for each version in turn:

- `7 partitions`: seven partitions of 648-byte records, up to their end
- `1 partition`: one of them
- `1 of 7`: seven partitions are followed, and one has records
- `7 idle`: seven partitions without news are followed for 10 s, with a commit each second

Prints Markdown: medians of the rounds, with the range of the rates. Connections are the most that
the process had to the source at a time. `--delay` adds a time to each request of the process, as a
distant cluster does.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from aiokafka.client import AIOKafkaClient

from headgate.replays.offset_map import Layout, MapAddress
from headgate_spark.copying.reader import CopyOptions, CopyUnit
from headgate_spark.job.options import Connection
from headgate_spark.mirror.copier import copy_all

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, IDLE_S = 7, 10.0
SHAPES = ("7 partitions", "1 partition", "1 of 7", "7 idle")


class Round(NamedTuple):
    """One copy. rate: records a second.  us: of processor time a record; of 7 idle: ms a second."""

    sockets: int
    rate: float
    us: float


def sockets(bootstrap: str) -> int:
    """Connections of this process to a broker."""
    port = int(bootstrap.rpartition(":")[2])
    return sum(
        bool(socket.raddr) and socket.raddr.port == port
        for socket in psutil.Process().net_connections()
    )


def delay_requests(delay_s: float) -> None:
    """Have each request of this process take longer."""
    send = AIOKafkaClient.send

    async def send_later(*arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(delay_s)
        return await send(*arguments, **options)

    AIOKafkaClient.send = send_later


async def copy(task: dict[str, Any]) -> Round:
    """Copy in this process. task: as `run` describes it."""
    follows, records = task["follows"], task["records"]
    layout = Layout(task["partitions"], task["source_id"], task["layout_id"], 0)
    units = [
        CopyUnit(
            MapAddress(task["topic"], partition, task["layout"]), layout,
            None if follows else records,
        )
        for partition in range(task["partitions"])
    ]  # fmt: skip
    options = CopyOptions(
        Connection(task["source"], name="main"), Connection(task["target"], name="backfill"),
        interval_s=1.0,
    )  # fmt: skip
    if task["delay_s"]:
        delay_requests(task["delay_s"])
    total = records * (1 if follows else task["partitions"])
    most, begun_s, used_s = 0, time.perf_counter(), time.process_time()
    copying = asyncio.create_task(copy_all(units, options))
    if follows and not records:
        await asyncio.sleep(2.0)
        begun_s, used_s = time.perf_counter(), time.process_time()
    while not copying.done():
        most = max(most, sockets(task["source"]))
        await asyncio.wait([copying], timeout=0.25)
        elapsed_s = time.perf_counter() - begun_s
        is_over = await mirrored(task, total) if records else elapsed_s >= IDLE_S
        if follows and is_over:
            copying.cancel()
            await asyncio.wait([copying])
    used_s, elapsed_s = time.process_time() - used_s, time.perf_counter() - begun_s
    if not follows:
        wrong = [unit for unit in copying.result() if unit.trouble is not None]
        assert not wrong, wrong
    return Round(most, total / elapsed_s, used_s * (1e6 / total if total else 1e3 / elapsed_s))


_COMMITTED: list[int] = []


async def mirrored(task: dict[str, Any], total: int) -> bool:
    """Return whether all records of a topic that is followed have been committed."""
    return task["follows"] and sum(_COMMITTED) >= total


def count_commits() -> None:
    """Note the records of each chunk that is committed."""
    from headgate_spark.mirror import copier

    write = copier.Copier._write

    async def write_and_count(self: Any, writer: Any, chunk: Any, *rest: Any) -> None:
        await write(self, writer, chunk, *rest)
        _COMMITTED.append(len(chunk.records))

    copier.Copier._write = write_and_count  # type: ignore[method-assign]


def in_version(checkout: Path, task: dict[str, Any]) -> Round:
    """Copy in a process of a version's own."""
    path = os.pathsep.join(str(checkout / folder) for folder in ("gateway", "spark"))
    done = subprocess.run(
        [sys.executable, __file__, "--task", json.dumps(task)],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True, text=True,
        timeout=600,
    )  # fmt: skip
    return Round(*json.loads(done.stdout.splitlines()[-1]))


def run(
    source: str, target: str, records: int, rounds: int, delay_s: float, versions: Sequence[Path]
) -> None:
    """Measure all shapes in turns and print Markdown."""
    from mirror import create, fill, id_of, recreate

    from headgate_spark.copying.cluster import cluster_admin
    from headgate_spark.mirror.plan import prepare_map

    at = Connection(source, name="main"), Connection(target, name="backfill")

    async def prepare() -> dict[str, str]:
        async with cluster_admin(at[1]) as admin:
            await prepare_map(admin)
        await create(source, ["seven", "one-of-seven", "idle"], PARTITIONS)
        await create(source, ["one"])
        for partition in range(PARTITIONS):
            await fill(source, "seven", partition, records)
        await fill(source, "one", 0, records)
        await fill(source, "one-of-seven", 3, records)
        topics = ("seven", "one", "one-of-seven", "idle")
        return {topic: await id_of(at[0], topic) for topic in topics}

    ids = asyncio.run(prepare())
    results: dict[tuple[str, Path], list[Round]] = {}
    layout = 0
    for number in range(rounds):
        for shape, topic in zip(SHAPES, ids, strict=True):
            partitions = 1 if topic == "one" else PARTITIONS
            for version in versions if number % 2 else versions[::-1]:
                layout += 1
                asyncio.run(recreate(at[1], topic, partitions))
                task = {
                    "topic": topic, "partitions": partitions, "source_id": ids[topic],
                    "layout": layout, "layout_id": f"round-{layout}", "source": source,
                    "target": target, "records": 0 if topic == "idle" else records,
                    "follows": topic in ("one-of-seven", "idle"), "delay_s": delay_s,
                }  # fmt: skip
                measured = in_version(version, task)
                sys.stderr.write(f"{number} {shape} {version.name}: {measured}\n")
                results.setdefault((shape, version), []).append(measured)
    sys.stdout.write(
        f"load average {os.getloadavg()[0]:.0f}, {records} records a partition, "
        f"{delay_s * 1000:.0f} ms more a request\n\n"
        "| shape | version | connections to the source | records/s | us of processor a record |\n"
        "|---|---|---:|---:|---:|\n"
    )
    for (shape, version), copies in results.items():
        rates = sorted(one.rate for one in copies)
        us = sorted(one.us for one in copies)
        sys.stdout.write(
            f"| {shape} | {version.name} | {max(one.sockets for one in copies)} "
            f"| {statistics.median(rates):,.0f} ({rates[0]:,.0f}..{rates[-1]:,.0f}) "
            f"| {statistics.median(us):.1f} ({us[0]:.1f}..{us[-1]:.1f}) |\n"
        )


def main() -> None:
    """Start two brokers, measure, end them."""
    from headgate.devstack.ports import free_port
    from headgate.devstack.servers import prepare_kafka, single_node, start_node, wait_for_node

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="CHECKOUT", type=Path, help="another version")
    parser.add_argument("--records", type=int, default=40_000, help="of each partition")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="of each request")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.task is not None:
        count_commits()
        sys.stdout.write(json.dumps(asyncio.run(copy(json.loads(chosen.task)))))
        return
    versions = [ROOT] if chosen.beside is None else [chosen.beside.resolve(), ROOT]
    installation = prepare_kafka(os.environ, say=lambda line: None)
    with tempfile.TemporaryDirectory(prefix="headgate-mirror-") as folder:
        plans = [single_node(Path(folder) / name, free_port()) for name in ("ingest", "backfill")]
        nodes = [start_node(installation, plan) for plan in plans]
        try:
            for node, plan in zip(nodes, plans, strict=True):
                wait_for_node(node, plan)
            ends = plans[0].bootstrap, plans[1].bootstrap
            run(*ends, chosen.records, chosen.rounds, chosen.delay / 1000, versions)
        finally:
            for node in nodes:
                node.kill()


if __name__ == "__main__":
    main()
