"""The incident's own rules: what it posts, and that a broken promise is seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from incident_a.deal import Deal
from incident_a.plan import FULL, QUICK, Case, Result, broken, settings_of

SETTINGS = settings_of(FULL, "deals")
OFF, RAW, COALESCE, LEADING, FITTING, BURST = SETTINGS


def result(case: Case, log: list[int], outcomes: dict[str, int], **more: Any) -> Result:
    made = Result(case, 1013, 51.0, 0, outcomes, log, 800_000 * len(log), True)
    return made._replace(**more)


def test_the_incident_is_1013_saves_of_800_kB() -> None:
    deal = Deal(FULL, "deal", changes=True)
    sizes = [len(text) for text in deal.saves()]
    assert len(sizes) == FULL.saves == 1013
    assert 780_000 < min(sizes) <= max(sizes) < 820_000


@pytest.mark.parametrize("changes", [True, False])
def test_the_deal_is_another_one_in_the_end_or_the_same(changes: bool) -> None:
    deal = Deal(QUICK, "deal", changes=changes)
    saves = list(deal.saves())
    on = [one["active"] for one in json.loads(saves[-1])["options"]]
    assert (sum(on), len(on)) == (QUICK.back_on, QUICK.options)
    assert (saves[-1] != deal.before()) is changes


def test_what_the_incident_promises_is_kept() -> None:
    held = {"held": 1013}
    assert broken(result(Case(OFF, 20, True), list(range(1013)), {"published": 1013})) == []
    raw = {"published": 826, "unchanged": 187}
    assert broken(result(Case(RAW, 20, False), list(range(187, 1013)), raw)) == []
    assert broken(result(Case(COALESCE, 20, True), [200, 400, 600, 800, 1000, 1012], held)) == []
    assert broken(result(Case(FITTING, 20, False), [], held)) == []
    assert broken(result(Case(BURST, 20, True), [1012], held)) == []
    assert broken(result(Case(LEADING, 20, False), [0, 1012], held)) == []


@pytest.mark.parametrize(
    ("case", "log", "outcomes", "more", "words"),
    [
        (Case(OFF, 20, True), [0, 1], {"published": 2, "unchanged": 1011}, {}, "of 1013 saves"),
        (Case(RAW, 20, True), [0, 1], {"published": 1013}, {}, "answers"),
        (Case(COALESCE, 20, True), list(range(9)), {"held": 1013}, {}, "at most 8"),
        (Case(COALESCE, 20, True), [5, 4], {"held": 1013}, {}, "out of order"),
        (Case(COALESCE, 20, True), [4, 4], {"held": 1013}, {}, "repeated"),
        (Case(COALESCE, 20, True), [4], {"held": 1012}, {}, "answers"),
        (Case(COALESCE, 20, True), [4], {"held": 1013}, {"is_last_in_log": False}, "the last"),
        (Case(FITTING, 20, False), [4], {"held": 1013}, {}, "at most 0"),
        (Case(FITTING, 20, True), [4, 5], {"held": 1013}, {}, "at most 1"),
    ],
)
def test_what_is_broken_is_seen(
    case: Case, log: list[int], outcomes: dict[str, int], more: dict[str, Any], words: str
) -> None:
    assert any(words in fault for fault in broken(result(case, log, outcomes, **more)))
