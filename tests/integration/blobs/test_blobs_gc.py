"""`headgate blobs gc` on real Kafka: what goes, what stays, and that nothing published loses."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headgate.consumer.claims import ClaimChecks
from headgate.devstack.child import Child
from headgate.model.oversize import blob_name
from support.gateway.oversize_world import configuration, document, post, records, stored_files
from support.kafka.kafka_log import delete_records
from support.process import blob_gc_process
from support.process.stack import RunningBroker, eventually, stands_still

pytestmark = pytest.mark.kafka

DAYS_S = 86_400.0


def config_file(broker: RunningBroker, topic: str, root: Path, backfill: str = "") -> Path:
    """A configuration with one topic; backfill: the address of the second tier."""
    more = f'[clusters.back]\nbootstrap_servers = "{backfill}"\ntier = "backfill"\n'
    text = configuration(
        broker,
        f'[topics.{topic}]\nkey = "/id"\noversize = ["claim-check"]\nmax_bytes = 1000\n'
        f'[blobs]\nurl = "file://{root}"\n' + (more if backfill else ""),
        'backfill = "back"' if backfill else "",
    )
    file = root.parent / "headgate.toml"
    file.write_text(text)
    return file


def collect(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate", "blobs", "gc", "--config", str(config), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def make_old(paths: list[Path], days: float = 2) -> None:
    then = time.time() - days * DAYS_S
    for path in paths:
        os.utime(path, (then, then))


async def test_only_old_blobs_without_a_record_are_removed(
    kafka, start_gateway, topic_name, tmp_path
):
    kafka.create_topic(topic_name, 3)
    root = tmp_path / "blobs"
    config = config_file(kafka, topic_name, root)
    gateway = start_gateway(config.read_text())
    for number in range(6):
        assert post(gateway.url, topic_name, document(f"gone-{number}", 2000, number)).status == 201
    delete_records(kafka.bootstrap, topic_name)
    expired = stored_files(root)
    assert len(expired) == 6
    kept = [document(f"kept-{number}", 3000, number) for number in range(6)]
    for body in kept:
        assert post(gateway.url, topic_name, body).status == 201
    make_old(stored_files(root))
    make_old(expired[:1], days=0.1)  # young, though nobody refers to it
    foreign = root / blob_name("never-heard-of", "0" * 64).path
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"x")
    unfinished = root / ".pending" / "left-behind"
    unfinished.write_bytes(b"x")
    make_old([foreign, unfinished])

    before = stored_files(root)
    dry = collect(config, "--dry-run")
    assert dry.returncode == 0, dry
    assert "5 would be removed" in dry.stdout
    assert stored_files(root) == before
    done = collect(config)
    assert done.returncode == 0, done
    assert f"read    {topic_name} on main: 6 records" in done.stdout
    assert "kept    6 referred to, 1 too young" in done.stdout
    assert "kept    never-heard-of: no such topic" in done.stdout
    assert "done    5 removed" in done.stdout
    assert "1 unfinished" in done.stdout
    assert stored_files(root) == sorted({*before} - {*expired[1:]})
    claims = ClaimChecks(f"file://{root}")
    found = [await claims.value(record) for record in records(kafka, topic_name)]
    assert sorted(found) == sorted(kept)

    hasty = collect(config, "--older-than", "1")
    assert (hasty.returncode, "12 hours or more" in hasty.stderr) == (2, True)


def test_the_second_tier_counts_and_what_cannot_be_read_stops_it(
    kafka, start_broker, topic_name, tmp_path
):
    """A mirrored record refers to its blob as long as the second tier keeps it."""
    kafka.create_topic(topic_name, 3)
    second = start_broker()
    second.create_topic(topic_name)
    root = tmp_path / "blobs"
    config = config_file(kafka, topic_name, root, second.bootstrap)
    names = [blob_name(topic_name, digit * 64) for digit in "12"]
    for name in names:
        path = root / name.path
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    make_old(stored_files(root))
    producer = Producer({"bootstrap.servers": second.bootstrap})
    old_root = f"file:///elsewhere/{names[0].path}"  # the store has moved since
    producer.produce(topic_name, b"", headers=[("ce_dataref", old_root)])
    assert producer.flush(30) == 0
    second.pause()
    try:
        refused = collect(config)
    finally:
        second.resume()
    assert refused.returncode == 1, refused
    assert "nothing was removed" in refused.stdout
    assert len(stored_files(root)) == 2
    done = collect(config)
    assert "done    1 removed" in done.stdout, done
    assert stored_files(root) == [root / names[0].path]


async def test_a_publish_that_races_with_it_keeps_its_blob(
    kafka, start_gateway, topic_name, tmp_path
):
    """Old blobs that nobody refers to are published again once the topic has been read, while they
    are being removed: some when a third is gone, the others beside the rest of the removal."""
    kafka.create_topic(topic_name, 3)
    root = tmp_path / "blobs"
    config = config_file(kafka, topic_name, root)
    gateway = start_gateway(config.read_text())
    bodies = [document(f"k{number}", 1500, number) for number in range(1500)]
    for body in bodies:
        path = root / blob_name(topic_name, hashlib.sha256(body).hexdigest()).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    make_old(stored_files(root))
    in_order = sorted(bodies, key=lambda body: hashlib.sha256(body).digest())  # as it removes them
    command = [sys.executable, blob_gc_process.__file__, str(config), "500"]
    published = [0] * 4

    def publish(number: int) -> None:
        """From the end towards the removal."""
        for body in in_order[len(in_order) - 1 - number :: -7]:
            if collecting.exit_code is not None:
                return
            assert post(gateway.url, topic_name, body).status == 201
            published[number] += 1

    collecting = Child("blobs gc", command, tmp_path / "gc.log")
    try:
        await eventually(lambda: stands_still(collecting.pid), 60)
        with ThreadPoolExecutor(4) as pool:
            ended = [pool.submit(publish, number) for number in range(4)]
            await eventually(lambda: min(published) >= 5, 60)
            collecting.signal(signal.SIGCONT)
            await eventually(lambda: collecting.exit_code is not None, 60)
        for one in ended:
            one.result()
    finally:
        collecting.kill()
    said = collecting.log.read_text()
    assert collecting.exit_code == 0, said
    removed = int(said.rsplit("done ", 1)[1].split()[0])
    assert removed >= 500
    claims = ClaimChecks(f"file://{root}")
    found = records(kafka, topic_name)
    print(f"{removed} removed, {len(found)} published meanwhile")  # noqa: T201
    assert len(found) == sum(published)
    assert all([await claims.value(record) for record in found])
