"""Records and offsets that one version wrote, read by the consumer library of the other."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients.http_client import post
from support.gateway.oversize_world import LIMIT, document
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker
from support.upgrades import reader_program
from support.upgrades.former import Step, Version

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[blobs]
url = "{blobs}"
[topics."{topic}"]
key = ["/id"]
oversize = ["{oversize}"]
"""
EVENTS = 12


@pytest.mark.parametrize(
    ("step", "oversize"),
    [
        ("upgrade", "chunk"),
        pytest.param("rollback", "claim-check", marks=pytest.mark.full),
        pytest.param("upgrade", "claim-check", marks=pytest.mark.full),
        pytest.param("rollback", "chunk", marks=pytest.mark.full),
    ],
    indirect=["step"],
)
def test_the_library_reads_what_the_other_version_wrote_and_goes_on_at_its_offsets(
    step: Step,
    oversize: str,
    kafka: RunningBroker,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Each event once: offsets are in the database of the effects, and in the group."""
    blobs, database = f"file://{tmp_path}/blobs", f"{tmp_path}/effects.db"
    kafka.create_topic(topic_name, 1, {"max.message.bytes": str(LIMIT)})
    text = CONFIG.format(
        bootstrap=kafka.bootstrap, topic=topic_name, blobs=blobs, oversize=oversize
    )
    gateway = start_gateway(text, environment=step.before.environment)
    bodies = [_body(number) for number in range(EVENTS)]
    for body in bodies:
        assert post(gateway.port, topic_name, body).status == 201
    read(step.before, kafka.bootstrap, topic_name, database, blobs, "5", "killed")
    assert len(effects(database)) == 5
    read(step.after, kafka.bootstrap, topic_name, database, blobs, f"{EVENTS - 5}", "stopped")
    assert effects(database) == [hashlib.sha256(body).hexdigest() for body in bodies]
    ends = kafka_log.end_offsets(kafka.bootstrap, topic_name)
    assert kafka_log.group_offsets(kafka.bootstrap, topic_name, topic_name) == ends


def _body(number: int) -> bytes:
    """Every third is too large for one record."""
    if number % 3 == 2:
        return document(f"k{number % 2}", 3 * LIMIT, seed=number)
    return json.dumps({"id": f"k{number % 2}", "n": number}).encode()


def read(version: Version, bootstrap: str, topic: str, database: str, *words: str) -> None:
    """A consumer of that version. words: of `reader_program`, from BLOBS on."""
    command = [sys.executable, reader_program.__file__, bootstrap, topic, topic]
    command += [f"sqlite+aiosqlite:///{database}", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **version.environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def effects(database: str) -> list[str]:
    """Digests of the values, in the order of the effects."""
    connection = sqlite3.connect(database)
    try:
        return [one for (one,) in connection.execute("SELECT sha256 FROM effects ORDER BY id")]
    finally:
        connection.close()
