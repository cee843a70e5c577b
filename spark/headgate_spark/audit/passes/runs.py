"""Runs over the ends of blocks, quantiles of run lengths, and what coalescing would have left."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Lengths = Counter[int]  # how many runs have each length


class OuterRun(NamedTuple):
    """The first or the last run of a block (or both, when it is the block's only one)."""

    topic: str
    partition: int
    block: int
    key: bytes | None
    length: int
    is_first: bool
    is_last: bool


def merged(outer: Iterable[OuterRun]) -> dict[tuple[str, bytes], Lengths]:
    """Puts together what the ends of blocks have cut. Blocks without records are no gap."""
    found: dict[tuple[str, bytes], Lengths] = {}
    open_run: OuterRun | None = None
    for run in sorted(outer, key=lambda one: (*one[:3], not one.is_first)):
        if open_run is not None and _goes_on(open_run, run):
            run = run._replace(length=open_run.length + run.length)
        elif open_run is not None:
            _count(found, open_run)
        if run.is_last:
            open_run = run
        else:
            _count(found, run)
            open_run = None
    if open_run is not None:
        _count(found, open_run)
    return found


def _goes_on(open_run: OuterRun, run: OuterRun) -> bool:
    return run.is_first and open_run[:2] == run[:2] and open_run.key == run.key


def _count(found: dict[tuple[str, bytes], Lengths], run: OuterRun) -> None:
    if run.key is not None:
        found.setdefault((run.topic, run.key), Counter())[run.length] += 1


def quantile(lengths: Mapping[int, int], share: float) -> int:
    """The least length that at least this share of the runs does not exceed; 0 of none."""
    total, seen = sum(lengths.values()), 0
    for length in sorted(lengths):
        seen += lengths[length]
        if seen >= share * total:
            return length
    return 0


def kept(seconds: Iterable[int], quiet_s: float, max_s: float) -> int:
    """How many records coalescing leaves of a key that came in these seconds.

    seconds: in order.  A window ends once nothing came for `quiet_s`, or after `max_s`; each
    leaves one record.
    """
    count, begun, last = 0, 0, 0
    for second in seconds:
        if count == 0 or second - last > quiet_s or second - begun >= max_s:
            count, begun = count + 1, second
        last = second
    return count
