"""Random JSON texts that are unusual where canonical forms are: numbers, names, order, blanks."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

_DIGITS = [0, 1, 1, 1, 2, 3, 5, 13, 14, 15, 16, 17, 18, 19, 20, 25]
_EXPONENTS = ["", "", "", "", "", "", "e0", "e5", "E-3", "e+17", "e200", "e-201", "e400"]
NAMES = [
    "", "a", "b", "aa", "ab", "a b", "a\x7f", "A", "_", "é", "ключ", "\uffff", "\U0001f600",
    "at", "att", "by", "n", "updated_at", "updated_atx", "x" * 15, "x" * 16, "x" * 17, "x" * 40,
]  # fmt: skip
TEXTS = [*NAMES, "line\n", 'quote"', "\\", '\\\\"', "\b\f\r\t", "/", "\u2028", "t" * 100, "\x01"]
BLANKS = ["", "", "", " ", "\t ", "  "]


def number(rng: random.Random) -> str:
    """Of every shape, with as many digits as matter; now and then a plain one."""
    if rng.random() < 0.4:
        return rng.choice(["0", "1", "-1", "42", "19.5", "0.1", "-0", "-0.0", "1.0", "100", "1.50"])
    whole = _digits(rng).lstrip("0") or "0"
    fraction = _digits(rng)
    if rng.random() < 0.3:
        fraction = "0" * rng.randrange(7) + fraction
    if rng.random() < 0.3:
        fraction += "0" * rng.randrange(4)
    tail = "." + fraction if fraction and rng.random() < 0.7 else ""
    return rng.choice(["", "", "-"]) + whole + tail + rng.choice(_EXPONENTS)


def _digits(rng: random.Random) -> str:
    return "".join(rng.choices("0123456789", k=rng.choice(_DIGITS)))


def text(rng: random.Random, some: Sequence[str] = TEXTS) -> str:
    """A string, seldom with an escape that it does not need."""
    return json.dumps(rng.choice(some), ensure_ascii=rng.random() < 0.02)


def value(rng: random.Random, depth: int) -> str:
    """Any value, at most so many arrays and objects deep."""
    kind = rng.random()
    if depth > 0 and kind < 0.25:
        return members(rng, depth, rng.randrange(6))
    if depth > 0 and kind < 0.4:
        inner = (_blank(rng) + value(rng, depth - 1) for _ in range(rng.randrange(4)))
        return "[" + ",".join(inner) + _blank(rng) + "]"
    if kind < 0.65:
        return number(rng)
    return rng.choice(["true", "false", "null"]) if kind < 0.8 else text(rng)


def members(rng: random.Random, depth: int, count: int, more: Sequence[str] = ()) -> str:
    """An object of so many members and those besides; now and then two have one name."""
    names = [rng.choice(NAMES) for _ in range(count)]
    if rng.random() < 0.95:
        names = [*dict.fromkeys(names)]
    found = [*more, *(f"{text(rng, [name])}:{value(rng, depth - 1)}" for name in names)]
    rng.shuffle(found)
    blanks = [_blank(rng) for _ in range(3)]
    return "{" + blanks[0] + f"{blanks[1]},{blanks[2]}".join(found) + blanks[1] + "}"


def _blank(rng: random.Random) -> str:
    return rng.choice(BLANKS)
