"""How what two topics say of a key differs: in what it costs, or in what consumers learn."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from headgate.core.side_by_side.history import History, Side

EXAMPLES: Final = 5  # keys that are named for each finding


class Finding(StrEnum):
    """Of one key."""

    SAME = "same"  # record by record
    FEWER_REPEATS = "same but for repeats"
    FEWER_STATES = "same end, fewer states"  # the second leaves out some, as coalescing does
    EDGE = "too near to an end of the time"
    REFERENCE = "refers to its values"
    MAYBE_BEFORE = "perhaps unchanged since before"
    SPLIT = "in several partitions"
    ONLY_FIRST = "only in the first"
    ONLY_SECOND = "only in the second"
    MORE_STATES = "same end, more states"  # the second has some that the first never had
    OTHER_STATES = "same end, other states"
    OTHER_ORDER = "in another order"
    OTHER_END = "another end"

    @property
    def is_difference(self) -> bool:
        """Whether consumers of the two would learn something else."""
        return self in _DIFFERENCES

    @property
    def is_judged(self) -> bool:
        """Whether anything can be said."""
        return self not in _UNJUDGED


_UNJUDGED: Final = (Finding.EDGE, Finding.REFERENCE, Finding.MAYBE_BEFORE)
_DIFFERENCES: Final = (
    Finding.SPLIT, Finding.ONLY_FIRST, Finding.ONLY_SECOND, Finding.MORE_STATES,
    Finding.OTHER_STATES, Finding.OTHER_ORDER, Finding.OTHER_END,
)  # fmt: skip


class Found(NamedTuple):
    """How many keys, and some of them."""

    keys: int
    examples: tuple[bytes, ...]


def findings(first: Side, second: Side, *, has_before: bool) -> dict[Finding, Found]:
    """What is found of all keys, in the order of `Finding`; nothing that was found of none.

    has_before: there are records before the window, so that a key may have got its content there,
    and what repeats it may be missing in one topic.
    """
    counts, examples = dict.fromkeys(Finding, 0), {finding: list[bytes]() for finding in Finding}
    for key in _all_keys(first.keys, second.keys):
        finding = judged(first.keys.get(key), second.keys.get(key), has_before=has_before)
        counts[finding] += 1
        if len(examples[finding]) < EXAMPLES:
            examples[finding].append(key)
    return {
        finding: Found(count, tuple(examples[finding]))
        for finding, count in counts.items()
        if count
    }


def keyless_only(first: Side, second: Side) -> tuple[int, int]:
    """How many records without a key are in the first topic alone, and in the second alone."""
    one, other = first.keyless - second.keyless, second.keyless - first.keyless
    return one.total(), other.total()


def judged(one: History | None, other: History | None, *, has_before: bool) -> Finding:
    """What is found of one key, which at least one topic has."""
    there = [history for history in (one, other) if history is not None]
    if any(history.is_reference for history in there):
        return Finding.REFERENCE
    if one is None or other is None:
        found = Finding.ONLY_SECOND if one is None else Finding.ONLY_FIRST
        if has_before and len(_without_repeats(there[0].contents)) == 1:
            found = Finding.MAYBE_BEFORE
    elif any(history.is_split for history in there):
        found = Finding.SPLIT
    else:
        found = _compared(one.contents, other.contents)
    is_edge = any(history.is_edge for history in there)
    return Finding.EDGE if is_edge and found.is_difference else found


def _compared(one: Sequence[bytes], other: Sequence[bytes]) -> Finding:
    if one == other:
        return Finding.SAME
    one, other = _without_repeats(one), _without_repeats(other)
    if one == other:
        return Finding.FEWER_REPEATS
    if sorted(one) == sorted(other):
        return Finding.OTHER_ORDER
    if one[-1] != other[-1]:
        return Finding.OTHER_END
    if _is_part(other, one):
        return Finding.FEWER_STATES
    return Finding.MORE_STATES if _is_part(one, other) else Finding.OTHER_STATES


def _without_repeats(contents: Sequence[bytes]) -> list[bytes]:
    return [content for content, _ in groupby(contents)]


def _is_part(short: Sequence[bytes], long: Sequence[bytes]) -> bool:
    """Whether all of the short one is in the long one, in its order."""
    rest = iter(long)
    return all(content in rest for content in short)


def _all_keys(one: Mapping[bytes, History], other: Mapping[bytes, History]) -> Iterator[bytes]:
    yield from one
    yield from (key for key in other if key not in one)
