"""Finds events of a request that ended in the wrong order, if only the newest state counts.

An older state gets behind a newer one in two ways. Either the older one alone is sent again: then
it is dropped. Or a repeated request writes the older one after an earlier attempt had written only
the newer one. That shows only afterwards, because the answer of that attempt was lost or the
gateway has forgotten the request. Then the newer one is written once more.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from headgate_client.outcomes import Duplicate, Failed, Key, Outcome, Rejected, Unknown


class End(NamedTuple):
    """The outcomes of the event at a position of a delivery.

    now: in this answer.  best: in all answers.  before: in an earlier request, if the event was
    sent again because an older one may be behind that record.
    """

    at: int
    key: Key
    now: Outcome
    best: Outcome
    before: Outcome | None


class Disorder(NamedTuple):
    """The corrections, by position.

    left_out: events to drop, because a newer one was written or their event id is written only
    once.  behind: events to send again, because an older one may have been written after them.
    """

    left_out: dict[int, Failed]
    behind: dict[int, Unknown]

    def __bool__(self) -> bool:
        """Return whether there are any corrections."""
        return bool(self.left_out or self.behind)


def disorder_of(ends: Iterable[End], *, is_repeat: bool) -> Disorder:
    """Compare each event with the newest written one of its key.  ends: the newest first."""
    disorder = Disorder({}, {})
    newest: dict[Key, End] = {}
    for end in ends:
        if end.before is not None and _is_no_newer(end.now, end.before):
            disorder.left_out[end.at] = _out_of_order(end.best)
        newer = newest.get(end.key)
        if newer is None:
            if end.best.succeeded:
                newest[end.key] = end
            continue
        if end.key is None:  # without a key there is no order
            continue
        if isinstance(end.best, (Rejected, Unknown)) and end.best.retryable:
            detail = f"a later event of its key got through; before that: {end.best.detail}"
            disorder.left_out[end.at] = replace(end.best, reason="overtaken", detail=detail)
        if is_repeat and _may_be_behind(end.now, newer):
            disorder.behind[newer.at] = _out_of_order(newer.best)
    return disorder


def _out_of_order(written: Outcome) -> Unknown:
    return Unknown(
        topic=written.topic,
        reason="out_of_order",
        key=written.key,
        event_id=written.event_id,
        detail="it is written, and an older event of its key may be behind it",
    )


def _may_be_behind(older: Outcome, newer: End) -> bool:
    """Return whether a repeat may have written the older one behind the newer one."""
    if newer.now.succeeded and not isinstance(newer.now, Duplicate):
        return False  # both ended in this answer, in their order
    if isinstance(older, Duplicate):  # an attempt before wrote it, that was not answered
        return _is_behind(older, newer.best)
    return not isinstance(older, Rejected)


def _is_no_newer(now: Outcome, before: Outcome) -> bool:
    """Return whether an event that was sent again still has its earlier record."""
    return isinstance(now, Duplicate) and now.offset is not None and not _is_behind(now, before)


def _is_behind(duplicate: Duplicate, other: Outcome) -> bool:
    """Return whether one is known to be behind the other one."""
    return (
        not isinstance(other, (Rejected, Unknown))
        and duplicate.partition == other.partition
        and duplicate.offset is not None
        and other.offset is not None
        and duplicate.offset > other.offset
    )
