"""The parent imports what it supervises and shows with, and nothing that a worker handles events
with: each of them is megabytes, and some installations have many gateways on a machine."""

import os
import subprocess
import sys
from pathlib import Path

import headgate
from headgate.cli import COMMANDS

# What `headgate serve` imports before it starts a worker.
PARENT = """
import sys
from headgate.cli import parser
parser(["serve"])
from headgate.config import load
from headgate.supervisor import parent
from headgate.metrics import logs
from headgate.spool.folders import SpoolFolders
"""
WORKER = PARENT + "from headgate.supervisor import worker\n"
# 5 s of traffic later: what was read every second, and a page of /metrics with a topic on it.
SCRAPED = """
import time
from headgate.redis.pauses import RedisPauses
from headgate.metrics.exposition import render
from headgate.metrics.fleet import Fleet
from headgate.metrics.snapshot import Detail, Pair, ProducerHour, Snapshot, decode, encode
from headgate.metrics.sketches import Sketched
pauses = RedisPauses("redis://127.0.0.1:1")
hour = int(time.time() // 3600)
window = ProducerHour({("published", ""): 3}, 30, Sketched(sizes=b"sizes"))
worker = Snapshot(details={Pair("p", "t"): Detail(time.time(), [], {hour: window})})
figures = Fleet()
figures.update(7, decode(encode(worker)))
assert b"headgate_key_cardinality{" in render(figures.total(), time.time())
"""
HEAVY = {
    "aiokafka", "botocore", "cramjam", "cryptography", "fsspec", "hiredis",
    "jsonschema_rs", "numpy", "pyarrow", "redis", "uvloop",
}  # fmt: skip
# Of the standard library: 0.3 to 1 MiB each, for mistakes, backlogs, archives and spools.
RARE = {"ctypes", "difflib", "sqlite3", "zipfile"}
OF_WORKERS = {
    "coalescer", "consumer", "devstack", "idempotency", "kafka", "monitor", "oversize", "ingest",
    "suppression",
}  # fmt: skip

BUDGETS = {"headgate.ingest", "headgate.ingest.admission"}  # the management API shows them


def imported_by(code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(headgate.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code + "\nprint(*sys.modules)"],
        env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_the_parent_imports_nothing_that_handles_events() -> None:
    names = imported_by(PARENT)
    assert {name.partition(".")[0] for name in names} & (HEAVY | RARE) == set()
    rooms = {
        name.split(".")[1] for name in names if name.startswith("headgate.") and name not in BUDGETS
    }
    assert "supervisor" in rooms
    assert rooms & OF_WORKERS == set()


def test_a_worker_imports_the_spool_only_if_it_has_one() -> None:
    names = imported_by(WORKER)
    assert "headgate.wiring.app" in names
    assert {"sqlite3", "headgate.spool.disk", "headgate.wiring.spool"} & {*names} == set()


def test_figures_without_keys_are_shown_without_the_library_of_sketches() -> None:
    names = imported_by(PARENT + SCRAPED)
    assert {name.partition(".")[0] for name in names} & HEAVY == set()


def test_a_command_registers_itself_alone() -> None:
    code = "import sys\nfrom headgate.cli import main\ntry: main(['serve', '--help'])\n"
    names = imported_by(code + "except SystemExit: pass")
    commands = {f"headgate.commands.{module}" for module in COMMANDS.values()}
    assert commands & {*names} == {"headgate.commands.serve"}
