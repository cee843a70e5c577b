"""Explicit-state model: `coalesce_quiet_ms` comes and goes while events are held. Plain BFS.

One key. H is the held topic, O the topic; two gateways with files of their own, each of which sees
at its own time that H was made or deleted. The coalescer emits (its record has its place in O from
then on) and commits, or crashes in between. Windows close at any moment. A record may land in H
later than every timeout: its client was told `unknown`. O may get more partitions.

Checked: an event that was answered `held` is published or superseded by something newer, once
nothing is left to do; behind an event that was published directly O has no older one.

    python tests/models/coalescing_changes.py        every rule and every order of steps
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

POSTS, CHANGES = 3, 3  # events; changes of a file and its reload


class Rules(NamedTuple):
    """holds: what decides whether a gateway holds: `option`, `lag` (the option, or H is not empty)
    or `existence`.  steps: whether the operator goes by docs/operate/coalescers.md when
    H is made or deleted.
    """

    holds: str = "existence"
    steps: bool = True


class Entry(NamedTuple):
    """A record of O. partitions: how many O had then."""

    event: int
    is_direct: bool
    is_committed: bool
    partitions: int


class State(NamedTuple):
    """options, sees: of each gateway.  done: the group's offset.  emitted: how far the open
    transaction covers H, 0 = none is open.  wire: what lands in H late.  settles: H was made or
    deleted, and not all gateways have seen it.
    """

    options: tuple[bool, bool] = (True, True)
    sees: tuple[bool, bool] = (True, True)
    exists: bool = True
    settles: bool = False
    h: tuple[int, ...] = ()
    done: int = 0
    emitted: int = 0
    o: tuple[Entry, ...] = ()
    wire: int = 0
    posted: int = 0
    changes: int = 0
    partitions: int = 1
    late: bool = True  # whether one may still come late, as the others below
    crash: bool = True
    delete: bool = True


Step = tuple[str, State]


def steps(rules: Rules, one: State) -> Iterator[Step]:
    """Everything that may happen next."""
    for gateway in (0, 1):
        yield from _gateway(rules, one, gateway)
    yield from _coalescer(rules, one)
    yield from _operator(rules, one)
    if one.wire and one.exists:
        yield f"{one.wire} lands in H", one._replace(h=(*one.h, one.wire), wire=0)
    if one.partitions == 1:
        yield "O grows", one._replace(partitions=2)


def _gateway(rules: Rules, one: State, gateway: int) -> Iterator[Step]:
    if one.sees[gateway] != one.exists:
        sees = _with(one.sees, gateway, one.exists)
        yield (
            f"G{gateway} looks",
            one._replace(sees=sees, settles=one.settles and sees != (one.exists,) * 2),
        )
    if one.changes < CHANGES and not (rules.steps and one.settles):
        options = _with(one.options, gateway, not one.options[gateway])
        label = f"G{gateway} {'with' if options[gateway] else 'without'} the option"
        yield label, one._replace(options=options, changes=one.changes + 1)
    # Where H is deleted the producers wait until all have seen it.
    if one.posted < POSTS and not (rules.steps and one.settles and not one.exists):
        yield from _post(rules, one, gateway)


def _post(rules: Rules, one: State, gateway: int) -> Iterator[Step]:
    event = one.posted + 1
    after = one._replace(posted=event)
    if not _holds(rules, one, gateway):
        entry = Entry(event, True, True, one.partitions)
        yield f"G{gateway} publishes {event}", after._replace(o=(*one.o, entry))
    elif one.exists and one.sees[gateway]:
        yield f"G{gateway} holds {event}", after._replace(h=(*one.h, event))
        if one.late and not one.wire:
            yield f"G{gateway} holds {event}: unknown", after._replace(wire=event, late=False)


def _holds(rules: Rules, one: State, gateway: int) -> bool:
    """Else it publishes. Where there is no H to hold in it answers 503, which changes nothing."""
    if one.options[gateway]:
        return True
    if rules.holds == "lag":
        return one.sees[gateway] and one.done < len(one.h)
    return rules.holds == "existence" and one.sees[gateway]


def _coalescer(rules: Rules, one: State) -> Iterator[Step]:
    if one.emitted:
        o = (*(each._replace(is_committed=True) for each in one.o),)
        yield "commits", one._replace(o=o, done=one.emitted, emitted=0)
        if one.crash:
            o = (*(each for each in one.o if each.is_committed),)
            yield "crashes", one._replace(o=o, emitted=0, crash=False)
    elif any(one.options) or rules.holds != "option":
        for end in range(one.done + 1, len(one.h) + 1):
            entry = Entry(one.h[end - 1], False, False, one.partitions)
            yield f"emits {entry.event}", one._replace(o=(*one.o, entry), emitted=end)


def _operator(rules: Rules, one: State) -> Iterator[Step]:
    is_drained = one.done == len(one.h) and not one.emitted
    if one.exists and one.delete and is_drained and (not rules.steps or one.sees == (True, True)):
        # What is on its way to H is lost with it: nobody was told that it is held.
        gone = one._replace(exists=False, settles=True, delete=False, h=(), done=0, wire=0)
        yield "H is deleted", gone
    if not one.exists and (not rules.steps or (all(one.options) and one.sees == (False, False))):
        yield "H is made", one._replace(exists=True, settles=True)


def broken(rules: Rules, one: State) -> str:
    """What must not be in this state; empty = nothing."""
    for place, entry in enumerate(one.o):
        behind = [later.event for later in one.o[place + 1 :] if later.is_committed]
        if entry.is_direct and any(event < entry.event for event in behind):
            return f"O goes back behind {entry.event}: {[each.event for each in one.o]}"
    if one.h and one.posted == POSTS and not one.wire and not any(_coalescer(rules, one)):
        last = one.h[-1]  # of H; it supersedes all before it there
        if not any(each.event == last or (each.is_direct and each.event > last) for each in one.o):
            return f"{last} is held and never published"
    return ""


def search(rules: Rules) -> tuple[int, list[str]]:
    """How many states there are, and the shortest way to one that must not be (empty: none)."""
    first = State()
    came: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        one = waiting.popleft()
        for label, after in steps(rules, one):
            if after in came:
                continue
            came[after] = (one, label)
            if what := broken(rules, after):
                return len(came), [*_way(came, after), what]
            waiting.append(after)
    return len(came), []


def _way(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    way: list[str] = []
    before = came[state]
    while before is not None:
        way.append(before[1])
        before = came[before[0]]
    return way[::-1]


def _with(pair: tuple[bool, bool], gateway: int, value: bool) -> tuple[bool, bool]:
    return (value, pair[1]) if gateway == 0 else (pair[0], value)


if __name__ == "__main__":
    for name in ("option", "lag", "existence"):
        for has_steps in (True, False):
            count, way = search(Rules(name, has_steps))
            found = "; ".join(way) or "nothing"
            sys.stdout.write(f"{name}, steps {has_steps}: {count} states, {found}\n")
