"""The partition counts that are tried, and the pictures of the load on each."""

from __future__ import annotations

import json

import pytest

from headgate_spark.audit.predictions import MAX_BARS, candidates, shape, what_if
from support.scenarios import skew_world


def test_candidates_are_enough_to_slide_over_and_few_enough_to_count() -> None:
    for present in (1, 2, 3, 7, 12, 50, 100, 333, 999, 1000, 5000):
        found = candidates(present)
        assert present in found
        assert 15 <= len(found) <= 32, present
        below, above = (sum(one < present for one in found), sum(one > present for one in found))
        assert below >= min(present - 1, 4)
        assert above >= 4 or present >= 999


def test_the_shape_is_what_the_prediction_says() -> None:
    figures = skew_world.figures_of(skew_world.zipf(), (3, 96, 97, 500))
    for one, row in zip(figures.predictions, what_if(figures), strict=True):
        found = shape(one)
        for bars, load, most in (
            (found.records, one.records, row.max_over_mean_records),
            (found.bytes, one.bytes, row.max_over_mean_bytes),
        ):
            assert len(bars) == min(one.partitions, MAX_BARS)
            assert max(bars) == pytest.approx(most, abs=0.005)
            if found.of == "partitions":
                assert bars == pytest.approx(list(load / load.mean()), abs=0.005)
            else:
                assert one.partitions > MAX_BARS
                assert bars == sorted(bars)


def test_the_shapes_of_all_counts_are_small() -> None:
    for present in (12, 100, 1000):
        figures = skew_world.figures_of(skew_world.zipf(2000, present), candidates(present))
        shapes = [shape(one)._asdict() for one in figures.predictions]
        assert len(json.dumps(shapes)) < 20_000
