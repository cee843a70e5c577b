"""A worker ends as it was asked to, also if the request came while its process was created."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.supervisor.overview import Launch, WorkerProcess

# Ends with the number of the first signal, but not by SIGTERM.
WORKER = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, lambda number, frame: os._exit(42))
sys.stdout.write("x")
sys.stdout.flush()
os.read(0, 1)
os._exit(1)
"""


@pytest.mark.parametrize(
    ("ask", "code"),
    [(WorkerProcess.kill, -signal.SIGKILL), (lambda worker: worker.end(is_hurried=True), 42)],
    ids=["kill", "hurry"],
)
async def test_a_request_during_the_creation_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[WorkerProcess], None],
    code: int,
) -> None:
    create = asyncio.create_subprocess_exec
    created: list[asyncio.subprocess.Process] = []

    async def slow(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await create(*command, **options, stdout=asyncio.subprocess.PIPE)
        created.append(process)
        assert process.stdout is not None
        await process.stdout.readexactly(1)  # its handlers are installed
        ask(worker)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    launch = Launch((sys.executable, "-c", WORKER), os.environ, tmp_path)
    overview = SimpleNamespace(
        worker_died=lambda pid: None,
        worker_restarted=lambda: None,
        worker_lost=lambda index, how, code: None,
    )
    worker = WorkerProcess(0, launch, overview)
    try:
        async with asyncio.timeout(30):
            await worker.run()
    finally:
        for process in created:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert [process.returncode for process in created] == [code]
