"""The table of loadtest/facts.py, from reports as the driver writes them."""

from __future__ import annotations

from typing import Any

import facts
from cases.pairs import Pair


def report(cost: float, p99: float) -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost, "kafka": cost / 10},
        "latency_ms": {"p99": p99},
        "foreign_cores": 0.5,
    }


def test_telling_is_shown_beside_not_telling() -> None:
    text = facts.pairs_text({"single": [Pair(report(20.0, 4.0), report(21.5, 5.0))] * 2})
    row = next(line for line in text.splitlines() if "single" in line)
    assert [cell.split()[0] for cell in row.split("|")[2:8]] == [
        "20.00", "21.50", "1.50", "0.15", "1.25", "0.50",
    ]  # fmt: skip
