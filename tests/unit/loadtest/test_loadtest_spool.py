"""The spool's load test: its table, and the micro benchmark of the journal still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import spool
from micro import spool_journal


def report(cost: float) -> dict[str, object]:
    latency = {"p50": 1.0, "p99": 2.0}
    costs = {"target": cost}
    return {"cpu_us_per_event": costs, "events_per_s": 10, "latency_ms": latency, "log": "exact"}


@pytest.mark.parametrize(("cost", "verdict"), [(15.0, "<= 1.5 met"), (16.0, "<= 1.5 MISSED")])
def test_a_spooled_batch_is_compared_with_a_published_one(cost: float, verdict: str) -> None:
    cases = [spool.Case("ndjson", topic) for topic in (spool.PLAIN, spool.SPOOLED)]
    found = {cases[0]: [report(10.0)] * 3, cases[1]: [report(cost)] * 3}
    _, row = spool.rows(found)
    assert row[0].endswith("spooled")
    assert row[3] == verdict


@pytest.mark.parametrize("opening", [spool_journal.into_journal, spool_journal.into_log])
def test_the_micro_benchmark_measures(tmp_path: Path, opening: object) -> None:
    assert callable(opening)
    commit, close = opening(tmp_path)
    cpu_us, us = spool_journal.measured(commit, 3, 0.01)
    close()
    assert us > 0
    assert cpu_us >= 0
