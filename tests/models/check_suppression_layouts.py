"""Prints what the model of several servers finds: `... [states [traces]]`."""

# ruff: noqa: T201
from __future__ import annotations

import sys
import time

from models.suppression_layouts import Setup, explore

ONE_TWO = Setup(lists=((0,), (0, 1)), owners=(0, 1))
BACK = Setup(starts=(0, 1), changes=1)
FAULT_SETS: dict[str, Setup] = {
    "three to two": Setup(),
    "two to three": Setup(lists=((0, 1), (0, 1, 2)), owners=(0, 2)),
    "three to two and back": Setup(changes=2),
    "three and two at first": BACK,
    "three and two at first, a server restarts": Setup(starts=(0, 1), restarts=1),
    "one to two": ONE_TWO,
    "two to one": Setup(lists=((0,), (0, 1)), owners=(0, 1), starts=(1, 1)),
    "one to two, a server restarts": Setup(lists=((0,), (0, 1)), owners=(0, 1), restarts=1),
}
# Which history shows what each rule is for.
TAKEN_OUT: dict[str, Setup] = {
    "tells": Setup(),
    "majority": Setup(),
    "quiet": Setup(),
    "younger": BACK,
    "wait": Setup(),
    "lease": Setup(),
}


def main(limit: int, *, traces: bool) -> None:
    rows = list(FAULT_SETS.items())
    rows += [(f"without {name}", setup.without(name)) for name, setup in TAKEN_OUT.items()]
    for name, setup in rows:
        began = time.monotonic()
        found = explore(setup, limit)
        end = found.broken or ("complete" if found.complete else "cut")
        steps, spent_s = len(found.trace), time.monotonic() - began
        print(f"{name:45} {found.states:>9,} {steps:3} {end} {spent_s:.0f} s", flush=True)
        if traces and found.trace:
            print("   ", "; ".join(found.trace), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150_000, traces=len(sys.argv) > 2)
