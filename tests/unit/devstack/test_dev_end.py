"""`headgate dev` starts processes again that end, and ends itself when one ends too often."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headgate.devstack import session
from headgate.devstack.child import Child
from headgate.devstack.session import _attend
from headgate.devstack.stack import DevStack
from support.process.stack import eventually

WAITS = "import time; print('up', flush=True); time.sleep(600)"
FAILS = "print('the reason', flush=True); raise SystemExit(3)"


class OneProcess:
    """A stack with one process, which is ready when its log says so."""

    def __init__(self, folder: Path, *scripts: str) -> None:
        self.log = folder / "redis.log"
        self.scripts = list(scripts)
        self.children: dict[str, Child] = {}
        self.spawn("redis")

    def spawn(self, name: str) -> Child:
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        self.children[name] = Child(name, [sys.executable, "-c", script], self.log)
        return self.children[name]

    def is_ready(self, name: str) -> bool:
        return "up" in self.children[name].log_tail()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_PAUSES_S", (0.0, 0.0, 0.0))


def attend(stack: OneProcess, say: Callable[[str], None]) -> asyncio.Task[Child | None]:
    return asyncio.ensure_future(_attend(cast("DevStack", stack), is_demo=False, say=say))


async def test_a_killed_process_is_started_again_and_a_line_says_so(tmp_path: Path) -> None:
    stack, said = OneProcess(tmp_path, WAITS), list[str]()
    killed = stack.children["redis"]
    attending = attend(stack, said.append)
    killed.signal(signal.SIGKILL)
    await eventually(lambda: said)
    successor = stack.children["redis"]
    line = re.escape(f"redis ended (signal 9, pid {killed.pid}), started again after ")
    assert re.fullmatch(rf"{line}\d+\.\d s \(pid {successor.pid}\)", said[0])
    assert successor.exit_code is None
    os.kill(os.getpid(), signal.SIGTERM)
    assert await attending is None
    successor.kill()


async def test_a_process_that_ends_too_often_ends_everything(tmp_path: Path) -> None:
    """The report has the log of the last process only."""
    stack, said = OneProcess(tmp_path, WAITS, FAILS), list[str]()
    stack.children["redis"].signal(signal.SIGKILL)
    ended = await attend(stack, said.append)
    assert ended is not None
    assert ended.exit_code == 3
    assert stack.children == {}
    *repeated, last = said
    assert len(repeated) == 3
    assert all("its successor ended before it was ready" in line for line in repeated)
    assert last == (
        f"redis ended (exit code 3, pid {ended.pid}) for the 4th time in 60 s\n"
        f"--- {stack.log}\nthe reason"
    )
