"""NOT the product: one gateway worker that suppresses by an epoch counter, to see the test fail."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from headgate.config import load
from headgate.suppression.store import RedisStore
from headgate.wiring import parts
from headgate.wiring.app import Worker

SCRIPT = Path(__file__).with_name("epoch.lua")


class EpochStore(RedisStore):
    """Runs the wrong script; `used` says that the gateway took it."""

    used = False

    def __init__(self, url: str, timeout_ms: float) -> None:
        EpochStore.used = True
        super().__init__(url, timeout_ms, SCRIPT.read_text())


async def run(config: Path) -> None:
    settings = load(config, os.environ)
    parts.RedisStore = EpochStore  # type: ignore[misc]
    worker = Worker(settings, 1)
    assert EpochStore.used
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.start()
    await stop.wait()
    await worker.drain()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Path(sys.argv[1])))
