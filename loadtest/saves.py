"""Saves: documents of 1 kB for canonical comparison, written in one way or in many. Pure.

    {"id":"save-000042","version":"000000000007","updated_at":"...","merchant":{...},...,"text":"..."}

Those written in many ways have the same values, but for `updated_at`, in another order of names and
with blanks: to a topic that ignores that member they are the same.
"""

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import cycle

from workload import COUNTER_DIGITS, WORDS, Shape, Template, picks, prose, stream

IGNORED = "/updated_at"
SAVE_BYTES = 1_024
WAYS = 8
_COUNTER = "#" * COUNTER_DIGITS


def document(number: int, seed: int) -> dict[str, object]:
    """The save of key number `number`, without its counter."""
    rng = random.Random(f"{seed} {number}")
    found: dict[str, object] = {
        "id": f"save-{number:06}",
        "version": _COUNTER,
        "updated_at": "2026-11-24T08:15:00Z",
        "type": "deal.updated",
        "merchant": {"id": rng.randrange(10**6), "name": prose(rng, 12), "city": prose(rng, 8)},
        "price": rng.randrange(100, 10**5) / 100,
        "currency": "EUR",
        "active": rng.random() < 0.7,
        "tags": [rng.choice(WORDS) for _ in range(4)],
        "options": [
            {"name": prose(rng, 10), "price": rng.randrange(10**4), "stock": {"left": 7, "sold": n}}
            for n in range(3)
        ],
        "title": prose(rng, 40),
        "text": "",
    }
    room = SAVE_BYTES - len(json.dumps(found, separators=(",", ":")))
    return {**found, "text": prose(rng, room)}


def written(number: int, seed: int, way: int) -> Template:
    """Way 0 is always the same; the others differ from it in what does not count."""
    found = document(number, seed)
    text = json.dumps(found, separators=(",", ":"))
    if way:
        rng = random.Random(f"{seed} {number} {way}")
        names = rng.sample([*found], k=len(found))
        found["updated_at"] = f"2026-11-25T08:{rng.randrange(60):02}:00Z"
        text = json.dumps({name: found[name] for name in names})
    head, _, tail = text.partition(_COUNTER)
    return Template(head.encode(), tail.encode())


@cache
def templates(seed: int, key_count: int, ways: int) -> list[list[Template]]:
    """By way and key."""
    return [[written(number, seed, way) for number in range(key_count)] for way in range(ways)]


class Saves:
    """ways: in how many each document is written, one after the other."""

    def __init__(self, ways: int) -> None:
        self._ways = ways

    def events(self, shape: Shape) -> Iterator[bytes]:
        """An endless stream of saves."""
        ways = cycle(templates(shape.seed, shape.key_count, self._ways))
        return stream(shape, lambda number, counter: next(ways)[number].render(counter))

    def every_key(self, shape: Shape) -> Iterator[bytes]:
        """Each key's `unchanged` save once: posted before a measured run of unchanged ones."""
        first = templates(shape.seed, shape.key_count, 1)[0]
        return (first[number].render(0) for number in sorted(set(picks(shape))))
