"""A model of suppression on several servers: whose list changes, one gateway after the other.

One key, two gateways, up to three servers, two lists (layouts) of them; a key's server by each list
is given. The protocol of one server is that of `suppression_changes`, with less in it: here it only
has digests, tokens, trust, quarantine. `explore` visits every interleaving breadth first.

Steps: an event arrives; its claim is executed; its record lands, is acknowledged and settled (what
may come between these is in that other model). A gateway tells a server its layout; a lease ends;
a topic begins anew at a server; a quarantine ends; a layout that nobody tells any more ages.
Faults: a gateway restarts with the other list (what it had in flight may land or not), a server
restarts empty.

One of the gateways, g0, may answer `unchanged`; the other publishes all, which is the most that it
can do to the first. Which list g0 has is a matter of the setup.

There is no clock; what waits for time has a guard. "Told after the birth" stands for the comparison
of times: what server i was told of a layout, and whether that was after the topic's birth at s.

Checked: S1, `unchanged` for X means X was the content of the last record at some moment since its
arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

A, B = range(2)
NOTHING = -1
NEW, FLIES, GHOST, DONE = range(4)
STARTING, BEGUN = range(2)
FAR = (0, 1, 2)


@dataclass(frozen=True)
class Rules:
    """Each can be taken out."""

    tells: bool = True  # a gateway tells all servers before it begins
    majority: bool = True  # more than half of the servers, else any one
    quiet: bool = True  # a server that was told another layout speaks against belief
    younger: bool = True  # ... also when nobody tells it any more, until the topic begins anew
    wait: bool = True  # a gateway that finds another layout waits for a lease
    lease: bool = True  # what was heard is good for a lease only
    lost: bool = True  # a server that restarted is noisy from its birth


@dataclass(frozen=True)
class Setup:
    """lists: of servers.  owners: by each list, the key's server.  starts: who has which list."""

    rules: Rules = Rules()
    lists: tuple[tuple[int, ...], tuple[int, ...]] = (FAR, (0, 1))
    owners: tuple[int, int] = (2, 0)
    starts: tuple[int, int] = (0, 0)
    # Who posts what, in this order: another content at the other gateway, then the old one at g0.
    posts: tuple[tuple[int, int], ...] = ((1, B), (0, A))
    changes: int = 1
    restarts: int = 0

    def without(self, *names: str) -> Setup:
        return replace(self, rules=replace(self.rules, **dict.fromkeys(names, False)))


class Heard(NamedTuple):
    """older: bits of the servers at which the topic was born before it was last told another list.
    found: another list is in use.  before: heard before a gateway that waits found this one's."""

    older: int = 0
    found: bool = False
    before: bool = False


class Gateway(NamedTuple):
    layout: int
    phase: int = BEGUN
    told: int = 0  # bits
    waits: bool = False
    heard: tuple[Heard | None, ...] = (None, None, None)


class Server(NamedTuple):
    """told: by layout, in use.  after: bits 2 * s + layout: told after the topic's birth at s."""

    digest: int = NOTHING
    quarantine: bool = False
    told: tuple[bool, bool] = (False, False)
    after: int = 0


class Event(NamedTuple):
    place: int
    gateway: int = 0
    content: int = 0
    layout: int = 0
    server: int = -1
    trusted: bool = False
    token: bool = False
    matched: bool = False
    before: int = 0  # bits of the servers whose quarantine began while it was in flight


class State(NamedTuple):
    events: tuple[Event, ...]
    gateways: tuple[Gateway, ...]
    servers: tuple[Server, ...]
    last: int
    changes: int
    restarts: int


ENDED = Event(DONE)


class Violation(Exception):
    """S1 is broken."""


class World:
    """A state in the hands of one step."""

    def __init__(self, setup: Setup, state: State) -> None:
        self.setup, self.rules = setup, setup.rules
        self.events, self.gateways = list(state.events), list(state.gateways)
        self.servers = list(state.servers)
        self.last = state.last
        self.changes, self.restarts = state.changes, state.restarts
        self.owners = set(setup.owners)  # no other server knows anything of the key

    def freeze(self) -> State:
        some = (tuple(sorted(self.events, reverse=True)), tuple(self.gateways), tuple(self.servers))
        return State(*some, self.last, self.changes, self.restarts)

    # ---- belief

    def tell(self, g: int, i: int) -> None:
        gateway, server = self.gateways[g], self.servers[i]
        own, other = gateway.layout, 1 - gateway.layout
        older = sum(1 << s for s in self.owners if server.after >> (2 * s + other) & 1)
        heard = list(gateway.heard)
        if g == 0:
            heard[i] = Heard(older, server.told[other])
        waits = gateway.waits
        is_first = not gateway.told >> i & 1
        if gateway.phase == STARTING and server.told[other] and is_first:
            waits = True
            self._mark_before(own)
        told = list(server.told)
        told[own] = True
        after = server.after | sum(1 << (2 * s + own) for s in self.owners)
        self.servers[i] = server._replace(told=tuple(told), after=after)
        self.gateways[g] = gateway._replace(
            told=gateway.told | 1 << i, waits=waits, heard=tuple(heard)
        )

    def _mark_before(self, own: int) -> None:
        """What gateways of the other list have heard by now ends before the wait does."""
        for g, gateway in enumerate(self.gateways):
            if gateway.layout != own:
                heard = tuple(one and one._replace(before=True) for one in gateway.heard)
                self.gateways[g] = gateway._replace(heard=heard)

    def begin(self, g: int) -> None:
        gateway = self.gateways[g]
        if gateway.waits and self.rules.wait and self.rules.lease:
            for k, other in enumerate(self.gateways):
                if other.layout != gateway.layout:
                    heard = tuple(None if one and one.before else one for one in other.heard)
                    self.gateways[k] = other._replace(heard=heard)
        self.gateways[g] = gateway._replace(phase=BEGUN, waits=False)

    def believes(self, g: int, s: int) -> bool:
        gateway = self.gateways[g]
        servers = self.setup.lists[gateway.layout]
        needed = len(servers) // 2 + 1 if self.rules.majority else 1
        good = 0
        for i in servers:
            heard = gateway.heard[i]
            if heard is None:
                continue
            if not self.rules.quiet:
                good += 1
            elif not self.rules.younger:
                good += not heard.found
            else:
                good += not heard.older >> s & 1
        return good >= needed

    def begin_anew(self, s: int) -> None:
        """A fresh nonce for the topic: by a drop, or because the server lost it."""
        server = self.servers[s]
        is_asked = s in self.owners
        self.servers[s] = server._replace(digest=NOTHING, quarantine=is_asked)
        for i, one in enumerate(self.servers):
            self.servers[i] = one._replace(after=one.after & ~(3 << 2 * s))
        for g, gateway in enumerate(self.gateways):
            heard = tuple(
                one and one._replace(older=one.older & ~(1 << s)) for one in gateway.heard
            )
            self.gateways[g] = gateway._replace(heard=heard)
        for n, event in enumerate(self.events):
            if event.place in (FLIES, GHOST) and s in self.owners:
                token = event.token and event.place != GHOST
                before = event.before | 1 << s
                new = event._replace(before=before)
                if event.server == s:
                    new = new._replace(trusted=False, token=token)
                self.events[n] = new

    def restart_server(self, i: int) -> None:
        self.restarts -= 1
        after = sum(3 << 2 * s for s in self.owners) if self.rules.lost else 0
        self.servers[i] = self.servers[i]._replace(told=(False, False), after=after)
        self.begin_anew(i)
        for g, gateway in enumerate(self.gateways):
            heard = tuple(None if place == i else one for place, one in enumerate(gateway.heard))
            told = gateway.told & ~(1 << i) if gateway.phase == STARTING else gateway.told
            self.gateways[g] = gateway._replace(heard=heard, told=told)

    # ---- events

    def arrive(self, g: int, content: int) -> None:
        layout = self.gateways[g].layout
        event = Event(NEW, g, content, layout, self.setup.owners[layout])
        self.events.append(event._replace(matched=self.last == content))

    def claim(self, n: int) -> None:
        event = self.events[n]
        s = event.server
        server = self.servers[s]
        tokens = any(one.token and one.server == s for one in self.events)
        is_same = server.digest == event.content and not tokens and not server.quarantine
        if is_same and self.believes(event.gateway, s):
            if not event.matched:
                raise Violation(f"S1: {'AB'[event.content]} is unchanged, and is not the last")
            self.events[n] = ENDED
            return
        trusted = not server.quarantine
        self.events[n] = event._replace(place=FLIES, token=True, trusted=trusted)

    def land(self, n: int) -> None:
        event = self.events[n]
        self.last = event.content
        if event.place == GHOST:
            self.forget_ghost(n)
        else:
            self.settle(n)
        for k, other in enumerate(self.events):
            if other.place == NEW and other.content == self.last:
                self.events[k] = other._replace(matched=True)

    def forget_ghost(self, n: int) -> None:
        """Its token expires, and the digest with it."""
        event = self.events[n]
        if event.token:
            self.servers[event.server] = self.servers[event.server]._replace(digest=NOTHING)
        self.events[n] = ENDED

    def settle(self, n: int) -> None:
        event = self.events[n]
        server = self.servers[event.server]
        digest = event.content if event.trusted and event.token else NOTHING
        self.servers[event.server] = server._replace(digest=digest)
        self.events[n] = ENDED

    def restart_gateway(self, g: int) -> None:
        self.changes -= 1
        for n, event in enumerate(self.events):
            if event.gateway != g or event.place == DONE:
                continue
            if event.place == FLIES:
                self.events[n] = event._replace(place=GHOST)
            elif event.place == NEW:
                self.events[n] = ENDED
        self.gateways[g] = Gateway(1 - self.gateways[g].layout, STARTING)


Step = tuple[str, Callable[[World], None]]


def _steps(setup: Setup, state: State) -> Iterator[Step]:
    for g, gateway in enumerate(state.gateways):
        yield from _of_gateway(setup, state, g, gateway)
    for n, event in enumerate(state.events):
        if event.place == NEW:
            yield f"claim {n}", lambda w, n=n: w.claim(n)
        elif event.place == FLIES:
            yield f"land {n}", lambda w, n=n: w.land(n)
        elif event.place == GHOST:
            yield f"ghost {n} lands", lambda w, n=n: w.land(n)
            yield f"ghost {n} never lands", lambda w, n=n: w.forget_ghost(n)
    for s, server in enumerate(state.servers):
        yield from _of_server(setup, state, s, server)


def _of_gateway(setup: Setup, state: State, g: int, gateway: Gateway) -> Iterator[Step]:
    servers = setup.lists[gateway.layout]
    if gateway.phase == BEGUN and len(state.events) < len(setup.posts):
        who, content = setup.posts[len(state.events)]
        if who == g:
            yield f"{'AB'[content]} arrives at g{g} of {servers}", lambda w: w.arrive(g, content)
    if gateway.phase == STARTING:
        is_told = all(gateway.told >> i & 1 for i in servers) or not setup.rules.tells
        if is_told:
            yield f"g{g} begins", lambda w: w.begin(g)
    for i in servers:
        yield f"g{g} tells {i}", lambda w, i=i: w.tell(g, i)
        if gateway.heard[i] is not None and setup.rules.lease:
            yield f"g{g}: the lease of {i} ends", lambda w, i=i: _end_lease(w, g, i)
    for s in {setup.owners[gateway.layout]}:
        if _is_old(setup, gateway, s):
            yield f"g{g} begins the topic anew at {s}", lambda w, s=s: w.begin_anew(s)
    if state.changes:
        yield f"g{g} restarts", lambda w: w.restart_gateway(g)


def _of_server(setup: Setup, state: State, s: int, server: Server) -> Iterator[Step]:
    if server.quarantine and _quarantine_may_end(setup, state, s):
        yield f"the quarantine at {s} ends", lambda w: _end_quarantine(w, s)
    for layout in range(2):
        if server.told[layout] and _may_age(state, layout):
            yield f"list {layout} at {s} ages", lambda w, la=layout: _age(w, s, la)
    if state.restarts:
        yield f"server {s} restarts empty", lambda w: w.restart_server(s)


def _is_old(setup: Setup, gateway: Gateway, s: int) -> bool:
    heard = [gateway.heard[i] for i in setup.lists[gateway.layout]]
    fresh = [one for one in heard if one is not None]
    needed = len(heard) // 2 + 1
    good = sum(not one.older >> s & 1 for one in fresh)
    return len(fresh) >= needed and good < needed


def _quarantine_may_end(setup: Setup, state: State, s: int) -> bool:
    """It is longer than any record takes to land, and than the interval of tellings."""
    if any(one.place in (FLIES, GHOST) and one.before >> s & 1 for one in state.events):
        return False
    return all(
        state.servers[i].after >> (2 * s + one.layout) & 1
        for one in state.gateways
        if one.phase == BEGUN
        for i in setup.lists[one.layout]
        if i != s or setup.rules.lost
    )


def _may_age(state: State, layout: int) -> bool:
    """Nobody has this list any more, and nothing of who had it may land any more."""
    if any(one.layout == layout for one in state.gateways):
        return False
    return all(one.place != GHOST or one.layout != layout for one in state.events)


def _age(world: World, s: int, layout: int) -> None:
    told = list(world.servers[s].told)
    told[layout] = False
    world.servers[s] = world.servers[s]._replace(told=tuple(told))


def _end_lease(world: World, g: int, i: int) -> None:
    gateway = world.gateways[g]
    heard = tuple(None if place == i else one for place, one in enumerate(gateway.heard))
    world.gateways[g] = gateway._replace(heard=heard)


def _end_quarantine(world: World, s: int) -> None:
    """It is longer than a lease: what was heard before it has ended, too."""
    world.servers[s] = world.servers[s]._replace(quarantine=False)
    for g, gateway in enumerate(world.gateways):
        world.gateways[g] = gateway._replace(heard=(None, None, None))


def initial(setup: Setup) -> State:
    """The log ends with A, and every gateway's server of the key knows it; all have told theirs.
    Where all had one list ever since, what that server knows is younger than any other telling.
    """
    world = World(setup, State((), (), (Server(),) * 3, A, setup.changes, setup.restarts))
    world.gateways = [Gateway(layout, told=7) for layout in setup.starts]
    for g, layout in enumerate(setup.starts):
        for i in setup.lists[layout]:
            world.tell(g, i)
        owner = setup.owners[layout]
        world.servers[owner] = world.servers[owner]._replace(digest=A)
    if setup.starts[0] == setup.starts[1]:
        young = 3 << 2 * setup.owners[setup.starts[0]]
        for i, server in enumerate(world.servers):
            world.servers[i] = server._replace(after=server.after & ~young)
    world.gateways = [one._replace(heard=(None, None, None)) for one in world.gateways]
    return world.freeze()


@dataclass
class Result:
    states: int = 0
    complete: bool = True
    broken: str = ""
    trace: list[str] = field(default_factory=list)


def explore(setup: Setup, limit: int = 1_000_000) -> Result:
    """Breadth first, until S1 is broken, or all is seen, or `limit` states are."""
    first = initial(setup)
    came: dict[State, tuple[State, str] | None] = {first: None}
    todo = deque([first])
    while todo and len(came) < limit:
        state = todo.popleft()
        for label, action in _steps(setup, state):
            world = World(setup, state)
            try:
                action(world)
            except Violation as broken:
                trace = [*_trace(came, state), label, str(broken)]
                return Result(len(came), False, str(broken), trace)
            after = world.freeze()
            if after not in came:
                came[after] = (state, label)
                todo.append(after)
    return Result(len(came), not todo)


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return labels[::-1]
