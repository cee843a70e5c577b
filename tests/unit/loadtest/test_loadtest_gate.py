"""The verdict of the performance gate, on figures with a known difference."""

import random
from collections.abc import Callable

import pytest

import gate
from gate import Row, Unusable, commit_of, judge, rows_table

TOLERANCE = 0.05


def row(change: float, deviation: float, rounds: int, seed: int = 1) -> Row:
    """Costs of equal gateways, but for the head's `change`; each run varies by `deviation`.

    Rounds have a mood in common, as those of a shared machine.
    """
    chance = random.Random(seed)
    sides: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(rounds):
        mood = 100.0 * chance.uniform(0.6, 1.7)
        for side, factor in zip(sides, (1.0, 1.0, 1.0 + change), strict=True):
            side.append(mood * factor * (1.0 + chance.gauss(0.0, deviation)))
    return Row("single", "gateway", *sides)


def share(state: str, of: Callable[[int], Row]) -> float:
    return sum(judge(of(seed), TOLERANCE).state == state for seed in range(1000)) / 1000


@pytest.mark.parametrize("change", [-0.5, 0.0, 0.03])
def test_an_equal_commit_passes_whatever_the_mood_of_the_machine(change: float) -> None:
    assert judge(row(change, 0.002, 7), TOLERANCE).state == "ok"


@pytest.mark.parametrize("change", [0.08, 0.2, 3.0])
def test_a_slower_commit_fails(change: float) -> None:
    verdict = judge(row(change, 0.002, 7), TOLERANCE)
    assert verdict.state == "worse"
    assert verdict.change == pytest.approx(change, abs=0.01)


def test_noise_above_the_tolerance_decides_nothing() -> None:
    assert judge(row(0.0, 0.2, 7), TOLERANCE).state == "noisy"


def test_a_much_slower_commit_fails_through_the_noise() -> None:
    assert judge(row(3.0, 0.2, 7), TOLERANCE).state == "worse"


def test_more_rounds_decide() -> None:
    few = share("noisy", lambda seed: row(0.0, 0.05, 3, seed))
    many = share("noisy", lambda seed: row(0.0, 0.05, 21, seed))
    assert few > 0.9
    assert many < 0.1


@pytest.mark.parametrize("rounds", [3, 7, 21])
@pytest.mark.parametrize("deviation", [0.005, 0.02, 0.05])
def test_false_alarms_are_rare(deviation: float, rounds: int) -> None:
    """A commit at the tolerance itself, the worst one that may pass."""
    assert share("worse", lambda seed: row(TOLERANCE, deviation, rounds, seed)) < 0.06


def test_a_change_of_twice_the_tolerance_is_found() -> None:
    assert share("worse", lambda seed: row(2 * TOLERANCE, 0.02, 7, seed)) > 0.9


def test_the_table_names_what_is_worse() -> None:
    text = rows_table([row(0.2, 0.002, 7), row(0.0, 0.002, 7)], TOLERANCE)
    verdicts = [line.split("|")[-2].strip() for line in text.splitlines()[2:]]
    assert verdicts == ["worse", "ok"]
    assert "+20." in text or "+19." in text


def test_a_base_that_is_no_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unusable, match="--base no-such-commit"):
        commit_of("no-such-commit")

    def no_tag(*words: str) -> str:
        raise Unusable("fatal: No names found")

    monkeypatch.setattr(gate, "git", no_tag)
    with pytest.raises(Unusable, match="name a commit with --base"):
        commit_of("")
