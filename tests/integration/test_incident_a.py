"""Incident A of the mission: a thousand saves of one deal, a handful of records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from incident_a.plan import FULL, SMALL, Case, Result, Scale, Setting, broken, settings_of
from incident_a.run import prepare, run
from stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
OFF, RAW, COALESCE, LEADING, FITTING, BURST = range(6)


@pytest.fixture
def run_cases(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Callable[[Scale, Callable[[list[Setting]], list[Case]]], list[Result]]:
    """Run these cases on one gateway; each has to keep what it promises."""

    def run_all(scale: Scale, cases_of: Callable[[list[Setting]], list[Case]]) -> list[Result]:
        settings = settings_of(scale, topic_name[-8:])
        gateway = start_gateway(prepare(kafka, redis_server.url, settings, tmp_path))
        results = [run(case, scale, kafka, gateway) for case in cases_of(settings)]
        for one in results:
            record_property(one.case.title, (one.records, one.bytes, one.gaps))
        faults = [f"{one.case.title}: {fault}" for one in results for fault in broken(one)]
        assert not faults, faults
        return results

    return run_all


def test_a_small_bomb_becomes_a_few_records_with_the_last_state(
    run_cases: Callable[..., list[Result]],
) -> None:
    def cases(settings: list[Setting]) -> list[Case]:
        return [
            Case(settings[OFF], None, True),
            Case(settings[RAW], None, False),
            Case(settings[COALESCE], 20.0, True),
            Case(settings[LEADING], None, True),
            Case(settings[FITTING], None, False),
            Case(settings[FITTING], None, True),
            Case(settings[BURST], 20.0, False),
        ]

    results = run_cases(SMALL, cases)
    assert [one.records for one in results[:2]] == [SMALL.saves, SMALL.saves - 19]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_bomb_with_every_setting(run_cases: Callable[..., list[Result]]) -> None:
    def cases(settings: list[Setting]) -> list[Case]:
        return [
            Case(setting, rate, changes)
            for setting in settings
            for rate in (20.0, None)
            for changes in (True, False)
        ]

    run_cases(FULL, cases)
