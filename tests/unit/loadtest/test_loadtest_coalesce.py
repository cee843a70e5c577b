"""The tables of loadtest/coalesce.py, from reports as the driver writes them."""

from __future__ import annotations

from typing import Any

import coalesce
from cases.pairs import Pair


def report(cost: float, p99: float) -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost},
        "latency_ms": {"p50": 1.0, "p99": p99},
        "foreign_cores": 0.5,
        "events_per_s": 5000,
        "outcomes": {"held": 5},
    }


def test_held_is_shown_beside_an_ordinary_publish() -> None:
    text = coalesce.pairs_text({"single": [Pair(report(20.0, 4.0), report(19.0, 5.0))] * 2})
    assert "single" in text
    assert "0.95" in text
    assert "1.25" in text


def test_memory_is_shown_by_quarters_once_the_load_is_steady() -> None:
    samples = [
        {"seconds": float(at), "events": at, "rss": {"target": {1: 2**20 * size, 2: 2**20}}}
        for at, size in [(0, 500), (15, 50), (16, 51), (17, 52), (18, 53)]
    ]
    text = coalesce.steady_text({**report(30.0, 4.0), "samples": samples, "held": {"keys": 3}})
    assert "50.0 / 51.0 / 52.0 / 53.0" in text
    assert "500" not in text.replace("5,000", "")


def test_the_configuration_says_who_coalesces() -> None:
    text = coalesce.config("h:1", "redis://h:2", "", coalesces=False)
    assert 'bootstrap_servers = ["h:1"]' in text
    assert "in_gateway = false" in text
