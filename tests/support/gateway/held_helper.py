"""A helper process that answers when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headgate.offload.helper_process import HelperProcess


class HeldHelper(HelperProcess):
    """Answers with the work's own result, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    def ask(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((future, lambda: work(*args, **kwargs)))
        return future

    async def answer(self, which: int = 0, lost: bool = False) -> None:
        future, work = self.asked.pop(which)
        future.set_result(None if lost else work())
        await asyncio.sleep(0)
