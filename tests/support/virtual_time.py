"""An event loop whose clock only moves when nothing is left to do: waiting takes no time, and how
busy the machine is changes nothing. For code without sockets and threads."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run_in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end; `loop.time` and `asyncio.sleep` are of the virtual clock."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(work)
