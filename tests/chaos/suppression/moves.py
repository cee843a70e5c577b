"""Judges the histories of keys with one writer each, while their topic gets more partitions.

A writer sends its next event when it has the answer to the last, so its own order is the truth.
Only events without a good answer (the connection broke, 504) may be in the log or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from chaos.suppression.history import Attempt
from support.kafka.kafka_log import LogRecord

Place = tuple[int, int]
GOOD = ("published", "unchanged")


class _Found(NamedTuple):
    """A record, and which event of its key it is, counted from 0."""

    place: Place
    number: int
    content: str


def by_key(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """The events of each key as they were sent."""
    keys: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        keys[one.key].append(one)
    return keys


def _found(sent: Sequence[Attempt], log: Iterable[LogRecord]) -> dict[Place, _Found]:
    numbers = {one.event_id: number for number, one in enumerate(sent)}
    found = {}
    for record in log:
        number = numbers.get((record.header("hg-event-id") or b"").decode())
        if number is not None:
            place = (record.partition, record.offset)
            found[place] = _Found(place, number, sent[number].content)
    return found


def _is_newer(one: _Found, other: _Found) -> bool:
    """In one partition offsets tell. A key's later partition has its later events."""
    if one.place[0] == other.place[0]:
        return one.place[1] > other.place[1]
    return one.number > other.number


def wrong_unchanged(attempts: Iterable[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """Each `unchanged` names the key's newest record, of that very content."""
    for key, sent in by_key(attempts).items():
        found = _found(sent, log)
        for number, one in enumerate(sent):
            if one.outcome != "unchanged":
                continue
            named = found.get(one.place)
            if named is None or named.content != one.content:
                yield f"{key}: {one} names {named}"
                continue
            for other in found.values():
                if (
                    other.number < number
                    and other.content != one.content
                    and _is_newer(other, named)
                ):
                    yield f"{key}: {one} names {named}, but {other} is newer"
                    break


def stale_keys(attempts: Iterable[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """A key's newest record has the content that its client was told last, or a later one's."""
    for key, sent in by_key(attempts).items():
        last = max((n for n, one in enumerate(sent) if one.outcome in GOOD), default=None)
        if last is None:
            continue
        found = _found(sent, log)
        newest = [one for one in found.values() if not _has_newer(one, found.values())]
        told = sent[last]
        for one in newest:
            if one.content != told.content and sent[one.number].outcome in GOOD:
                yield f"{key}: told {told}, but the newest record is {one}"
        if not newest:
            yield f"{key}: told {told}, but the log has nothing"


def _has_newer(one: _Found, all_of_key: Iterable[_Found]) -> bool:
    return any(_is_newer(other, one) for other in all_of_key)


def back_moves(
    attempts: Iterable[Attempt], counts: Sequence[int], place: Callable[[bytes, int], int]
) -> Iterator[str]:
    """A key goes from the partition of one count to that of a later one, and never back.

    counts: of partitions, as they grew.  place: of a key among so many.
    """
    for key, sent in by_key(attempts).items():
        way = [place(key.encode(), count) for count in counts]
        went = [one.partition for one in sent if one.outcome == "published"]
        at = 0
        for partition in went:
            if partition not in way[at:]:
                changes = [now for before, now in pairwise([-1, *went]) if before != now]
                yield f"{key}: its way is {way}, it went {changes}"
                break
            at += way[at:].index(partition)


def disorder(attempts: Iterable[Attempt], log: Sequence[LogRecord]) -> Iterator[str]:
    """Events told `published` are in the log where they were said to be, once, and in order."""
    for key, sent in by_key(attempts).items():
        found = _found(sent, log)
        places: dict[int, list[Place]] = defaultdict(list)
        for one in found.values():
            places[one.number].append(one.place)
        last: dict[int, tuple[int, Attempt]] = {}
        for number, one in enumerate(sent):
            if one.outcome == "published":
                if places[number] != [one.place]:
                    yield f"{key}: {one} is at {places[number]}"
                before = last.get(one.partition)
                if before is not None and before[0] > one.offset:
                    yield f"{key}: {one} lies below {before[1]}"
                last[one.partition] = (one.offset, one)
