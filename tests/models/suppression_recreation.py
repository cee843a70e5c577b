"""A model of a topic that is made again while events are undecided or lie on a disk.

One key, two gateways, one Redis. The protocol inside one topic id is modelled in
`suppression_changes.py`; here a reservation and its settlement are one step each, and what may
change is the topic: its id, its number of partitions, and when each gateway learns of both.

- The key lies in the last partition, so that another number of partitions moves it.
- A gateway with no way to Kafka spools: it announces the topic under the id that it knows, and with
  the rule `mark` under the topic's name as well. What lies on its disk is newer than the log.
- A publish of unknown end keeps a token in the namespace of the id that its gateway knows. It is
  renewed until a later record of that gateway is acknowledged in the same partition; with the
  rule `gone` also only as long as that partition exists.

Checked: safety, an `unchanged` answer of a gateway that knows the topic names the content of the
newest event, on disk or in the log (a gateway that has not learned of the recreation yet is the
fourth exception of the protocol); and liveness, once all gateways know the topic, all disks are
drained, and every partition has a later record of each gateway, the second of two equal events is
`unchanged`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

GATEWAYS = (0, 1)
CONTENTS = "AB"
COUNTS = (1, 2, 3)
POSTS, RECREATIONS, UNKNOWN, OUTAGES = 4, 1, 1, 1


class Rules(NamedTuple):
    """The rules that can be taken out."""

    gone: bool = True
    mark: bool = True


class Token(NamedTuple):
    """A publish of unknown end, in the namespace of a topic id."""

    owner: int
    topic: int
    partition: int


class Gateway(NamedTuple):
    """One gateway. topic, count: what it knows. spooled: contents on its disk, oldest first."""

    topic: int = 0
    count: int = 2
    is_away: bool = False
    spooled: str = ""


class State(NamedTuple):
    """A state of everything.

    topic, count: the topic as Kafka has it.  log: the content of the key's newest record, in the
    order of acceptance `newest`.  known: the digest in each id's namespace.
    """

    gateways: tuple[Gateway, ...] = (Gateway(), Gateway())
    topic: int = 0
    count: int = 2
    log: str = ""
    newest: str = ""
    known: tuple[str, str] = ("", "")
    tokens: frozenset[Token] = frozenset()
    posts: int = POSTS
    recreations: int = RECREATIONS
    unknown: int = UNKNOWN
    outages: int = OUTAGES


class Step(NamedTuple):
    """A step and the state behind it. broken: what the step broke, or nothing."""

    name: str
    state: State
    broken: str = ""


def home(count: int) -> int:
    """Return the partition of the key."""
    return count - 1


def with_gateway(state: State, number: int, gateway: Gateway) -> State:
    return state._replace(
        gateways=tuple(gateway if n == number else one for n, one in enumerate(state.gateways))
    )


def with_known(state: State, topic: int, content: str) -> State:
    return state._replace(
        known=tuple(content if n == topic else one for n, one in enumerate(state.known))  # type: ignore[arg-type]
    )


def is_open(state: State, topic: int, rules: Rules) -> bool:
    """Whether a namespace is open: no gateway with spooled events has announced it."""
    spooling = [one for one in state.gateways if one.spooled]
    return not any(rules.mark or one.topic == topic for one in spooling)


def acknowledged(state: State, number: int, content: str) -> State:
    """Return the state behind a record of the key that a gateway which knows the topic wrote."""
    gateway = state.gateways[number]
    mine = Token(number, gateway.topic, home(gateway.count))
    tokens = state.tokens - {mine}  # a later record of this gateway in that partition
    trusted = not any(one.topic == gateway.topic for one in tokens)
    written = state._replace(log=content, newest=content, tokens=tokens)
    return with_known(written, gateway.topic, content if trusted else "")


def post(state: State, number: int, content: str, rules: Rules) -> Iterator[Step]:
    """Yield what may become of an event at a gateway."""
    gateway, name = state.gateways[number], f"{content} at {number}"
    state = state._replace(posts=state.posts - 1)
    if gateway.spooled or gateway.is_away:
        kept = gateway._replace(spooled=gateway.spooled + content)
        yield Step(f"{name} spooled", with_gateway(state, number, kept)._replace(newest=content))
        return
    is_free = not any(one.topic == gateway.topic for one in state.tokens)
    if is_open(state, gateway.topic, rules) and is_free and state.known[gateway.topic] == content:
        is_right = content == state.newest or gateway.topic != state.topic
        broken = "" if is_right else f"unchanged, but the newest is {state.newest}"
        yield Step(f"{name} unchanged", state, broken)
        return
    if gateway.topic != state.topic:
        return  # Kafka refuses it; nothing is written
    yield Step(f"{name} published", acknowledged(state, number, content))
    if state.unknown:  # it landed, and the gateway does not know
        token = Token(number, gateway.topic, home(gateway.count))
        lost = state._replace(
            log=content, newest=content, tokens=state.tokens | {token}, unknown=state.unknown - 1
        )
        yield Step(f"{name} unknown", with_known(lost, gateway.topic, ""))


def learned(state: State, number: int, rules: Rules) -> State:
    """Return the state once a gateway knows the topic as it is."""
    gateway = state.gateways[number]._replace(topic=state.topic, count=state.count)
    moved = {
        one._replace(topic=state.topic) if one.owner == number else one for one in state.tokens
    }
    if rules.gone:
        moved = {one for one in moved if one.owner != number or one.partition < state.count}
    return with_gateway(state, number, gateway)._replace(tokens=frozenset(moved))


def drained(state: State, number: int) -> State:
    """Return the state once a gateway that knows the topic has published its oldest event."""
    gateway = state.gateways[number]
    content, rest = gateway.spooled[0], gateway.spooled[1:]
    newest = state.newest
    state = acknowledged(state, number, content)
    state = with_gateway(state, number, gateway._replace(spooled=rest))
    return with_known(state, gateway.topic, "")._replace(newest=newest)  # no digest is kept of it


def steps(state: State, rules: Rules) -> Iterator[Step]:
    """Yield every step that may come next."""
    if state.recreations:
        for count in COUNTS:
            fresh = state._replace(
                topic=state.topic + 1, count=count, log="", recreations=state.recreations - 1
            )
            waiting = "".join(one.spooled[-1:] for one in fresh.gateways)
            yield Step(f"made again with {count}", fresh._replace(newest=waiting[-1:]))
    for number, gateway in enumerate(state.gateways):
        if state.posts:
            for content in CONTENTS:
                yield from post(state, number, content, rules)
        if gateway.is_away:
            back = gateway._replace(is_away=False)
            yield Step(
                f"{number} is back", learned(with_gateway(state, number, back), number, rules)
            )
            continue
        if gateway.topic != state.topic:
            yield Step(f"{number} learns", learned(state, number, rules))
        elif gateway.spooled:
            yield Step(f"{number} drains", drained(state, number))
        if state.outages:
            away = with_gateway(state, number, gateway._replace(is_away=True))
            yield Step(f"{number} is away", away._replace(outages=state.outages - 1))


def is_lively(state: State, rules: Rules) -> bool:
    """Whether a key becomes unchanged again once everything is quiet."""
    for number in GATEWAYS:
        back = state.gateways[number]._replace(is_away=False)
        state = learned(with_gateway(state, number, back), number, rules)
    for number in GATEWAYS:
        while state.gateways[number].spooled:
            state = drained(state, number)
    later = {one for one in state.tokens if one.partition >= state.count}
    state = acknowledged(state._replace(tokens=frozenset(later)), 0, "A")
    ends = [step.name for step in post(state._replace(unknown=0), 0, "A", rules)]
    return ends == ["A at 0 unchanged"]


class Found(NamedTuple):
    """The result of a search. trace: the steps to what is broken."""

    states: int
    broken: str = ""
    trace: tuple[str, ...] = ()


def explore(rules: Rules) -> Found:
    """Search all states, the nearest first."""
    start = State()
    seen: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])

    def trace(state: State, last: str) -> tuple[str, ...]:
        names = [last] if last else []
        while (before := seen[state]) is not None:
            state, name = before
            names.append(name)
        return tuple(reversed(names))

    while queue:
        state = queue.popleft()
        if not is_lively(state, rules):
            return Found(len(seen), "nothing is unchanged any more", trace(state, ""))
        for step in steps(state, rules):
            if step.broken:
                return Found(len(seen), step.broken, trace(state, step.name))
            if step.state not in seen:
                seen[step.state] = (state, step.name)
                queue.append(step.state)
    return Found(len(seen))
