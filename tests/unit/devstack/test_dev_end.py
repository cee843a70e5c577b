"""`headgate dev` names the process that ended, with its exit code or signal and its log."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headgate.devstack.child import Child
from headgate.devstack.session import _attend
from headgate.devstack.stack import DevStack


class OneChild:
    """A stack with one child."""

    def __init__(self, child: Child) -> None:
        self.children = {"gateway": child}

    def ended_child(self) -> tuple[str, Child] | None:
        ended = (item for item in self.children.items() if item[1].exit_code is not None)
        return next(ended, None)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda child: child.signal(signal.SIGKILL), "killed by SIGKILL"),
        (lambda child: None, "exit code 3"),
    ],
    ids=["killed", "exited"],
)
async def test_the_end_of_the_gateway_is_described(
    tmp_path: Path, end: Callable[[Child], None], how: str
) -> None:
    wait = "import time; time.sleep(600)" if "SIG" in how else "raise SystemExit(3)"
    child = Child("gateway", [sys.executable, "-c", wait], tmp_path / "gateway.log")
    said: list[str] = []
    try:
        end(child)
        ended = await _attend(cast("DevStack", OneChild(child)), is_demo=False, say=said.append)
    finally:
        child.stop(0)
    assert ended is child
    assert said[0].startswith(f"gateway ended by itself (pid {child.pid}, {how})\n--- {child.log}")
