"""What Headgate writes to disk is its user's alone, unless HEADGATE_UMASK says otherwise."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.gateway.oversize_world import document, post
from support.process.stack import Gateway, RunningBroker

CONFIG = """
[clusters.main]
bootstrap_servers = "{broker.bootstrap}"
[logs]
installation_file = "{folder}/written/installation.log"
[blobs]
url = "file://{folder}/written/blobs"
[spool]
path = "{folder}/written/spool"
[topics."{topic}"]
key = ["/id"]
max_bytes = 20000
oversize = ["claim-check"]
[topics."other"]
spool = true
"""
ENTRIES = ("headgate.cli", "headgate_spark.cli")
UMASK = """
import os, sys
os.umask(0o022)
from {module} import main
sys.argv[1:] = ["--version"]
try:
    main()
except SystemExit:
    pass
print(f"umask {{os.umask(0):03o}}")
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Short: it holds unix sockets, whose paths are bounded."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-modes-"))
    yield folder
    shutil.rmtree(folder)


def opened_to_others(*folders: Path) -> list[str]:
    paths = [path for folder in folders for path in folder.rglob("*")]
    assert paths
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path}"
        for path in paths
        if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]


@pytest.mark.kafka
def test_a_gateway_writes_for_its_user_alone(
    tmp_path: Path,
    temporary: Path,
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> None:
    kafka.create_topic(topic_name, 1)
    (tmp_path / "written").mkdir()
    config = CONFIG.format(broker=kafka, folder=tmp_path, topic=topic_name)
    before = os.umask(0o022)
    try:
        gateway = start_gateway(config, environment={"TMPDIR": str(temporary)})
    finally:
        os.umask(before)
    reply = post(gateway.url, topic_name, document("a", 50_000))
    assert reply.status == 201
    written = {path.name for path in (tmp_path / "written").iterdir()}
    assert written == {"blobs", "spool", "installation.log"}
    assert opened_to_others(tmp_path / "written", temporary) == []


@pytest.mark.parametrize("module", ENTRIES)
@pytest.mark.parametrize(("given", "umask"), [(None, "077"), ("027", "027"), ("0", "000")])
def test_files_of_every_command(module: str, given: str | None, umask: str) -> None:
    assert ended(module, given) == (0, f"umask {umask}")


@pytest.mark.parametrize("module", ENTRIES)
@pytest.mark.parametrize("given", ["rw", "", "9", "1000", "-1", "7" * 5000])
def test_a_mask_that_is_none_is_refused(module: str, given: str) -> None:
    code, text = ended(module, given)
    assert code == 0, "the script went on"
    assert text.endswith("umask 022")
    assert "HEADGATE_UMASK" in text


def ended(module: str, umask: str | None) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "HEADGATE_UMASK"}
    if umask is not None:
        environment["HEADGATE_UMASK"] = umask
    done = subprocess.run(
        [sys.executable, "-c", UMASK.format(module=module)],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "0.1" not in line]
    return done.returncode, "\n".join(lines)
