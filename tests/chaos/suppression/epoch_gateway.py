"""NOT the product: one gateway worker that suppresses by an epoch counter, to see the test fail."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from headgate.backends.redis.suppression import RedisStore
from headgate.config import load
from headgate.wiring.app import Worker

SCRIPT = Path(__file__).with_name("epoch.lua")


async def run(config: Path) -> None:
    settings = load(config, os.environ)
    worker = Worker(settings, 1)
    assert worker.suppressor is not None
    assert settings.redis.url is not None
    script = SCRIPT.read_text()
    worker.suppressor._store = RedisStore(settings.redis.url, settings.redis.timeout_ms, script)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.start()
    await stop.wait()
    await worker.drain()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Path(sys.argv[1])))
