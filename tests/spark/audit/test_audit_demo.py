"""`make run`'s traffic and the documented command: what a newcomer's first audit says."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.kafka.kafka_log import LogRecord, read_log
from support.process.mirror_job import QUICK
from support.process.running_dev import Dev
from support.process.stack import eventually
from support.root import ROOT

# Two brokers, two gateways, and Spark for a command that test_audit_kafka.py runs in its session.
pytestmark = [pytest.mark.kafka, pytest.mark.full]
PAGE = ROOT / "docs" / "operate" / "skew-audit.md"
FEW = ("--conf", "spark.sql.shuffle.partitions=2")  # tasks: there is little to count
SAVED = b"deal-3"  # by the sample traffic's deal-admin, 50 times in a row


def documented() -> list[str]:
    """The first command of docs/operate/skew-audit.md."""
    found = re.search(r"```sh\n\.venv/bin/headgate-spark (audit .*)\n```", PAGE.read_text())
    assert found is not None
    return shlex.split(found[1])


def keys_of(log: list[LogRecord]) -> Counter[bytes]:
    return Counter(record.key for record in log if record.key is not None)


def run_in(folder: Path, command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=False)


async def test_an_audit_of_the_sample_traffic(tmp_path: Path) -> None:
    dev = Dev(tmp_path / ".headgate", "--demo")
    try:
        ready = dev.ready()
        ingest = ready["ingest"]
        # two runs of saves at least, and enough records to be judged
        await eventually(lambda: keys_of(read_log(ingest, "deals"))[SAVED] >= 100, 120, 1.0)
        before = {name: read_log(ingest, name) for name in ("deals", "orders")}
        command = [sys.executable, "-m", "headgate_spark", *documented(), *QUICK, *FEW]
        done = await asyncio.to_thread(run_in, tmp_path, command)
        assert done.returncode == 0, done.stderr.decode()
        after = {name: read_log(ingest, name) for name in before}
    finally:
        if dev.process.poll() is None:
            dev.end(signal.SIGTERM)
        dev.force_end()
    assert (tmp_path / "audit" / "index.html").read_text().startswith("<!doctype html>")
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    topics = {one["topic"]: one for one in found["topics"]}
    for name, log in before.items():
        # the traffic goes on: the audit's window ended somewhere in between
        assert len(log) <= topics[name]["records"] <= len(after[name])
    deals = topics["deals"]
    first = deals["top_keys"][0]
    assert (first["key"], first["producer"]) == (SAVED.decode(), "deal-admin")
    assert keys_of(before["deals"])[SAVED] <= first["records"] <= keys_of(after["deals"])[SAVED]
    assert keys_of(after["deals"]).most_common(1)[0][0] == SAVED
    assert deals["diagnoses"] == ["chatty"]
    assert [one["key"] for one in deals["recommendations"] if one["action"] == "coalesce"] == [
        SAVED.decode()
    ]
    assert topics["orders"]["diagnoses"] == []
    assert b"deals: chatty" in done.stdout
