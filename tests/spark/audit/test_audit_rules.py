"""Measures, what-if, diagnosis and advice, on data whose truth is known; no Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from headgate_spark.audit.advice import fetch_advice, recommend
from headgate_spark.audit.collect import keyless_of
from headgate_spark.audit.diagnosis import (
    Diagnosis,
    cause_of,
    diagnose,
    earlier_partitions,
    notes,
)
from headgate_spark.audit.figures import Keyless, Sizes, TopicFigures
from headgate_spark.audit.measures import (
    balance,
    floor_of,
    gini,
    is_uneven,
    lorenz,
    lower_bound,
    max_over_mean,
    max_useful_partitions,
)
from headgate_spark.audit.predictions import candidates, pinned, salted, what_if
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
    skew_world.empty_keys: {"foreign_partitioner"},
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
    assert figures.misplaced_records > 0
    assert earlier_partitions(figures) is None
    assert "or that names partitions" in cause_of(figures)


def with_heat(
    figures: TopicFigures, records: NDArray[np.float64], sizes: NDArray[np.float64]
) -> TopicFigures:
    """Figures with another load over time."""
    busy = skew_world.busy_of(records, sizes, figures.records, figures.bytes)
    return replace(figures, busy=busy, heat=skew_world.heat_of(sizes))


def foreign_records(count: int, of: int) -> TopicFigures:
    """A topic of which so many records of one producer are on another partition."""
    world = skew_world.uniform(of)
    partition = world.partition.copy()
    partition[:count] = (partition[:count] + 1) % world.partitions
    who = ["by-hand" if number < 20 else "web" for number in range(of)]
    return skew_world.figures_of(replace(world, partition=partition, producers=who))


def test_the_lower_bound_is_that_of_wilson() -> None:
    # by the formula of the paper, with z = 1.6449 for one side of 95 %
    for count, total in ((3, 1504), (0, 10), (10, 10), (500, 1000)):
        z, share = 1.6448536269514722, count / total
        root = z * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
        expected = (share + z**2 / (2 * total) - root) / (1 + z**2 / total)
        assert lower_bound(count, total) == pytest.approx(expected, abs=1e-12)
    assert lower_bound(0, 0) == 0.0
    assert lower_bound(3, 1504) < 0.001 < 3 / 1504


def test_chance_alone_is_seldom_uneven() -> None:
    source = np.random.default_rng(8)
    for partitions, records in ((12, 100), (100, 300), (1000, 300), (1000, 1504), (1000, 9000)):
        drawn = source.integers(0, partitions, (300, records))
        loads = [np.bincount(one, minlength=partitions).astype(np.float64) for one in drawn]
        assert sum(is_uneven(one, records) for one in loads) <= 30, (partitions, records)
    assert is_uneven(np.array([900.0, 10.0, 10.0]), 920)
    assert not is_uneven(np.array([900.0, 10.0, 10.0]), 920, above=2.95)


def test_a_few_misplaced_records_are_no_finding() -> None:
    few = foreign_records(3, 1504)
    assert few.misplaced_records == 3
    assert few.misplaced_records / few.records > 0.001  # which was the threshold
    assert diagnose(few) == []
    assert recommend(few, diagnose(few)) == []
    many = diagnose(foreign_records(300, 150_400))
    assert [one.diagnosis for one in many] == [Diagnosis.FOREIGN_PARTITIONER]


@pytest.mark.parametrize("partitions", [12, 100, 1000])
@pytest.mark.parametrize("records", [100, 300, 1504])
def test_even_keys_are_nothing_however_few_they_are(partitions: int, records: int) -> None:
    """With a record or two for each partition, loads and keys are uneven by chance."""
    source = np.random.default_rng(records)
    every = skew_world.names(20 * records)
    found = []
    for number in range(5):
        keys = [every[one] for one in source.integers(0, len(every), records)]
        sizes = source.integers(80, 400, records)
        world = skew_world.made(f"few-{number}", partitions, keys, sizes)
        found += diagnose(skew_world.figures_of(world, (partitions,)))
    assert found == []


def test_the_producer_whose_records_are_misplaced_is_named() -> None:
    figures = skew_world.figures_of(skew_world.foreign())
    (finding,) = diagnose(figures)
    assert "producer legacy (" in finding.text
    assert "CRC32" in finding.text
    assert "web" not in finding.text
    (advice,) = recommend(figures, [finding])
    assert advice.action == "set-partitioner"
    assert "producer legacy (" in advice.why


def test_empty_keys_do_not_hide_librdkafka() -> None:
    """Its default spreads them: a fiftieth of the misplaced keys here, a tenth of the records."""
    figures = skew_world.figures_of(skew_world.empty_keys())
    (legacy,) = figures.misplaced
    assert legacy.crc32 < 0.95 * legacy.records
    assert legacy.empty >= 0.05 * legacy.records
    text = diagnose(figures)[0].text
    assert "producer legacy" in text
    assert "CRC32, which spreads empty keys at random" in text
    alone = replace(figures, misplaced=(legacy._replace(records=legacy.empty, crc32=0),))
    assert "all have the empty key, which librdkafka's default" in cause_of(alone)


def test_each_producer_has_its_own_cause() -> None:
    """One is a foreign client, another wrote before partitions were added."""
    first, second = skew_world.foreign(), skew_world.changed_count()
    both = replace(
        first,
        keys=first.keys + second.keys,
        partition=np.concatenate([first.partition, second.partition]),
        sizes=np.concatenate([first.sizes, second.sizes]),
        times_ms=np.concatenate([first.times_ms, second.times_ms]),
        producers=[*first.producers, *(["old"] * len(second))],
    )
    figures = skew_world.figures_of(both)
    assert earlier_partitions(figures) is None
    text = cause_of(figures)
    assert "producer legacy (" in text
    assert "producer old (" in text
    assert "CRC32" in text
    assert "they were written when the topic had 8 partitions" in text
    advice = {one.action: one for one in recommend(figures, diagnose(figures))}
    assert "producer old (" in advice["wait-for-retention"].why
    assert "legacy" not in advice["wait-for-retention"].why
    assert "producer legacy (" in advice["set-partitioner"].why


def test_an_empty_key_has_a_name_in_sentences() -> None:
    keys = [b"" if number % 2 else b"key-%d" % number for number in range(4000)]
    figures = skew_world.figures_of(skew_world.made("empty", 12, keys, 200))
    texts = [one.text for one in diagnose(figures)]
    assert any("key (the empty key) is 50.0% of the records" in one for one in texts), texts


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
    far = with_heat(figures, heat, 200 * heat)
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
    load = np.array(heat).sum(axis=0).astype(np.float64)
    enough = [int(np.argmax(row)) for row in heat if sum(row) >= 20]
    records = int(load.sum())
    figures = replace(
        skew_world.figures_of(skew_world.uniform(3000, partitions=4)),
        records=records, bytes=100 * records, keyless_records=records, keyless_bytes=100 * records,
        distinct_keys=0, load_records=load, load_bytes=100 * load, top_keys=(), predictions=(),
        keyless=keyless_of(load, {one: enough.count(one) for one in enough}, range(4)),
    )  # fmt: skip
    return with_heat(figures, np.array(heat, dtype=np.float64).T, np.array(heat).T * 100.0)


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
    found = keyless_of(np.array([200.0, 1200.0]), {6: 1}, (1, 6))
    assert found == Keyless(found.records, 1, 1)
    figures = replace(
        without_keys([[300, 5, 5, 5]]), keyless=found, numbers=(1, 6), topic_partitions=9
    )
    assert "partition 6 has 1.71 times the mean" in notes(figures)[0]
