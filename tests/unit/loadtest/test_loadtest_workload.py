"""The load test's events: sizes, keys, and what changes from one to the next."""

from collections import Counter
from itertools import islice

import orjson
import pytest

from workload import (
    BOMB_BACK_ON,
    BOMB_OPTIONS,
    EVENT_BYTES,
    KEY_COUNT,
    Keys,
    Mode,
    Shape,
    bomb_saves,
    events,
    every_key,
)

MANY = 5_000


def posted(keys: Keys = "uniform", mode: Mode = "published", first: int = 0) -> list[bytes]:
    return list(islice(events(Shape(keys, mode, first=first)), MANY))


def keys_of(values: list[bytes]) -> Counter[str]:
    return Counter(orjson.loads(value)["id"] for value in values)


@pytest.mark.parametrize("keys", ["uniform", "zipf", "hot", "new"])
def test_events_have_the_size_whatever_the_counter(keys: Keys) -> None:
    assert {len(value) for value in posted(keys, first=123_456)} == {EVENT_BYTES}


def test_the_same_seed_gives_the_same_events() -> None:
    assert posted() == posted()
    assert posted() != list(islice(events(Shape(seed=2)), MANY))


def test_published_events_never_repeat_also_over_runs() -> None:
    values = posted() + posted(first=MANY)
    assert len(set(values)) == 2 * MANY


def test_unchanged_events_repeat_what_was_primed() -> None:
    shape = Shape(mode="unchanged")
    primed = set(every_key(shape))
    assert len(primed) == KEY_COUNT
    assert set(islice(events(shape), MANY)) <= primed


def test_uniform_keys_are_even_zipf_are_not_hot_is_one() -> None:
    uniform, zipf, hot = (keys_of(posted(keys)) for keys in ("uniform", "zipf", "hot"))
    assert len(uniform) > KEY_COUNT * 0.98
    assert uniform.most_common(1)[0][1] < 0.005 * MANY
    assert zipf.most_common(1)[0][1] > 0.1 * MANY
    assert len(hot) == 1


def test_new_keys_never_come_twice_also_over_runs() -> None:
    assert len(keys_of(posted("new") + posted("new", first=MANY))) == 2 * MANY


def test_the_bomb_is_1013_saves_of_one_deal_that_flip_one_option_each() -> None:
    saves = bomb_saves(seed=1)
    before = [True] * BOMB_OPTIONS
    count = 0
    for value in saves:
        assert 795_000 < len(value) < 805_000
        count += 1
        if count % 100 == 1:  # parsing all 800 MB would take a while
            deal = orjson.loads(value)
            assert deal["id"] == "2342565"
            active = [option["active"] for option in deal["options"]]
            assert active != before
            before = active
    assert count == BOMB_OPTIONS + BOMB_BACK_ON == 1_013
    assert sum(option["active"] for option in orjson.loads(value)["options"]) == BOMB_BACK_ON


def test_bursts_of_the_bomb_differ() -> None:
    first, second = next(bomb_saves(1, 0)), next(bomb_saves(1, 1))
    assert first != second
    assert len(first) == len(second)
