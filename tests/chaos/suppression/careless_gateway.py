"""NOT the product: one gateway worker that never asks whether others have other Redis servers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from headgate.config import load
from headgate.suppression.suppressor import Membership, memberships
from headgate.wiring import parts
from headgate.wiring.app import Worker


def careless(*given: object) -> list[Membership]:
    """Whatever the list is, servers are told the same."""
    found = memberships(*given)  # type: ignore[arg-type]
    return [one._replace(call=one.call._replace(layout=bytes(16))) for one in found]


async def run(config: Path) -> None:
    parts.memberships = careless  # type: ignore[assignment]
    worker = Worker(load(config, os.environ), 1)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.start()
    await stop.wait()
    await worker.drain()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Path(sys.argv[1])))
