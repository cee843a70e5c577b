"""The runner of replays with a fault: `python faulty_runner.py CONFIG ID STATE WHEN SIGNAL`.

When it tells that replay ID is in STATE it sends itself SIGNAL (KILL or STOP), WHEN before the
transaction is committed or after. All else is what `headgate-spark replay --follow` does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headgate_spark.copying.batches import SourceRecord
from headgate_spark.job.command_line import report_to_people
from headgate_spark.job.options import Connection, read_config
from headgate_spark.replay.registry import Pair, ReplayWriter
from headgate_spark.replay.runner import RunRequest, run_replays

PATIENCE_S = 3.0


class FaultyWriter(ReplayWriter):
    def __init__(
        self, connection: Connection, replay_id: str, state: str, when: str, number: int
    ) -> None:
        super().__init__(connection)
        self._id, self._state, self._when, self._number = replay_id, state, when, number

    async def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[SourceRecord],
        replay_id: str,
        status_records: Callable[[int | None], Sequence[Pair]],
    ) -> None:
        is_it = False

        def seen(behind: int | None) -> Sequence[Pair]:
            nonlocal is_it
            pairs = status_records(behind)
            is_it = any(self._tells(pair) for pair in pairs)
            if is_it and self._when == "before":  # its records are written, and not committed
                os.kill(os.getpid(), self._number)
            return pairs

        await super().write(topic, partition, records, replay_id, seen)
        if is_it and self._when == "after":
            os.kill(os.getpid(), self._number)

    def _tells(self, pair: Pair) -> bool:
        if pair[0] != f"{self._id}/status".encode():
            return False
        return bool(json.loads(pair[1] or b"{}").get("state") == self._state)


def main() -> int:
    config, replay_id, state, when, name = sys.argv[1:]
    number = signal.Signals[f"SIG{name}"]

    def writer_of(connection: Connection) -> ReplayWriter:
        return FaultyWriter(connection, replay_id, state, when, number)

    request = RunRequest(None, is_following=True, patience_s=PATIENCE_S)
    settings = read_config(Path(config), os.environ)
    return run_replays(settings, request, report_to_people(), writer_of)


if __name__ == "__main__":
    sys.exit(main())
