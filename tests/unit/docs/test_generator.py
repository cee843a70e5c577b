"""docs/generate.py runs with the packages of requirements-docs.lock: `make docs` has no others."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

from support.root import ROOT

IMPORT = """
import sys

sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # an import of None fails
import generate
for write in generate.BLOCKS.values():
    write()
"""


def test_the_generator_needs_no_package_beside_those_of_its_lock_file() -> None:
    lock = (ROOT / "requirements-docs.lock").read_text()
    locked = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    refused = {
        module
        for module, owners in packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & (locked | {"headgate"})
    }
    assert "httpx" in refused
    folders = ("gateway", "spark", "tests", "clients/python/src", "docs")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, ",".join(sorted(refused))],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(str(ROOT / folder) for folder in folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
