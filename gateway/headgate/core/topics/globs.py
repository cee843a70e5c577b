"""Globs of topic names: what they match, and which of two goes first."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product

_WILDCARDS = "*?"


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard: `*` = any characters, `?` = one."""
    return any(sign in pattern for sign in _WILDCARDS)


def literal_prefix(pattern: str) -> str:
    """The pattern up to its first wildcard."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


def literal_suffix(pattern: str) -> str:
    """The pattern from behind its last wildcard."""
    return re.split(r"[*?]", pattern)[-1]


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


def ties(patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of globs between which no rule decides: equally long literal prefix, a name for both.

    Two prefixes of one name that are equally long are the same text, so only globs with the very
    same prefix can tie; and of two suffixes of one name the shorter one ends the other. So only
    globs that are alike at both ends are compared, not each with each.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for glob in sorted({pattern for pattern in patterns if is_glob(pattern)}):
        alike.setdefault((literal_prefix(glob), literal_suffix(glob)), []).append(glob)
    for (prefix, suffix), globs in alike.items():
        pairs = chain(
            combinations(globs, 2),
            *(
                product(globs, alike.get((prefix, suffix[start:]), ()))
                for start in range(1, len(suffix) + 1)
            ),
        )
        for one, other in pairs:
            if overlap(one, other):
                yield min(one, other), max(one, other)


class Globs:
    """Several globs; a name matches when one of them does.

    Compiled at the first match, and then for good: a configuration may have thousands, most of
    which are not needed soon, and re's own cache forgets all but the last 512.
    """

    __slots__ = ("_expression", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._expression: re.Pattern[str] | None = None

    def match(self, name: str) -> bool:
        """Whether one of them matches this topic name; without any, none does."""
        if self._expression is None:
            joined = "|".join(map(_expression, self.patterns)) if self.patterns else r"(?!)"
            self._expression = re.compile(joined, re.DOTALL)
        return self._expression.fullmatch(name) is not None


def _expression(pattern: str) -> str:
    """Each literal is taken where it first fits, for good (`(?>`): going back finds no match that
    this does not find, and with several `*` would take the power of their number."""
    first, *parts = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if not parts:
        return first
    *middle, last = parts
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


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
