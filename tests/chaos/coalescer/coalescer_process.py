"""NOT the product: `headgate coalesce` that stops itself at a step, and may break a rule.

python coalescer_process.py CONFIG STEP BROKEN

STEP: where its first transaction for a key named "stop..." ends in SIGSTOP; "never" for nowhere.
BROKEN: what is missing, any of them: "guard" (a term of ownership that has ended stops nothing),
"fencing" (each process has transactional ids of its own: rule 1 of
docs/design/coalescing-protocol.md).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from headgate.coalescer import partition as owner
from headgate.coalescer.decisions import Emission
from headgate.coalescer.partition import KafkaHeldPartition
from headgate.coalescer.windows import DoneMark
from headgate.config import load
from headgate.kafka.transactions import TransactionalProducer
from headgate.metrics import logs
from headgate.supervisor.coalescer_process import coalesce

STEPS = ("before append", "after append", "after offset", "after end")


class Stopping(KafkaHeldPartition):
    """Stops its whole process, once, in a transaction with such a key."""

    step = "never"
    is_guarded = True
    _is_armed = False

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        self._is_armed = any(one.key.startswith(b"stop") for one in emissions)
        self._at("before append")
        offsets = await super().append(emissions, marks)
        self._at("after append")
        return offsets

    async def send_offset(self, offset: int, metadata: str) -> None:
        await super().send_offset(offset, metadata)
        self._at("after offset")

    async def end_transaction(self) -> None:
        await super().end_transaction()
        self._at("after end")

    def _check(self) -> None:
        if Stopping.is_guarded:
            super()._check()

    def _at(self, step: str) -> None:
        if self._is_armed and step == Stopping.step:
            Stopping.step = "never"
            os.kill(os.getpid(), signal.SIGSTOP)


class Unfenced(TransactionalProducer):
    def __init__(self, options: object, transactional_id: str, max_batch_bytes: int) -> None:
        super().__init__(options, f"{transactional_id}.{os.getpid()}", max_batch_bytes)  # type: ignore[arg-type]


def main() -> None:
    config, Stopping.step, broken = sys.argv[1:]
    owner.KafkaHeldPartition = Stopping  # type: ignore[misc]
    Stopping.is_guarded = "guard" not in broken
    if "fencing" in broken:
        owner.TransactionalProducer = Unfenced  # type: ignore[misc]
    settings = load(Path(config), os.environ)
    logs.configure(settings.logs)
    uvloop.run(coalesce(settings, {}))


if __name__ == "__main__":
    main()
