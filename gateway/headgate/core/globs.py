"""Globs of topic names: what they match, and which of two goes first."""

import re
from collections.abc import Iterable
from itertools import combinations

_WILDCARDS = "*?"


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard: `*` = any characters, `?` = one."""
    return any(sign in pattern for sign in _WILDCARDS)


def literal_prefix(pattern: str) -> str:
    """The pattern up to its first wildcard."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def glob_matches(pattern: str, name: str) -> bool:
    """Whether a glob, as in `topics` of a producer, matches this topic name."""
    return compiled(pattern).fullmatch(name) is not None


def overlap(one: str, other: str) -> bool:
    """Whether some name matches both globs (a walk over the pairs of places in the two)."""
    seen, todo = set(), [(0, 0)]
    while todo:
        at = todo.pop()
        if at == (len(one), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            todo += _next_places(one, other, *at)
    return False


def ties(patterns: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of globs between which no rule decides: equally long literal prefix, a name for both.

    Two prefixes of one name that are equally long are the same text, so only globs with the very
    same prefix can tie.
    """
    globs = sorted({pattern for pattern in patterns if is_glob(pattern)})
    return [
        (one, other)
        for one, other in combinations(globs, 2)
        if literal_prefix(one) == literal_prefix(other) and overlap(one, other)
    ]


def compiled(pattern: str) -> re.Pattern[str]:
    """The glob as an expression for the whole name."""
    # re keeps its own bounded cache of compiled patterns
    escaped = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(escaped, re.DOTALL)


def _next_places(one: str, other: str, i: int, j: int) -> list[tuple[int, int]]:
    a, b = one[i : i + 1], other[j : j + 1]
    places = []
    if a == "*":
        places += [(i + 1, j)] + ([(i, j + 1)] if b not in ("", "*") else [])
    if b == "*":
        places += [(i, j + 1)] + ([(i + 1, j)] if a not in ("", "*") else [])
    if a and b and "*" not in (a, b) and (a == b or "?" in (a, b)):
        places.append((i + 1, j + 1))
    return places
