"""`headgate worker`: one process of `headgate serve`, which starts it; not for people."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.commands import Subparsers


def register(subparsers: "Subparsers") -> None:
    """Add `worker` to the commands, without a line in the help."""
    parser = subparsers.add_parser("worker", description="Started by `headgate serve`.")
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--index", required=True, type=int)


def run(args: argparse.Namespace) -> int:
    """Work until told to end; return the exit code. Raises ConfigError."""
    from headgate.supervisor.worker import WorkerFiles, run_worker  # slow to import

    return run_worker(WorkerFiles(args.config, os.environ, args.folder, args.index))
