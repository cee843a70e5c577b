"""The table of what a flood does to the others."""

from typing import Any

import pytest

from cases.fairness import FLOODS, Round, checked, rows
from cases.run_driver import DriverFailed


def report(p99: float, **outcomes: int) -> dict[str, Any]:
    return {
        "latency_ms": {"p50": p99 / 4, "p99": p99},
        "outcomes": outcomes,
        "events_per_s": 5000,
        "foreign_cores": 0.5,
    }


def test_ratios_are_those_of_each_round_and_rejects_are_counted() -> None:
    alone, elsewhere = report(10.0, published=100), report(12.0, published=100)
    first = Round(
        alone, elsewhere, report(11.0, published=100), report(90.0, overloaded=7), "exact"
    )
    second = first._replace(beside=report(15.0, published=97, overloaded=3))
    (row,) = rows({FLOODS[0]: [first, second, second], FLOODS[1]: []})
    assert row[1:3] == ["2.5 / 3.0 / 3.8", "10.0 / 12.0 / 15.0"]
    assert row[3:6] == ["1.50 (1.10..1.50)", "1.25 (0.92..1.25)", "<= 1.2 MISSED"]
    assert (row[6], row[8], row[10]) == ("6", "21", "exact")


def test_a_log_that_contradicts_the_answers_fails() -> None:
    assert checked(10, [report(1.0, published=4), report(1.0, published=6)]) == "exact"
    with pytest.raises(DriverFailed, match="LOST 1"):
        checked(10, [report(1.0, published=11)])
