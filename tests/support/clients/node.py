"""Programs for Node that use clients/js."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest

from support.root import ROOT

PACKAGE = ROOT / "clients" / "js"
NODE = shutil.which("node")
OLDEST = 20


@cache
def node_version() -> int:
    """The major version of the Node that is there; 0 = none."""
    if NODE is None:
        return 0
    said = subprocess.run([NODE, "--version"], capture_output=True, check=True, text=True).stdout
    return int(said.removeprefix("v").partition(".")[0])


needs_node = pytest.mark.skipif(
    node_version() < OLDEST, reason=f"Node {OLDEST} or newer is not on this machine"
)
