"""What the garbage collector was spared of is found when the process ends."""

import subprocess
import sys

SCRIPT = """
from headgate.wiring.collector import restore_the_collector, spare_the_collector
from headgate.stats.sketches import Sketches

class Meter:
    def __init__(self):
        self.itself = self

def run():
    meter = Meter()
    spare_the_collector()
    meter.sketches = Sketches()
    meter.sketches.add_keys({"a": (1, 1)})

run()
"""


def ended(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=90
    ).stderr


def test_nothing_counts_as_leaked_at_the_end() -> None:
    assert "leaked" in ended(SCRIPT), "else this shows nothing"
    assert ended(f"{SCRIPT}restore_the_collector()\n") == ""
