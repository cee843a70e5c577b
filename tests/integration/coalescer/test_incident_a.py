"""Incident A (docs/design/incidents.md): a thousand saves of one deal, a handful of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from incident_a.plan import FULL, SMALL, Case, Result, Scale, broken, settings_of
from incident_a.run import prepare, run
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(900)]
OFF, RAW, COALESCE, LEADING, FITTING, BURST = range(6)


@pytest.fixture
def run_cases(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Callable[..., list[Result]]:
    """Run these cases on two gateways in turn; each case has to keep what it promises.

    cases: (setting, saves a second, whether the deal changes).  workers: of each gateway.
    """

    def run_all(
        scale: Scale, cases: Iterable[tuple[int, float | None, bool]], workers: int
    ) -> list[Result]:
        settings = settings_of(scale, topic_name[-8:])
        text = prepare(kafka, redis_server.url, settings, tmp_path)
        many = ("--workers", str(workers))
        gateways = [start_gateway(text, *many, wait=False) for _ in range(2)]
        for gateway in gateways:
            gateway.wait(60)
        results = [
            run(Case(settings[number], rate, changes), scale, kafka, gateways)
            for number, rate, changes in cases
        ]
        for one in results:
            record_property(one.case.title, (one.records, one.bytes, one.gaps))
        faults = [f"{one.case.title}: {fault}" for one in results for fault in broken(one)]
        assert not faults, faults
        return results

    return run_all


def test_a_small_bomb_becomes_a_few_records_with_the_last_state(
    run_cases: Callable[..., list[Result]],
) -> None:
    cases = [
        (OFF, None, True),
        (RAW, None, False),
        (COALESCE, 20.0, True),
        (LEADING, None, True),
        (FITTING, None, False),
        (BURST, None, False),
    ]
    results = run_cases(SMALL, cases, workers=1)
    off, raw = (one.records for one in results[:2])
    # An equal save that the other gateway gets before the first is settled is published.
    assert SMALL.saves - 19 <= raw < off == SMALL.saves


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_bomb_behind_two_gateways_of_two_workers(
    run_cases: Callable[..., list[Result]],
) -> None:
    numbers = (COALESCE, LEADING, FITTING, BURST)
    run_cases(FULL, [(one, 20.0, changes) for one in numbers for changes in (True, False)], 2)
