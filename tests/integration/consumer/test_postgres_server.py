"""The PostgreSQL of the tests ends with whoever started it, also by kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

from headgate.devstack.ports import accepts
from support.process.stack import eventually
from support.root import ROOT

PROGRAM = """
import time
from support.process.postgres_server import running_postgres
with running_postgres() as url:
    print(url, flush=True)
    time.sleep(600)
"""


async def test_it_is_not_left_behind() -> None:
    path = os.pathsep.join(str(ROOT / one) for one in (".", "gateway", "spark", "tests"))
    child = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert child.stdout is not None
    with child.stdout:
        port = urlsplit(child.stdout.readline()).port
    assert port is not None
    assert accepts(port)
    child.send_signal(signal.SIGKILL)
    child.wait()
    await eventually(lambda: not accepts(port), 20.0)
