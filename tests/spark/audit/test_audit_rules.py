"""Measures, what-if, diagnosis and advice, on data whose truth is known; no Spark."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from headgate_spark.audit.judgement.advice import fetch_advice, recommend
from headgate_spark.audit.judgement.diagnosis import cause_of, diagnose, earlier_partitions
from headgate_spark.audit.judgement.figures import Sizes, TopicFigures
from headgate_spark.audit.judgement.keyless import notes
from headgate_spark.audit.judgement.measures import (
    balance,
    floor_of,
    gini,
    lorenz,
    max_over_mean,
    max_useful_partitions,
)
from headgate_spark.audit.judgement.what_if import candidates, pinned, salted, what_if
from headgate_spark.audit.passes.assemble import keyless_of
from support.scenarios import skew_world


def test_measures_of_a_load_that_can_be_done_by_hand() -> None:
    found = balance(np.array([1.0, 2.0, 3.0, 6.0]), p_max=0.25)
    assert found.max_over_mean == 2.0
    assert found.cv == pytest.approx(np.sqrt(14 / 4) / 3)
    # by its definition: mean absolute difference over twice the mean
    load = np.array([1, 2, 3, 6])
    differences = np.abs(load[:, None] - load[None, :]).mean()
    assert found.gini == pytest.approx(differences / (2 * load.mean()))
    assert found.effective_partitions == pytest.approx(144 / 50)


def test_measures_of_even_and_of_no_load() -> None:
    even, empty = np.full(5, 7.0), np.zeros(5)
    assert (max_over_mean(even), gini(even)) == (1.0, pytest.approx(0.0))
    assert balance(empty, 0.0) == (1.0, 0.0, 0.0, 0.0, 0.0)
    assert lorenz(even).tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert lorenz(np.array([1.0, 3.0])).tolist() == [0, 0.25, 1]


def test_the_floor_of_max_over_mean() -> None:
    assert floor_of(12, 0.25) == 3.0
    assert floor_of(2, 0.25) == 1.0
    assert max_useful_partitions(0.25) == 4
    assert max_useful_partitions(1 / 3) == 3
    assert max_useful_partitions(0.0) is None


def test_no_placement_of_whole_keys_gets_below_the_floor() -> None:
    figures = skew_world.figures_of(skew_world.zipf(5000))
    for one in figures.predictions:
        assert max_over_mean(one.records) >= floor_of(one.partitions, figures.top_record_share)


def test_candidates_hold_the_neighbours_and_what_was_asked_for() -> None:
    found = candidates(12, [37])
    assert {11, 12, 13, 24, 37} <= set(found)
    assert list(found) == sorted(set(found))
    assert min(candidates(1)) == 1


TRUTHS: dict[Callable[[], skew_world.Dataset], set[str]] = {
    skew_world.uniform: set(),
    skew_world.zipf: {"popular"},
    skew_world.data_bomb: {"chatty", "large"},
    skew_world.clumped: {"clumped"},
    skew_world.large_values: {"large"},
    skew_world.burst: {"bursty"},
    skew_world.foreign: {"foreign_partitioner"},
    skew_world.changed_count: {"foreign_partitioner"},
}


@pytest.mark.parametrize(("make", "truth"), TRUTHS.items(), ids=[one.__name__ for one in TRUTHS])
def test_each_truth_is_found_and_nothing_else(
    make: Callable[[], skew_world.Dataset], truth: set[str]
) -> None:
    assert {one.diagnosis for one in diagnose(skew_world.figures_of(make()))} == truth


def test_incident_a_in_words_and_figures() -> None:
    figures = skew_world.figures_of(skew_world.data_bomb())
    findings = diagnose(figures)
    assert findings[0].key is not None
    assert findings[0].key.key == b"2342565"
    assert findings[0].key.producer == "deal-admin"
    assert 240 <= findings[0].key.run_p95 <= 270
    advice = recommend(figures, findings)
    assert advice[0].action == "coalesce"
    assert advice[0].expected["removed_share"] > 0.9
    last = advice[-1]
    assert last.action == "keep-partitions"
    assert last.expected["max_useful_partitions"] == 1
    assert "more partitions do not help: by bytes a second partition is of no use" in last.why


def test_coalescing_is_no_advice_where_it_leaves_what_there_is() -> None:
    figures = skew_world.figures_of(skew_world.data_bomb())
    keys = [one._replace(kept=one.records) for one in figures.top_keys]
    figures = replace(figures, top_keys=keys)
    findings = diagnose(figures)
    assert "chatty" in {one.diagnosis for one in findings}
    assert "coalesce" not in {one.action for one in recommend(figures, findings)}


def test_incident_a_gets_worse_with_partitions() -> None:
    found = {one.partitions: one for one in what_if(skew_world.figures_of(skew_world.data_bomb()))}
    by_bytes = [found[count].max_over_mean_bytes for count in (3, 12, 20)]
    assert by_bytes == sorted(by_bytes)
    # nearly everything lies on one partition, however many there are
    assert by_bytes == pytest.approx([3, 12, 20], rel=0.02)


def test_two_clumped_keys_part_at_thirteen() -> None:
    figures = skew_world.figures_of(skew_world.clumped())
    found = {one.partitions: one.max_over_mean_records for one in what_if(figures)}
    assert found[12] > 1.3 * found[13]
    actions = {one.action: one for one in recommend(figures, diagnose(figures))}
    assert actions["partitions"].expected["partitions"] == 13
    assert "pin" in actions


def test_pinning_and_salting_zipf() -> None:
    figures = skew_world.figures_of(skew_world.zipf())
    present = figures.prediction(12)
    assert present is not None
    before = max_over_mean(present.records)
    fix = pinned(present, figures.top_keys[:50], by_bytes=False)
    floor = floor_of(12, figures.top_record_share)
    assert floor <= fix.max_over_mean_records < before
    hot = list(figures.top_keys[:2])
    split = salted(present, hot, [4, 2])
    assert split.max_over_mean_records < before
    assert present.records.sum() == figures.records  # neither changes what it was given


def test_the_earlier_count_is_named() -> None:
    assert earlier_partitions(skew_world.figures_of(skew_world.changed_count())) == 8
    assert earlier_partitions(skew_world.figures_of(skew_world.foreign())) is None
    text = diagnose(skew_world.figures_of(skew_world.foreign()))[0].text
    assert "CRC32" in text


def test_one_pinned_key_is_no_earlier_count() -> None:
    """What the audit itself recommends; every key on partition 0 is right on 1 partition."""
    world = skew_world.uniform()
    pinned_key = next(key for key in world.keys if skew_world.place(key, 12) != 0)
    is_pinned = np.array([key == pinned_key for key in world.keys])
    moved = replace(world, partition=np.where(is_pinned, 0, world.partition))
    figures = skew_world.figures_of(moved)
    assert figures.misplaced.records > 0
    assert earlier_partitions(figures) is None
    assert "or that names partitions" in cause_of(figures)


def test_few_records_are_not_judged() -> None:
    few = skew_world.made("few", 12, [b"one"] * 99, 900_000)
    assert diagnose(skew_world.figures_of(few)) == []


def test_a_popular_key_is_not_chatty_by_chance_runs() -> None:
    source = np.random.default_rng(7)
    every = skew_world.names(5000)
    keys = [every[0] if x < 0.5 else every[int(x * 5000)] for x in source.random(20_000)]
    figures = skew_world.figures_of(skew_world.made("half", 12, keys, 200))
    assert figures.top_keys[0].run_p95 >= 10  # long, but no longer than its share explains
    assert [one.diagnosis for one in diagnose(figures)] == ["popular"]


def test_nothing_outside_of_windows_is_not_even() -> None:
    """Two batches an hour apart: their skew is not that of the hours without records."""
    spread = np.arange(6000) * 200_000 // 6000
    times = skew_world.START_MS + spread + (np.arange(6000) >= 3000) * skew_world.HOUR_MS
    made = skew_world.made("nightly", 12, skew_world.zipf(6000).keys, 200, times)
    assert [one.diagnosis for one in diagnose(skew_world.figures_of(made))] == ["popular"]


def test_one_record_of_a_far_future_is_no_burst() -> None:
    """The heat map ends with the newest record, and may hold nothing else."""
    figures = skew_world.figures_of(skew_world.zipf(6000))
    heat = np.zeros((12, 8640))
    heat[3, -1] = 1.0
    far = replace(figures, heat_records=heat, heat_bytes=200 * heat)
    assert [one.diagnosis for one in diagnose(far)] == ["popular"]


def test_one_partition_has_nothing_to_balance() -> None:
    assert diagnose(skew_world.figures_of(skew_world.uniform(3000, partitions=1))) == []


def test_keyless_topics_have_no_useful_maximum() -> None:
    figures = replace(
        skew_world.figures_of(skew_world.uniform(3000)), top_keys=(), keyless_records=3000
    )
    assert max_useful_partitions(figures.p_max) is None


def test_fetch_advice_for_large_records() -> None:
    plain = fetch_advice(Sizes(200, 300, 400, 500))
    assert (plain.max_partition_fetch_bytes, plain.fetch_max_bytes) == (1_048_576, 52_428_800)
    large = fetch_advice(Sizes(300, 800_000, 800_000, 800_000))
    assert large.records_per_fetch == 1
    assert large.max_partition_fetch_bytes == 8_000_000
    assert "idle" in large.why
    huge = fetch_advice(Sizes(300, 300, 300, 60_000_000))
    assert huge.fetch_max_bytes == 60_000_000


def test_partitions_that_nobody_asked_for_are_not_empty_ones() -> None:
    whole = skew_world.figures_of(skew_world.uniform())
    part = skew_world.only(whole, (3, 7))
    assert max_over_mean(part.load_records) < 1.1
    assert diagnose(part) == []
    # one partition of zipf's has a key of much of it, which says nothing about the topic
    hottest = skew_world.figures_of(skew_world.zipf()).top_keys[0]
    zipf = skew_world.only(skew_world.figures_of(skew_world.zipf()), (hottest.partition,))
    assert diagnose(zipf) == []


def test_runs_are_found_in_the_partition_that_was_asked_for() -> None:
    whole = skew_world.figures_of(skew_world.data_bomb())
    at = whole.top_keys[0].partition
    part = skew_world.only(whole, tuple(sorted({at, (at + 1) % 12})))
    findings = diagnose(part)
    assert [str(one.diagnosis) for one in findings] == ["chatty", "large"]
    actions = {one.action for one in recommend(part, findings)}
    assert "coalesce" in actions
    assert not actions & {"pin", "salt", "partitions", "keep-partitions"}


def without_keys(heat: list[list[int]]) -> TopicFigures:
    """A topic of 4 partitions without keys. heat: records by window and partition."""
    cells = [
        {"window": window, "partition": partition, "keyless_records": count}
        for window, row in enumerate(heat)
        for partition, count in enumerate(row)
    ]
    load = np.array(heat).sum(axis=0).astype(np.float64)
    records = int(load.sum())
    return replace(
        skew_world.figures_of(skew_world.uniform(3000, partitions=4)),
        records=records, bytes=100 * records, keyless_records=records, keyless_bytes=100 * records,
        distinct_keys=0, load_records=load, load_bytes=100 * load, top_keys=(), predictions=(),
        heat_records=np.array(heat, dtype=np.float64).T, heat_bytes=np.array(heat).T * 100.0,
        keyless=keyless_of(cells, range(4)),
    )  # fmt: skip


def test_the_same_partition_again_and_again_is_named_by_somebody() -> None:
    figures = without_keys([[10, 10, 70, 10]] * 7 + [[10, 70, 10, 10]])
    assert figures.keyless is not None
    assert figures.keyless.records.tolist() == [80, 140, 500, 80]
    assert (figures.keyless.windows, figures.keyless.same) == (8, 7)
    (told,) = notes(figures)
    assert told.startswith("the 800 records without a key are uneven, and no key is the reason: ")
    assert "partition 2 has 2.50 times the mean of them; it is the fullest in 7 of 8" in told


def test_few_large_requests_are_uneven() -> None:
    one, other = [300, 5, 5, 5], [5, 5, 5, 100]
    for heat in ([one], [one, other, other, other, other, other, one, other]):
        (told,) = notes(without_keys(heat))
        assert "all events of a request without keys go to one partition" in told


def test_nothing_is_said_of_what_is_even_or_few_or_has_keys() -> None:
    assert notes(without_keys([[100, 100, 100, 120]] * 8)) == []
    assert notes(without_keys([[80, 5, 5, 5]])) == []
    uneven = without_keys([[300, 5, 5, 5]])
    assert notes(replace(uneven, records=700)) == []
    assert notes(skew_world.figures_of(skew_world.zipf())) == []


def test_the_number_of_a_partition_is_its_own_where_only_some_were_read() -> None:
    cells = [{"window": 0, "partition": one, "keyless_records": 200 * one} for one in (1, 6)]
    found = keyless_of(cells, (1, 6))
    figures = replace(without_keys([[300, 5, 5, 5]]), keyless=found, numbers=(1, 6), whole=9)
    assert "partition 6 has 1.71 times the mean" in notes(figures)[0]


def test_keys_in_many_windows_take_no_memory() -> None:
    cells = ({"window": one, "partition": 0, "keyless_records": 0} for one in range(5000))
    tracemalloc.start()
    found = keyless_of(cells, range(1000))
    _, max_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.records.sum() == 0
    assert max_bytes < 1_000_000, "an array of the partitions for each window were 40 MB"
