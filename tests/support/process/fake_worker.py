"""A worker without Kafka for tests of the parent, and a parent that starts such workers.

`fake_worker.py parent CONFIG` runs the real parent. A worker counts a hundred events a second
and tells as a dependency the configuration it has in force. FAKE_WORKER: `stubborn` ignores
what ends it, `slow` goes on until it is told to hurry, `hopeless` refuses its configuration,
`broken` ends at once.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from headgate.config import load
from headgate.config.settings import LogSettings
from headgate.metrics import logs
from headgate.metrics.health import Dependency, Readiness
from headgate.metrics.meter import Labels, Meter
from headgate.model.outcome import Failure, Outcome, OutcomeName
from headgate.model.topics import TopicState
from headgate.supervisor.control import (
    HURRY,
    WorkerState,
    control_socket,
    hold_lifeline,
    worker_socket,
)
from headgate.supervisor.parent import Start, serve

ORDERS = TopicState("orders", "main", b"\0" * 16, 6)


class FakeWorker:
    """A worker that counts events and has no connections."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self.meter = Meter(Labels({"shop"}, {"orders"}.__contains__), time.time)
        self.read_configuration()

    def read_configuration(self) -> None:
        self._producers = ",".join(sorted(load(self._config, os.environ).producers))

    def snapshot(self, with_details: bool) -> bytes:
        return self.meter.snapshot(with_details)

    def state(self) -> WorkerState:
        known = Dependency("producers", True, True, self._producers)
        return WorkerState(Readiness(False, (known,)), (ORDERS,))

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        self.meter.bypassed(f"forgot {topic} {key!r}", 1)
        return None


async def work(arguments: argparse.Namespace) -> None:
    worker = FakeWorker(arguments.config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_stubborn = os.environ.get("FAKE_WORKER") == "stubborn"
    is_slow = os.environ.get("FAKE_WORKER") == "slow"
    for number in (signal.SIGTERM, HURRY):
        is_deaf = is_stubborn or (is_slow and number != HURRY)
        loop.add_signal_handler(number, (lambda: None) if is_deaf else stop.set)
    loop.add_signal_handler(signal.SIGHUP, worker.read_configuration)
    path = worker_socket(arguments.folder, arguments.index)
    async with control_socket(path, worker.snapshot, worker.state, worker.forget):
        while not stop.is_set():
            worker.meter.account(
                "shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [100]
            )
            await asyncio.sleep(0.01)


def main() -> int:
    if sys.argv[1] == "parent":
        logs.configure(LogSettings())
        command = (sys.executable, __file__, "worker")
        return asyncio.run(serve(Start(Path(sys.argv[2]), os.environ, command)))
    parser = argparse.ArgumentParser()
    parser.add_argument("worker")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--socket", action="append", type=int)
    hold_lifeline(1.0)
    mode = os.environ.get("FAKE_WORKER")
    if mode in ("hopeless", "broken"):
        return 2 if mode == "hopeless" else 1
    asyncio.run(work(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
