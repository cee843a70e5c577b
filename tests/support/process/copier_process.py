"""Copies one partition in a process of its own: `python copier_process.py FILE` with a pickle of
(unit, options). Says `ready` once it has copied something."""

from __future__ import annotations

import asyncio
import pickle
import sys
from pathlib import Path

from headgate_spark.copying.reader import BrokerBuckets
from headgate_spark.mirror.copier import Copier


def main() -> int:
    unit, options = pickle.loads(Path(sys.argv[1]).read_bytes())
    copier = Copier(unit, options, BrokerBuckets(options.bytes_per_s), _say)
    copied = asyncio.run(copier.run())
    sys.stdout.write(f"{copied.trouble or 'done'}\n")
    return 0 if copied.trouble is None else 1


def _say(records: int) -> None:
    sys.stdout.write(f"{records}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
