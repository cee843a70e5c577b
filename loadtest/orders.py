"""Orders: events of another shape than the deals of workload.py. Pure.

    {"version":"000000000007","placed":"...","lines":[{...}],"customer":{"name":"...","ref":
     "c-00000042","tier":2},"note":"..."}

The key is a string within an object in the middle, sizes vary from 200 to 2,400 bytes, and the text
has escapes and letters beyond ASCII. A key always has the same body, whatever number of keys there
is: 100,000 of them would otherwise take the generator 100 MB.
"""

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from workload import COUNTER_DIGITS, Shape, picks, prose, stream

KEY_POINTER = "/customer/ref"
KEY_BYTES = len("c-00000000")
SMALLEST, LARGEST = 200, 2_400
BODIES = 512
NAMES = ("Zoë Dvořák", "Ana O'Neill", 'Max \\"Mo\\" Weiß', "Li Ming", "José Núñez")
REF = b'"ref":"'


class Body(NamedTuple):
    """An order, cut where the counter and the key go."""

    middle: bytes
    tail: bytes

    def render(self, number: int, counter: int) -> bytes:
        middle, tail = self
        return b'{"version":"%0*d"%bc-%08d%b' % (COUNTER_DIGITS, counter, middle, number, tail)


def line(rng: random.Random) -> str:
    number, count, price = rng.randrange(10**6), rng.randrange(1, 9), rng.randrange(100, 10**5)
    return f'{{"item":"i-{number}","count":{count},"price":{price / 100},"gift":false}}'


def body(rng: random.Random) -> Body:
    size = round(SMALLEST * (LARGEST / SMALLEST) ** rng.random())  # as many below 700 as above
    lines = ",".join(line(rng) for _ in range(1 + size // 300))
    middle = f',"placed":"2026-11-24T08:15:{rng.randrange(60):02}Z","lines":[{lines}]'
    middle += f',"customer":{{"name":"{rng.choice(NAMES)}","ref":"'
    tail = f'","tier":{rng.randrange(1, 4)}}},"note":"\\n'
    known = 2 * COUNTER_DIGITS + KEY_BYTES + len(middle.encode()) + len(tail) + len('"}')
    return Body(middle.encode(), f'{tail}{prose(rng, max(0, size - known))}"}}'.encode())


@cache
def bodies(seed: int) -> tuple[Body, ...]:
    rng = random.Random(seed)
    return tuple(body(rng) for _ in range(BODIES))


def events(shape: Shape) -> Iterator[bytes]:
    """An endless stream of orders."""
    some = bodies(shape.seed)
    return stream(shape, lambda number, counter: some[number % BODIES].render(number, counter))


def every_key(shape: Shape) -> Iterator[bytes]:
    """Each key's `unchanged` order once: posted before a measured run of unchanged ones."""
    some = bodies(shape.seed)
    return (some[number % BODIES].render(number, 0) for number in sorted(set(picks(shape))))


def key_of(value: bytes) -> bytes:
    """The key of an order, found without reading the document."""
    start = value.index(REF) + len(REF)
    return value[start : start + KEY_BYTES]
