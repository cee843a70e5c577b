"""Processor time from /proc, and the tables made of it."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cases import growth, workers
from cases.keys import Keys
from cases.memory import summary
from cases.moments import LOADED, Moment, Process
from cases.pairs import CASES, Pair
from headgate.config.load import load
from memory_report import keys_table, moments_table
from procfs import (
    Memory,
    cpu_seconds,
    family,
    forget_peak,
    machine_busy_seconds,
    memory_of,
    peak_bytes,
    rss_bytes,
    rss_of,
)
from report import ends_table, pairs_table, ratios, spread, table
from support.root import ROOT
from tally import Mark, foreign_cores, microseconds_per_event, processes_changed, quantiles


def test_processor_time_grows_with_work() -> None:
    before, machine = cpu_seconds(os.getpid()), machine_busy_seconds()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.15
    assert machine_busy_seconds() - machine >= 0.15


def test_a_family_has_children_of_children() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 20
        while len(found := family([parent.pid])) < 2:
            assert time.monotonic() < end
        assert parent.pid in found
        assert all(size > 0 for size in rss_of(found).values())
        assert rss_bytes(os.getpid()) > 2**20
    finally:
        parent.communicate(b"\n")
    assert rss_of([parent.pid]) == {}


def test_memory_is_that_of_the_kernel() -> None:
    held = bytearray(b"x") * (40 * 2**20)
    with_it = memory_of(os.getpid())
    assert with_it.rss >= with_it.pss >= with_it.uss > len(held)
    del held
    assert peak_bytes(os.getpid()) >= with_it.rss - 2**20
    forget_peak(os.getpid())
    assert peak_bytes(os.getpid()) < with_it.rss - 20 * 2**20


def moment(title: str, parent_mib: int, worker_mib: int, peak_mib: int) -> Moment:
    parent, worker = (Memory(*[size * 2**20] * 3) for size in (parent_mib, worker_mib))
    return Moment(
        title, Process(parent, parent.rss), Process(worker, peak_mib * 2**20), {"published": 7}
    )


def test_moments_are_judged_by_both_processes_when_idle_and_by_the_peak_under_load() -> None:
    text = moments_table([moment("idle", 45, 76, 76), moment(LOADED, 45, 90, 110)])
    assert "| idle | 45.0 / 45.0 / 45.0 | 76.0 / 76.0 / 76.0 | 76.0 | published 7 |" in text
    assert "parent and worker, idle: 121.0 MiB of RSS, MISSED" in text
    assert f"the worker at most, {LOADED}: 110.0 MiB of RSS, met" in text


def test_new_keys_are_judged_next_to_as_many_events_of_few_keys() -> None:
    steps = [moment(str(number), 45, worker, 99) for number, worker in enumerate((80, 86, 87, 88))]
    text = keys_table([Keys("suppressed", steps), Keys("not suppressed", steps[::-1])])
    assert "next to 1,000 keys: +2.0, -7.0 MiB (goal: at most 2)" in text


def mark(at_s: float, acknowledged: int, cpu: dict[int, float], machine_s: float) -> Mark:
    return Mark(at_s, acknowledged, {"target": cpu}, machine_s)


def test_processor_time_per_event_is_that_of_all_processes_in_the_window() -> None:
    start, stop = mark(0, 100, {1: 1.0, 2: 2.0}, 10.0), mark(2, 1100, {1: 1.1, 2: 2.4}, 12.5)
    assert microseconds_per_event(start, stop) == {"target": 500.0}
    assert foreign_cores(start, stop) == 1.0
    assert not processes_changed(start, stop)
    assert processes_changed(start, mark(2, 1100, {1: 1.1, 3: 0.1}, 12.5))
    assert microseconds_per_event(start, mark(2, 100, {1: 2.0}, 12.0)) == {}


def test_quantiles_are_those_of_the_sorted_latencies() -> None:
    seconds = [one / 1000 for one in range(1000, 0, -1)]
    assert quantiles(seconds) == {"p50": 501.0, "p99": 991.0, "p999": 1000.0, "max": 1000.0}
    assert quantiles([])["p99"] == 0.0


def run_of(cost: float, p99_ms: float, log: str = "exact") -> dict[str, Any]:
    return {
        "cpu_us_per_event": {"target": cost, "redis": 5.0},
        "latency_ms": {"p50": p99_ms / 2, "p99": p99_ms},
        "events_per_s": 1000,
        "timeouts": 0,
        "foreign_cores": 0.1,
        "outcomes": {"published": 7},
        "log": log,
    }


def test_ratios_are_medians_of_pairs_and_judged_by_the_goal() -> None:
    pairs = [Pair(run_of(100, 40), run_of(cost, 10)) for cost in (95, 80, 120)]
    pairs[2] = Pair(run_of(200, 40), pairs[2].gateway)
    assert ratios(pairs, lambda run: run["cpu_us_per_event"]["target"]) == [0.95, 0.8, 0.6]
    assert spread([0.95, 0.8, 0.6]) == "0.80 (0.60..0.95)"
    text = pairs_table(CASES, {"single-published": pairs, "single-512": pairs})
    assert "0.80 (0.60..0.95) | <= 0.90 met" in text
    assert "0.25 (0.25..0.25) | <= 0.25 met" in text
    lone = pairs_table(CASES, {"single-1": pairs})
    assert "0.25 (0.25..0.25) | <= 1.50 met" in lone
    missed = pairs_table(CASES, {"single-unchanged": pairs})
    assert "0.80 (0.60..0.95) | <= 0.65 MISSED" in missed


def test_ends_show_what_the_log_said() -> None:
    pairs = [
        Pair(run_of(1, 1), run_of(1, 1)),
        Pair(run_of(1, 1), run_of(1, 1, "within unknown: x")),
    ]
    text = ends_table(CASES, {"single-published": pairs})
    assert "| yardstick | published 14 | exact |" in text
    assert "| gateway | published 14 | exact, within unknown |" in text


def test_memory_is_read_at_each_quarter() -> None:
    samples = [
        {"events": 1000 * step, "rss": {"target": {1: 10, 2: 50 + step}, "redis": {3: 999}}}
        for step in range(9)
    ]
    assert summary({"samples": samples}) == [
        (0, 50), (2000, 52), (4000, 54), (6000, 56), (8000, 58),
    ]  # fmt: skip


def test_the_benchmark_configuration_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "loadtest" / "bench.toml").read_text()
    file = tmp_path / "headgate.toml"
    text = text.replace("BOOTSTRAP", "127.0.0.1:9092").replace("REDIS", "redis://127.0.0.1:6379")
    file.write_text(text)
    settings = load(file, {})
    suppressing = {topic.pattern: topic.suppress for topic in settings.topics}
    assert suppressing == {"bench-gateway": "raw", "bench-large": "raw", "bench-plain": "off"}


def test_tables_are_markdown() -> None:
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_a_goal(case: Any) -> None:
    assert case.cpu_goal or case.p50_goal or case.p99_goal


def test_growth_is_the_last_size_over_the_first_of_a_round() -> None:
    costs = {6: [10.0, 20.0, 10.0], 100: [11.0, 11.0, 11.0], 1000: [16.0, 30.0, 12.0]}
    found: growth.Found = {
        case: [
            {"cpu_us_per_event": {"target": cost, "redis": 1.0}, "log": "exact"}
            for cost in costs[case.partitions]
        ]
        for case in growth.CASES[3:6]
    }
    (row,) = growth.rows(found)
    assert row == [
        "NDJSON of 50, 16 conn., suppression on, partitions",
        "6 / 100 / 1000",
        "10.0 / 11.0 / 16.0",
        "1.0 / 1.0 / 1.0",
        "1.50",
        "<= 1.5 met",
        "exact",
    ]


def test_workers_are_judged_by_the_dearest_number() -> None:
    case = workers.CASES[0]
    found = {case: {1: [run_of(10, 1)] * 3, 2: [run_of(10.5, 1)] * 3, 4: [run_of(12, 1)] * 3}}
    (row,) = workers.rows(found)
    assert row[1:] == [
        "1 / 2 / 4",
        "10.0 / 10.5 / 12.0",
        "1,000 / 1,000 / 1,000",
        "1.20",
        "<= 1.1 MISSED",
        "exact",
    ]
    found[case][4] = [run_of(11, 1)] * 3
    assert next(workers.rows(found))[-2] == "<= 1.1 met"
