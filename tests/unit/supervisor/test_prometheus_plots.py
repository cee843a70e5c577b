"""Plots from Prometheus: what it is asked, what its answer means, what if there is none."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headgate.edge.console.plots import Recorded
from headgate.stats import recorder
from headgate.stats.recorder import Recorder
from headgate.supervisor.prometheus import PrometheusPlots, query
from support.network.prometheus_answers import PrometheusAnswers


def kept() -> Recorded:
    found = Recorder()
    found.whole.note(600, {recorder.EVENTS: {("", "", "published", ""): 70.0}}, {})
    return Recorded(found)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            (recorder.EVENTS, (2, 3), {}),
            "sum by (outcome,reason) (rate(headgate_events_total[60s]))",
        ),
        (
            (recorder.BYTES, (1,), {0: {"shop"}}),
            'sum by (topic) (rate(headgate_event_bytes_sum{producer=~"shop"}[60s]))',
        ),
        (("headgate_held_lag", (), {}), "sum (headgate_held_lag)"),
        (
            (recorder.RECORDS_WRITTEN, (1,), {0: {'a"b', "c.d"}}),
            "sum by (partition) (rate(headgate_partition_records_total"
            '{topic=~"a\\\\x{22}b|c\\\\x{2e}d"}[60s]))',
        ),
    ],
)
def test_what_it_is_asked(asked: tuple[Any, ...], text: str) -> None:
    assert query(*asked, 15.0).text == text


async def test_its_answer_is_what_plots_need_and_is_kept_for_a_moment() -> None:
    prometheus = PrometheusAnswers()
    async with prometheus.running() as url:
        plots = PrometheusPlots(url, kept())
        found = await plots.read(recorder.EVENTS, by=(2,), span_s=3600)
        again = await plots.read(recorder.EVENTS, by=(2,), span_s=3600)
    assert plots.source == "Prometheus"
    assert len(prometheus.forms) == 1
    assert again is found
    assert found.step_s == 15
    assert abs(found.start - (time.time() - 3600)) < 30
    assert found.rows[("published",)][:3] == [1.5, 0.0, 4.0]
    assert found.rows[("rejected",)][:3] == [1.5, 0.0, 0.0]
    assert len(found.rows[("published",)]) == 241


@pytest.mark.parametrize("answer", [{"status": "error"}, [], {"data": {"result": [{}]}}])
async def test_while_it_makes_no_sense_there_is_what_was_kept(answer: object) -> None:
    prometheus = PrometheusAnswers()
    prometheus.answer = answer
    async with prometheus.running() as url:
        plots = PrometheusPlots(url, kept())
        for _ in range(3):
            found = await plots.read(recorder.EVENTS, by=(2,))
            assert found.rows == {("published",): [7.0]}
    assert "Prometheus does not answer" in plots.source
    assert len(prometheus.forms) == 1  # and it is left alone for a while
