"""Programs do their work with the system calls and the memory that their units leave them."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from headgate.devstack.ports import LOOPBACK
from support.deploy import restrained
from support.kafka.kafka_log import create_topic, read_log
from support.process.mirror_job import QUICK, config_text
from support.process.stack import PATIENCE, START_S, Gateway, RunningBroker
from support.root import ROOT
from support.scenarios.mirror_world import Two

pytestmark = pytest.mark.kafka

PROBE = """
import mmap, os
try:
    os.setpriority(os.PRIO_PROCESS, 0, 5)
except PermissionError:
    print("no @resources")
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    print("no code")
"""


@pytest.fixture
def python_of(tmp_path: Path) -> Callable[[str], str]:
    """A Python that a unit restrains."""
    try:
        ctypes.CDLL(restrained.LIBRARY)
    except OSError:
        pytest.skip(f"no {restrained.LIBRARY} (Debian: libseccomp2)")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze (Debian: systemd)")

    def made(unit: str) -> str:
        found = tmp_path / "python"
        command = f'{sys.executable} "{restrained.__file__}" {unit} {sys.executable}'
        found.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        found.chmod(0o755)
        done = subprocess.run([found, "-c", PROBE], capture_output=True, text=True, check=False)
        if "prctl" in done.stderr:
            pytest.skip("this kernel does not refuse memory that is written and run (6.3)")
        wanted = ["no @resources"]
        if "MemoryDenyWriteExecute=yes" in (ROOT / "deploy" / "systemd" / unit).read_text():
            wanted.append("no code")
        assert done.stdout.splitlines() == wanted, done.stderr
        return str(found)

    return made


def status(port: int, topic: str, body: str) -> int:
    connection = HTTPConnection(LOOPBACK, port, timeout=30)
    try:
        head = {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/topics/{topic}/events", body, head)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_gateway_spools_offloads_reloads_and_drains(
    kafka: RunningBroker, topic_name: str, python_of: Callable[[str], str], tmp_path: Path
) -> None:
    large = f"{topic_name}-large"
    for name in (topic_name, large):
        create_topic(kafka.bootstrap, name, 1, {})
    text = f"""
        [clusters.main]
        bootstrap_servers = ["{kafka.bootstrap}"]
        [spool]
        path = "{tmp_path}/spool"
        [blobs]
        url = "file://{tmp_path}/blobs"
        [topics."{topic_name}"]
        key = ["/id"]
        spool = true
        [topics."{large}"]
        key = ["/id"]
        oversize = ["compress", "claim-check"]
    """
    gateway = Gateway(tmp_path / "gateway", text, (), {}, python_of("headgate.service"))
    try:
        gateway.wait(START_S)
        assert status(gateway.port, topic_name, '{"id": 1}') == 201
        # Longer than a record may be, and no smaller when it is compressed: to the blob store.
        document = json.dumps({"id": 1, "text": os.urandom(1_000_000).hex()})
        assert status(gateway.port, large, document) == 201
        gateway.reload()
        gateway.child.wait_until(lambda: "configuration reloaded" in gateway.log(), 60)
        gateway.stop(30 * PATIENCE)
        assert gateway.exit_code == 0, gateway.child.log_tail()
        assert "Operation not permitted" not in gateway.log()
    finally:
        gateway.kill()


@pytest.mark.full
def test_a_mirror_copies(
    kafka: RunningBroker,
    backfill: RunningBroker,
    topic_name: str,
    python_of: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Java, Spark and their Python workers."""
    create_topic(kafka.bootstrap, topic_name, 1, {})
    text = config_text(Two(kafka, backfill), [topic_name])
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    gateway = Gateway(tmp_path / "gateway", text, (), {})
    try:
        gateway.wait(START_S)
        assert status(gateway.port, topic_name, '{"id": 1}') == 201
    finally:
        gateway.kill()
    python = python_of("headgate-mirror.service")
    command = [python, "-m", "headgate_spark", "mirror", "--config", str(file), *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_log(backfill.bootstrap, topic_name)) == 1
