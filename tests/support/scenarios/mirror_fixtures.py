"""Fixtures of the mirror's tests. See mirror_world."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headgate.devstack.child import Child
from headgate_spark.copying.reader import CopyOptions, CopyUnit
from support.process import copier_process
from support.root import ROOT


@pytest.fixture
def start_copier(tmp_path: Path) -> Iterator[Callable[[CopyUnit, CopyOptions], Child]]:
    """A factory of copiers in processes of their own, which can be killed and frozen."""
    with ExitStack() as ending:

        def start(unit: CopyUnit, options: CopyOptions) -> Child:
            file = tmp_path / "unit.pickle"
            file.write_bytes(pickle.dumps((unit, options)))
            code = os.pathsep.join(str(ROOT / one) for one in ("gateway", "spark"))
            command = [sys.executable, copier_process.__file__, str(file)]
            number = len(list(tmp_path.glob("*.log")))
            child = Child(
                "copier", command, tmp_path / f"{number}.log",
                environment={**os.environ, "PYTHONPATH": code},
            )  # fmt: skip
            ending.callback(child.kill)
            return child

        yield start
