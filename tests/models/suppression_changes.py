"""A model of suppression v3: the configuration, the partitions and the processes change meanwhile.

One thing, whose records have one key (under another key rule: another key), two gateways, Redis,
and the log of all partitions in the order of landing. `explore` visits every interleaving of the
steps breadth first, so the first violation has a shortest trace.

A gateway may put a record that is not handed over on disk and answer its event (`spooled`); it is
published later, by this process or by the one that follows it.

Steps: an event arrives; its claim is executed by Redis; (handed over;) its record lands and is
acknowledged; its settlement is executed. Beside them: changes of configuration, growth and its
discovery, talk, the end of an announcement, of a quarantine and of tokens, and faults.

Merged steps, and why nothing is lost by it:
- Claim and reply. A late reply only delays hand-over (which may be late anyway) or an answer
  (which only widens the window of S1). REGISTER of what is under way follows a changed nonce in
  the same step: a quarantine is longer than any process takes for it (`_quarantine_may_end`).
- Landing and acknowledgement. A record that landed and was never acknowledged is a fault of its
  own ("landed, outcome unknown"). K is stricter so: it binds from the landing on.
- Hand-over and claim, where no event follows another (`Setup.follow`): a record in the lane of a
  process that dies is one that never lands.

There is no clock. What waits for time is an action with a guard; the guards are the `_may_`
functions. A nonce is no number: a fresh one empties every entry, and no process is `current`.

Checked:
- S1: `unchanged` for X means X was the content of the last record at some moment since arrival.
- K: a record placed by count n+1 has landed; then no record of an event that arrives later at a
  connected gateway that reserves is placed by n. Void as long as Redis, restarted empty, has not
  been told n+1 again.
- K2: no event that arrives at a gateway that knows n+1 is placed by n, followers included.
- P: no event that arrives while another content is on disk is `unchanged`, before that content is
  in the log. Void once the process died that put it there.
- B (only `Setup.sequential`): one event after another, nothing changes: equal is `unchanged`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# What an event is compared by. PASS: it goes without a reservation. FORCED: it would pass, but
# the announcement is not in force yet.
RAW, CANONICAL, PASS, FORCED = range(4)
MODES = ("raw", "canonical", "off", "off, forced")
# Where an event is. GHOST: outcome unknown, may land yet. UNKNOWN: it will not land any more, but
# its process does not know. WRECK: a ghost of a dead process. SPOOLED: on disk.
NEW, LANE, HANDED, ACKED, GHOST, UNKNOWN, WRECK, FOLLOWS, DONE, SPOOLED = range(10)
UNDER_WAY = (LANE, HANDED, GHOST, UNKNOWN)
MAY_LAND = (LANE, HANDED, GHOST, WRECK)
# Contents: "a" differs from "A" by the bytes only, so they are equal in canonical form.
A, B, A2 = range(3)
CONTENTS = ("A", "B", "a")
CANON = (A, B, A)
NOTHING = -1  # no digest
ANON = -1  # the anonymous token
OWN_TOKEN, ANON_TOKEN = 1, 2


class Config(NamedTuple):
    """What a gateway is configured to: how it compares, and which rule makes the key."""

    mode: int
    rule: int = 0


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; each can be taken out."""

    one_namespace: bool = True  # False: the old way, one for each fingerprint and count
    keyed_digest: bool = True
    announce: bool = True
    announce_nonce: bool = True
    announce_quarantine: bool = True
    renew: bool = True  # announces as long as a record that passed is under way
    renew_unknown: bool = True  # ... or may land yet, as nobody fenced it
    force_late: bool = True  # an event passes only while the announcement is in force
    clear_forced: bool = True  # the acknowledgement of such an event is CLEAR + REFUSED
    growth_clears: bool = True  # e.n != count: h = none, o = -1
    growth_keeps_tokens: bool = True
    settle_lower_clears: bool = True  # SETTLE with n < e.n: h = none
    settle_lower_untrusts: bool = True  # ... and nobody under way is trusted
    behind: bool = True
    follow_same_count: bool = True
    fence: bool = True  # the token of an unknown record lives until it cannot land any more
    anonymous: bool = True
    key_rule: bool = True  # the incarnation holds the key rule
    key_rule_nonce: bool = True  # another rule makes a fresh nonce
    register: bool = True  # what is under way is registered under a new nonce
    quarantine_untrusts: bool = True  # a claim in quarantine leaves a token nobody trusts
    old_rule_announces: bool = True  # a record under way by another rule counts as one that passed
    spool_holds: bool = True  # announced as long as anything is on disk, also after a start
    spool_passes: bool = True  # what comes behind what is on disk is not compared
    spool_late: bool = True  # what was on disk is handed over only while the announcement holds

    def without(self, *names: str) -> Rules:
        return replace(self, **dict.fromkeys(names, False))


ALL = Rules()
OLD = ALL.without("one_namespace", "announce", "force_late", "behind", "key_rule", "fence")
FIXES = ("settle_lower_untrusts", "old_rule_announces", "renew_unknown")
TEXT = ALL.without(*FIXES)  # the protocol as it was drafted


@dataclass(frozen=True)
class Setup:
    """What may happen in a run, and how often."""

    rules: Rules = ALL
    configs: tuple[Config, ...] = (Config(RAW),)
    starts: tuple[int, int] = (0, 0)  # which of them each gateway has at first
    contents: tuple[int, ...] = (A, B)
    posts: int = 3
    changes: int = 0
    growth: int = 0
    deaths: int = 0
    restarts: int = 0  # of Redis, empty
    cuts: int = 0  # a gateway is cut off from Redis
    unknown: int = 0  # a record's outcome stays unknown
    spooled: int = 0  # a record goes to disk
    room: int = 9  # T: how many tokens an entry has room for, the anonymous one not counted
    follow: bool = False
    sequential: bool = False
    history: tuple[tuple[int, int], ...] = ()  # gateway and content of each post; (): any
    promises: tuple[str, ...] = ("S1", "K", "K2", "P", "B")

    def without(self, *names: str) -> Setup:
        return replace(self, rules=self.rules.without(*names))


class Event(NamedTuple):
    place: int
    gateway: int = 0
    content: int = 0
    mode: int = 0
    rule: int = 0
    count: int = 0  # placed by this number of partitions (0: n, 1: n+1)
    offset: int = -1
    matched: bool = False  # its content was the last record's at some moment since it arrived
    token: int = 0
    unreserved: bool = False  # written without Redis, which has not heard of it yet
    leader: int = -1
    least: int = 0  # K: may not be placed by fewer
    known: int = 0  # K2: what its gateway knew when it arrived
    is_late: bool = False  # P: another content was on disk when it arrived
    is_orphan: bool = False  # on disk, and the process that put it there died


ENDED = Event(DONE)
LOST_BLIND = Event(DONE, unreserved=True)  # its process died before it could tell Redis


class Gateway(NamedTuple):
    mode: int
    rule: int
    count: int = 0
    connected: bool = True
    current: bool = True  # knows the nonce; what it has under way is registered under it
    talked: bool = True  # since the quarantine was last prolonged
    announces: bool = False  # writes, or has written, without reserving
    lease: bool = False  # Redis heard so, and it is renewed


class Redis(NamedTuple):
    quarantine: bool = False
    count: int = 0  # -1: the incarnation is missing
    rule: int = 0
    dead_lease: bool = False


class Token(NamedTuple):
    owner: int
    trusted: bool
    expired: bool = False


class Entry(NamedTuple):
    digest: int = NOTHING
    offset: int = -1
    count: int = 0
    tokens: tuple[Token, ...] = ()


class Log(NamedTuple):
    last: int
    ends: tuple[int, int]  # next offset of the partition by n, and of that by n+1
    grown: bool = False
    moved: int = 0  # the highest count by which a record that was reserved landed


class Left(NamedTuple):
    """How often each thing may happen yet."""

    changes: int
    growth: int
    deaths: int
    restarts: int
    cuts: int
    unknown: int
    spooled: int


class State(NamedTuple):
    events: tuple[Event, ...]
    gateways: tuple[Gateway, ...]
    redis: Redis
    entries: tuple[Entry, ...]
    log: Log
    left: Left


class Violation(Exception):
    """A promise is broken."""


Action = Callable[["World"], None]


def _same(mode: int, one: int, other: int) -> bool:
    return CANON[one] == CANON[other] if mode == CANONICAL else one == other


class World:
    """A state in the hands of one step."""

    __slots__ = ("entries", "events", "gateways", "left", "log", "note", "redis", "rules", "setup")

    def __init__(self, setup: Setup, state: State) -> None:
        self.setup, self.rules = setup, setup.rules
        self.events, self.gateways = list(state.events), list(state.gateways)
        self.entries = list(state.entries)
        self.redis, self.log, self.left = state.redis, state.log, state.left
        self.note = ""

    def freeze(self) -> State:
        return State(
            tuple(self.events),
            tuple(self.gateways),
            self.redis,
            tuple(self.entries),
            self.log,
            self.left,
        )

    def spend(self, name: str) -> None:
        self.left = self.left._replace(**{name: getattr(self.left, name) - 1})

    def put(self, i: int, **new: object) -> Event:
        self.events[i] = event = self.events[i]._replace(**new)  # type: ignore[arg-type]
        return event

    def gateway(self, g: int, **new: object) -> Gateway:
        self.gateways[g] = gateway = self.gateways[g]._replace(**new)  # type: ignore[arg-type]
        return gateway

    # ---- Redis

    def _digest(self, event: Event) -> int:
        if event.mode == CANONICAL:
            return CANON[event.content] + (10 if self.rules.keyed_digest else 0)
        return event.content

    def _slot(self, event: Event) -> int:
        """Which entry is the event's: that of its key. The old way: also of policy and count."""
        if self.rules.one_namespace:
            return event.rule
        return (1 if event.mode == CANONICAL else 0) * 2 + event.count

    def _fresh_nonce(self, g: int) -> None:
        self.entries = [Entry(count=self.redis.count)] * len(self.entries)
        for k in range(2):  # the caller too: its reply tells another nonce than it remembers
            self.gateway(k, current=False)
        self._prolong(g)

    def _prolong(self, g: int) -> None:
        for k in range(2):
            if k != g:
                self.gateway(k, talked=False)

    def open(self, g: int, rule: int) -> None:
        """The head of every call."""
        caller, redis = self.gateways[g], self.redis
        if redis.count < 0:  # missing
            redis = redis._replace(count=caller.count, rule=rule)
            self.entries = [Entry(count=caller.count)] * len(self.entries)
        self.redis = redis = redis._replace(count=max(redis.count, caller.count))
        if self.rules.key_rule and redis.rule != rule:
            if not redis.quarantine and self.rules.key_rule_nonce:
                self._fresh_nonce(g)
            self._prolong(g)
            self.redis = redis = redis._replace(rule=rule, quarantine=True)
        if caller.announces and self.rules.announce:
            if not redis.quarantine and self.rules.announce_nonce:
                self._fresh_nonce(g)
            if self.rules.announce_quarantine:
                self.redis = redis._replace(quarantine=True)
            self.gateway(g, lease=True)

    def registries(self, g: int) -> None:
        """The reply of a call: what is under way is registered under the nonce it tells."""
        gateway = self.gateways[g]
        if not gateway.current and self.rules.register:
            for i, event in enumerate(self.events):
                if event.gateway == g and event.place in UNDER_WAY and event.mode != PASS:
                    self.register(i)
        self.gateway(g, current=True, talked=True)

    def _put_token(self, entry: Entry, i: int, trusted: bool) -> Entry:
        """A token for the event, or the anonymous one when the entry has no room."""
        own = [token for token in entry.tokens if token.owner == i]
        tokens = [token for token in entry.tokens if token.owner != i]
        if own and not own[0].expired:
            trusted = own[0].trusted
        name, mark = i, OWN_TOKEN
        if not own and sum(token.owner != ANON for token in tokens) >= self.setup.room:
            name, mark, trusted = ANON, ANON_TOKEN, False
            tokens = [token for token in tokens if token.owner != ANON]
            if not self.rules.anonymous:
                self.put(i, token=0)
                return entry
            self.note += ", anonymous"
        self.put(i, token=mark)
        return entry._replace(tokens=tuple(sorted([*tokens, Token(name, trusted)])))

    @staticmethod
    def _purge(entry: Entry) -> Entry:
        if entry.tokens and all(token.expired for token in entry.tokens):
            return entry._replace(tokens=(), digest=NOTHING)
        return entry

    def register(self, i: int) -> None:
        slot = self._slot(self.events[i])
        self.entries[slot] = self._put_token(self._purge(self.entries[slot]), i, False)
        self.put(i, unreserved=False)

    def reserve(self, i: int) -> str:
        """RESERVE or FORCE: "behind", "unchanged" or "publish"."""
        event, count = self.events[i], self.redis.count
        slot, force = self._slot(event), event.mode == FORCED
        entry = self.entries[slot]
        if self.rules.one_namespace:
            if self.rules.behind and event.count < count:
                return "behind"
            if entry.count != count:
                if self.rules.growth_clears:
                    entry = entry._replace(digest=NOTHING, offset=-1)
                if not self.rules.growth_keeps_tokens:
                    entry = entry._replace(tokens=())
                entry = entry._replace(count=count)
        entry, quarantine = self._purge(entry), self.redis.quarantine
        free = not force and not quarantine and not entry.tokens
        if free and entry.digest == self._digest(event):
            return "unchanged"
        trusted = not force and not (quarantine and self.rules.quarantine_untrusts)
        self.entries[slot] = self._put_token(entry, i, trusted)
        return "publish"

    def settle(self, i: int) -> None:
        event = self.events[i]
        slot = self._slot(event)
        entry = self.entries[slot]
        own = [token for token in entry.tokens if token.owner == i]
        entry = entry._replace(tokens=tuple(t for t in entry.tokens if t.owner != i))
        digest = self._digest(event) if own and own[0].trusted else NOTHING
        if event.mode == FORCED:
            if self.rules.clear_forced:
                entry = self._untrust(entry)._replace(digest=NOTHING)
        elif self.rules.settle_lower_clears and event.count < entry.count:
            entry = entry._replace(digest=NOTHING)
            if self.rules.settle_lower_untrusts:
                entry = self._untrust(entry)
        elif event.count > entry.count or event.offset > entry.offset:
            entry = entry._replace(
                offset=event.offset, digest=digest, count=max(entry.count, event.count)
            )
        self.entries[slot] = entry

    @staticmethod
    def _untrust(entry: Entry) -> Entry:
        return entry._replace(tokens=tuple(t._replace(trusted=False) for t in entry.tokens))

    # ---- a gateway

    def arrive(self, g: int, content: int) -> None:
        gateway, log = self.gateways[g], self.log
        mode, place, unreserved = gateway.mode, NEW, False
        spooled = [one for one in self.events if one.place == SPOOLED]
        if self.rules.spool_passes and any(one.gateway == g for one in spooled):
            mode = PASS
        if mode == PASS and gateway.connected and self.rules.force_late and not gateway.lease:
            mode = FORCED
        elif mode == PASS or not gateway.connected:
            place, unreserved = LANE, not gateway.connected
        event = Event(
            place,
            g,
            content,
            mode,
            gateway.rule,
            gateway.count,
            matched=_same(mode, log.last, content),
            unreserved=unreserved,
            least=log.moved if gateway.connected and mode != PASS else 0,
            known=gateway.count,
            is_late=any(not _same(mode, one.content, content) for one in spooled),
        )
        self.events.append(event)
        if self.setup.follow and place == NEW and mode in (RAW, CANONICAL):
            self._join(len(self.events) - 1)
        self.note = f" ({MODES[mode]}, n+{gateway.count}{', unreserved' if unreserved else ''})"
        self._hand_over_at_once(len(self.events) - 1)

    def _join(self, i: int) -> None:
        """Follow the latest event of the key, if it is equal and not handed over."""
        event = self.events[i]
        for j in range(i - 1, -1, -1):
            other = self.events[j]
            if other.gateway != event.gateway or other.place in (DONE, UNKNOWN, WRECK, FOLLOWS):
                continue
            equal = (other.mode, other.rule, self._digest(other)) == (
                event.mode,
                event.rule,
                self._digest(event),
            )
            alike = other.count == event.count or not self.rules.follow_same_count
            if other.place in (NEW, LANE) and equal and alike:
                self.put(i, place=FOLLOWS, leader=j)
            return

    def _hand_over_at_once(self, i: int) -> None:
        if not self.setup.follow and self.events[i].place == LANE:
            self.put(i, place=HANDED)

    def claim(self, i: int) -> None:
        event = self.events[i]
        g = event.gateway
        self.open(g, event.rule)
        verdict = self.reserve(i)
        self.note = f": {verdict}{self.note}" + (" in quarantine" if self.redis.quarantine else "")
        if verdict == "behind":
            self.put(i, count=self.redis.count)
            self.gateway(g, count=self.redis.count)
            for j, other in enumerate(self.events):
                if other.place == FOLLOWS and other.leader == i:
                    self.put(j, count=self.redis.count)
        elif verdict == "unchanged":
            self._check_spool(i)
            for j, other in enumerate(self.events):
                if j == i or (other.place == FOLLOWS and other.leader == i):
                    if not other.matched:
                        name, last = CONTENTS[other.content], CONTENTS[self.log.last]
                        raise Violation(f"S1: {name} is unchanged, the last record is {last}")
                    self.events[j] = ENDED
        else:
            self.put(i, place=LANE)
            self._check_place(i, event.count)
            if self.setup.sequential and _same(event.mode, self.log.last, event.content):
                raise Violation("B: equal content is published again")
            self._hand_over_at_once(i)
        self.registries(g)

    def _check_spool(self, i: int) -> None:
        event = self.events[i]
        for other in self.events[:i] if event.is_late and "P" in self.setup.promises else ():
            if other.place != SPOOLED or _same(event.mode, other.content, event.content):
                continue
            if not (other.is_orphan or other.unreserved):
                name, newer = CONTENTS[event.content], CONTENTS[other.content]
                raise Violation(f"P: {name} is unchanged, and {newer} is on disk")

    def spool(self, i: int) -> None:
        """It goes from its lane to disk: what it reserved is given back, behind the announcement,
        in the same call. Those that follow it are answered as it is."""
        self.spend("spooled")
        event = self.events[i]
        g = event.gateway
        if self.rules.spool_holds:
            self.gateway(g, announces=True)
        connected = self.gateways[g].connected
        if connected:
            self.open(g, self.gateways[g].rule)
            slot = self._slot(event)
            entry = self.entries[slot]
            tokens = tuple(token for token in entry.tokens if token.owner != i)
            self.entries[slot] = entry._replace(tokens=tokens)
        self.put(i, place=SPOOLED, mode=PASS, token=0, unreserved=not connected)
        for j, other in enumerate(self.events):
            if other.place == FOLLOWS and other.leader == i:
                self.events[j] = ENDED
        if connected:
            self.registries(g)

    def drain(self, i: int) -> None:
        """It goes from disk to its lane, and is handed over."""
        gateway = self.gateways[self.events[i].gateway]
        self.put(i, place=HANDED, count=gateway.count, unreserved=not gateway.connected)

    def _check_place(self, i: int, count: int) -> None:
        event = self.events[i]
        if count < event.least and "K" in self.setup.promises:
            raise Violation("K: placed by n after a record placed by n+1 had landed")
        if count < event.known and "K2" in self.setup.promises:
            raise Violation("K2: placed by n at a gateway that knew n+1")

    def land(self, i: int, place: int) -> None:
        """The record is in the log. place: ACKED, or where an event goes that is not told."""
        event, log = self.events[i], self.log
        ends = list(log.ends)
        offset, ends[event.count] = ends[event.count], ends[event.count] + 1
        moved = log.moved
        if event.mode != PASS and not event.unreserved and event.count <= self.redis.count:
            moved = max(moved, event.count)
        self.log = Log(event.content, (ends[0], ends[1]), log.grown, moved)
        for j, other in enumerate(self.events):
            if other.place not in (NEW, FOLLOWS) or other.matched:
                continue
            if _same(other.mode, event.content, other.content):
                self.put(j, matched=True)
        self.put(i, place=place, offset=offset)
        if place != ACKED:
            return
        if event.mode == PASS and not event.unreserved:
            self.events[i] = ENDED
        for j, other in enumerate(self.events):
            if other.place == FOLLOWS and other.leader == i:
                # K is about records: a follower leaves none.
                self.put(j, least=0)
                self._check_place(j, event.count)
                self.events[j] = ENDED

    def end_unknown(self, i: int, place: int) -> None:
        self.put(i, place=place)
        for j, other in enumerate(self.events):
            if other.place == FOLLOWS and other.leader == i:
                self.events[j] = ENDED
        if place == UNKNOWN and self.events[i].mode == PASS and not self.events[i].unreserved:
            self.events[i] = ENDED

    def settlement(self, i: int) -> None:
        event = self.events[i]
        self.open(event.gateway, self.gateways[event.gateway].rule)
        self.settle(i)
        self.events[i] = ENDED
        self.registries(event.gateway)

    def learn(self, g: int) -> None:
        """Metadata tells of the growth."""
        self.gateway(g, count=1)

    def talk(self, g: int) -> None:
        self.open(g, self.gateways[g].rule)
        self.registries(g)
        if self.rules.one_namespace and self.rules.behind:
            self.gateway(g, count=max(self.redis.count, self.gateways[g].count))

    def reconfigure(self, g: int, config: Config) -> None:
        self.spend("changes")
        before = self.gateways[g]
        gateway = self.gateway(g, mode=config.mode, rule=config.rule)
        if config.mode == PASS:
            self.gateway(g, announces=True)
        elif before.announces and not self.rules.renew:
            self.stop_announcing(g)
        if self.rules.old_rule_announces and any(
            event.gateway == g and event.place in (NEW, LANE, HANDED, GHOST, UNKNOWN)
            for event in self.events
            if event.rule != gateway.rule
        ):
            self.gateway(g, announces=True)

    def stop_announcing(self, g: int) -> None:
        self.gateway(g, announces=False, lease=False)
        for k in range(2):  # everyone talks again before the quarantine ends
            self.gateway(k, talked=False)

    # ---- faults

    def cut_off(self, g: int) -> None:
        self.spend("cuts")
        self.disconnect(g)

    def disconnect(self, g: int) -> None:
        """Redis is away for g: what waits for a claim is written unreserved."""
        self.gateway(g, connected=False)
        for i, event in enumerate(self.events):
            if event.gateway == g and event.place == NEW:
                self.put(i, place=LANE, unreserved=True, least=0)
                self._hand_over_at_once(i)

    def reconnect(self, g: int) -> None:
        self.gateway(g, connected=True, current=False)
        self.open(g, self.gateways[g].rule)
        for i, event in enumerate(self.events):
            if event.gateway != g or not event.unreserved or event.place in (WRECK, DONE):
                continue
            if event.place == ACKED:
                if event.mode != PASS:
                    self.settle(i)
                self.events[i] = ENDED
            elif event.mode == PASS:
                self.put(i, unreserved=False)
                if event.place == UNKNOWN:
                    self.events[i] = ENDED
        self.registries(g)

    def restart_redis(self) -> None:
        self.spend("restarts")
        self.redis = Redis(quarantine=True, count=-1)
        self.entries = [Entry()] * len(self.entries)
        self.log = self.log._replace(moved=0)  # K is void: the count is forgotten
        for k, event in enumerate(self.events):
            self.events[k] = event._replace(least=0)
        for g in range(2):
            self.gateway(g, lease=False, current=False, talked=False)
            self.disconnect(g)

    def die(self, g: int) -> None:
        """The process is killed and replaced. Its announcement lives on."""
        self.spend("deaths")
        for i, event in enumerate(self.events):
            if event.gateway == g and event.place != DONE:
                if event.place == SPOOLED:
                    self.put(i, is_orphan=True)
                elif event.place in (HANDED, GHOST):
                    self.put(i, place=WRECK)
                elif event.place != WRECK:
                    lost = event.unreserved and event.place == ACKED
                    self.events[i] = LOST_BLIND if lost else ENDED
        gateway = self.gateways[g]
        if gateway.lease:
            self.redis = self.redis._replace(dead_lease=True)
        self.gateways[g] = Gateway(
            gateway.mode,
            gateway.rule,
            gateway.count,
            current=False,
            talked=False,
            announces=gateway.mode == PASS or (self.rules.spool_holds and self._has_spooled(g)),
        )

    def _has_spooled(self, g: int) -> bool:
        return any(one.gateway == g and one.place == SPOOLED for one in self.events)


def initial(setup: Setup) -> State:
    """The log is A, and Redis knows it, unless the gateways' configurations forbid that.

    Offsets by n are higher than those by n+1, so that comparing them would be wrong.
    """
    first, second = (setup.configs[k] for k in setup.starts)
    passes = [config.mode == PASS and setup.rules.announce for config in (first, second)]
    differ = first.rule != second.rule and setup.rules.key_rule
    quarantine = differ or (any(passes) and setup.rules.announce_quarantine)
    entries = [Entry()] * (2 if setup.rules.one_namespace else 4)
    if not quarantine and first.mode != PASS:
        known = CANON[A] + 10 if first.mode == CANONICAL and setup.rules.keyed_digest else A
        slot = first.rule if setup.rules.one_namespace else 2 * (first.mode == CANONICAL)
        entries[slot] = Entry(known, 9, 0)
    gateways = tuple(
        Gateway(*config, announces=config.mode == PASS, lease=lease)
        for config, lease in zip((first, second), passes, strict=True)
    )
    left = Left(
        setup.changes,
        setup.growth,
        setup.deaths,
        setup.restarts,
        setup.cuts,
        setup.unknown,
        setup.spooled,
    )
    redis = Redis(quarantine, rule=first.rule)
    return State((), gateways, redis, tuple(entries), Log(A, (10, 0)), left)


def alike(state: State, swappable: bool = True) -> tuple[object, ...]:
    """Equal for states that differ only in names.

    Names of the gateways, where they are `swappable`; numbers of the events, as long as the
    order of those of one gateway stays; and events that ended and left no token.
    """
    events, gateways = state.events, state.gateways
    swap = swappable and gateways[1] < gateways[0]
    kept = {token.owner for entry in state.entries for token in entry.tokens}
    order = [
        i for i, event in enumerate(events) if event.place != DONE or event.unreserved or i in kept
    ]
    order.sort(key=lambda i: events[i].gateway != swap)
    names = {i: k for k, i in enumerate(order)}
    names[ANON] = ANON
    shown = [events[i] for i in order]
    if swap:
        gateways = gateways[::-1]
        shown = [event._replace(gateway=1 - event.gateway) for event in shown]
    entries = state.entries
    if kept:
        entries = tuple(
            entry._replace(tokens=tuple(sorted((names[t[0]], *t[1:]) for t in entry.tokens)))
            for entry in entries
        )
    if any(event.place == FOLLOWS for event in shown):
        shown = [
            event._replace(leader=names[event.leader]) if event.place == FOLLOWS else event
            for event in shown
        ]
    return (len(events), tuple(shown), gateways, state.redis, entries, state.log, state.left)


# ---- guards


def _blocked(state: State, i: int) -> bool:
    """One record of a lane (a gateway, a key, a count) after the other."""
    event = state.events[i]
    if any(
        other.place == SPOOLED and (other.gateway, other.rule) == (event.gateway, event.rule)
        for other in state.events[:i]
    ):
        return True
    return any(
        other.place in (LANE, HANDED)
        and (other.gateway, other.rule, other.count) == (event.gateway, event.rule, event.count)
        for other in state.events[:i]
    )


def _may_drain(setup: Setup, state: State, g: int) -> bool:
    gateway = state.gateways[g]
    return gateway.lease or not gateway.connected or not setup.rules.spool_late


def _token_may_expire(setup: Setup, state: State, token: Token) -> bool:
    """Life is longer than anything it stands for: a landing, and a settlement if Redis is there.

    A dead process' request is on the wire for less than life; a live process renews its tokens.
    An unknown record may land later than any timeout, so its token waits for the fence.
    """
    for i, event in enumerate(state.events):
        if i == token.owner or (token.owner == ANON and event.token == ANON_TOKEN):
            if event.place == GHOST and not setup.rules.fence:
                continue
            if event.place in MAY_LAND:
                return False
            if event.place == ACKED and state.gateways[event.gateway].connected:
                return False
    return True


def _may_stop_announcing(setup: Setup, state: State, g: int) -> bool:
    """Life after the last record that passed had ended."""
    gateway = state.gateways[g]
    if gateway.mode == PASS or not gateway.announces or not gateway.connected:
        return False
    for event in state.events:
        strange = event.rule != gateway.rule and setup.rules.old_rule_announces
        if event.gateway != g or not (event.mode == PASS or strange):
            continue
        if event.place == SPOOLED and setup.rules.spool_holds:
            return False
        if event.place in (LANE, HANDED) or (strange and event.place in (NEW, ACKED)):
            return False
        if event.place == GHOST and setup.rules.renew_unknown:
            return False
    return True


def _quarantine_may_end(setup: Setup, state: State) -> bool:
    """Q is longer than a process takes to reconnect and talk, and than a dead process' request.

    The latter counts from the death: a live process has its tokens registered, or announces.
    """
    if state.redis.dead_lease or state.redis.count < 0:
        return False
    if any(not g.connected or not g.talked or g.lease for g in state.gateways):
        return False
    for i, event in enumerate(state.events):
        if event.place == WRECK:
            name = ANON if event.token == ANON_TOKEN else i
            entry = state.entries[event.rule]
            if event.rule != state.redis.rule or all(t.owner != name for t in entry.tokens):
                return False
    return True


def _exempt(state: State) -> bool:
    """The documented window of redis_loss: a record is written that Redis has not heard of."""
    return any(event.unreserved for event in state.events)


# ---- steps


def _of_events(setup: Setup, state: State) -> Iterator[tuple[str, Action]]:
    waiting: set[int] = set()
    for i, event in enumerate(state.events):
        place, g = event.place, event.gateway
        if place == DONE:
            continue
        name = f"{CONTENTS[event.content]}{i}@g{g}"
        if place == NEW and g not in waiting:
            waiting.add(g)
            if state.gateways[g].connected:
                yield f"{name} claims", lambda w, i=i: w.claim(i)
        elif place == LANE and not _blocked(state, i):
            yield f"{name} is handed over", lambda w, i=i: w.put(i, place=HANDED)
        elif place == HANDED and not _blocked(state, i):
            if state.left.spooled:
                yield f"{name} is spooled", lambda w, i=i: w.spool(i)
            yield f"{name} lands, acknowledged", lambda w, i=i: w.land(i, ACKED)
            if state.left.unknown:
                yield f"{name} lands, outcome unknown", lambda w, i=i: _landed_unknown(w, i)
                yield f"{name} outcome unknown", lambda w, i=i: _unknown(w, i)
        elif place == SPOOLED and not _blocked(state, i) and _may_drain(setup, state, g):
            yield f"{name} drains", lambda w, i=i: w.drain(i)
        elif place == ACKED and state.gateways[g].connected:
            yield f"{name} settles", lambda w, i=i: w.settlement(i)
        elif place == GHOST:
            yield f"{name} lands late", lambda w, i=i: _land_late(w, i)
            yield f"{name} will never land", lambda w, i=i: w.end_unknown(i, UNKNOWN)
        elif place == WRECK:
            yield f"{name} lands after its process died", lambda w, i=i: _land_wreck(w, i)
            yield f"{name} dies with its process", lambda w, i=i: _end_wreck(w, i)


def _unknown(world: World, i: int) -> None:
    world.spend("unknown")
    world.end_unknown(i, GHOST)


def _landed_unknown(world: World, i: int) -> None:
    world.spend("unknown")
    _land_late(world, i)


def _land_late(world: World, i: int) -> None:
    world.land(i, UNKNOWN)
    world.end_unknown(i, UNKNOWN)


def _land_wreck(world: World, i: int) -> None:
    world.land(i, WRECK)
    _end_wreck(world, i)


def _end_wreck(world: World, i: int) -> None:
    world.events[i] = LOST_BLIND if world.events[i].unreserved else ENDED


def _of_gateways(setup: Setup, state: State) -> Iterator[tuple[str, Action]]:
    left, gateways = state.left, state.gateways
    posts = len(setup.history) or setup.posts
    untouched = not state.events and gateways[0] == gateways[1] and not setup.history
    for g in (0,) if untouched else (0, 1):  # the gateways are alike until one does something
        gateway = gateways[g]
        if len(state.events) < posts and not (setup.sequential and _busy(state)):
            for content in _next_contents(setup, state, g):
                text = f"{CONTENTS[content]}{len(state.events)}@g{g} arrives"
                yield text, lambda w, g=g, c=content: w.arrive(g, c)
        if left.changes:
            for config in setup.configs:
                if config != (gateway.mode, gateway.rule):
                    text = f"g{g} turns {MODES[config.mode]}, key rule {config.rule}"
                    yield text, lambda w, g=g, c=config: w.reconfigure(g, c)
        if state.log.grown and gateway.count == 0:
            yield f"g{g} learns n+1", lambda w, g=g: w.learn(g)
        if gateway.connected:
            if _has_to_talk(setup, state, gateway):
                yield f"g{g} talks", lambda w, g=g: w.talk(g)
            if left.cuts:
                yield f"g{g} is cut off", lambda w, g=g: w.cut_off(g)
        else:
            yield f"g{g} reconnects", lambda w, g=g: w.reconnect(g)
        if _may_stop_announcing(setup, state, g):
            yield f"announcement of g{g} ends", lambda w, g=g: w.stop_announcing(g)
        if left.deaths and any(e.gateway == g and e.place != DONE for e in state.events):
            yield f"g{g} dies", lambda w, g=g: w.die(g)


def _next_contents(setup: Setup, state: State, g: int) -> tuple[int, ...]:
    if not setup.history:
        return setup.contents
    gateway, content = setup.history[len(state.events)]
    return (content,) if gateway == g else ()


def _busy(state: State) -> bool:
    return any(event.place != DONE for event in state.events)


def _has_to_talk(setup: Setup, state: State, gateway: Gateway) -> bool:
    redis = state.redis
    return (
        (redis.quarantine and not (gateway.current and gateway.talked))
        or (gateway.announces and not gateway.lease and setup.rules.announce)
        or (setup.rules.key_rule and gateway.rule != redis.rule)
        or (setup.rules.one_namespace and gateway.count != redis.count and setup.growth > 0)
    )


def _of_time_and_faults(setup: Setup, state: State) -> Iterator[tuple[str, Action]]:
    for slot, entry in enumerate(state.entries):
        for token in entry.tokens:
            if not token.expired and _token_may_expire(setup, state, token):
                name = "anonymous" if token.owner == ANON else str(token.owner)
                yield f"token {name} expires", lambda w, s=slot, t=token: _expire(w, s, t)
    for i, event in enumerate(state.events):
        if event.place == UNKNOWN and not event.unreserved and event.token != OWN_TOKEN:
            # No token of its own: nothing left to wait for.
            yield f"event {i} is given up", lambda w, i=i: _give_up(w, i)
    if state.redis.quarantine and _quarantine_may_end(setup, state):
        yield "quarantine ends", _end_quarantine
    if state.redis.dead_lease:
        yield "announcement of a dead process ends", _end_dead_lease
    if state.left.growth:
        yield "the topic grows", _grow
    if state.left.restarts:
        yield "Redis restarts empty", lambda w: w.restart_redis()


def _expire(world: World, slot: int, token: Token) -> None:
    entry = world.entries[slot]
    rest = tuple(t for t in entry.tokens if t != token)
    entry = entry._replace(tokens=tuple(sorted((*rest, token._replace(expired=True)))))
    # Redis purges at the next claim; nothing but a claim could tell.
    world.entries[slot] = World._purge(entry)
    if token.owner != ANON and world.events[token.owner].place == UNKNOWN:
        _give_up(world, token.owner)


def _give_up(world: World, i: int) -> None:
    world.events[i] = ENDED


def _end_quarantine(world: World) -> None:
    world.redis = world.redis._replace(quarantine=False)
    for g in range(2):
        world.gateway(g, talked=True)


def _end_dead_lease(world: World) -> None:
    world.redis = world.redis._replace(dead_lease=False)
    for g in range(2):  # it prolonged the quarantine to the end
        world.gateway(g, talked=False)


def _grow(world: World) -> None:
    world.spend("growth")
    world.log = world.log._replace(grown=True)


def successors(setup: Setup, state: State) -> Iterator[tuple[str, State | None, str]]:
    """Each step that can be taken: what it is, the state after it, the promise it breaks."""
    for source in (_of_events, _of_gateways, _of_time_and_faults):
        for label, action in source(setup, state):
            world = World(setup, state)
            try:
                action(world)
            except Violation as broken:
                if str(broken).startswith("S1") and _exempt(state):
                    continue
                yield label + world.note, None, str(broken)
            else:
                yield label + world.note, world.freeze(), ""


@dataclass
class Result:
    states: int = 0
    complete: bool = True
    broken: str = ""
    trace: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)  # of steps that were taken: the coverage


def explore(setup: Setup, limit: int = 1_000_000) -> Result:
    """Breadth first, until a promise is broken, or all is seen, or `limit` states are."""
    first = initial(setup)
    came: dict[State, tuple[State, str] | None] = {first: None}
    swappable = not setup.history
    seen, todo, result = {alike(first, swappable)}, deque([first]), Result()
    while todo and len(seen) < limit:
        state = todo.popleft()
        for label, after, broken in successors(setup, state):
            if broken or after is None:
                result.broken, result.trace = broken, [*_trace(came, state), label, broken]
                result.states, result.complete = len(seen), False
                return result
            key = alike(after, swappable)
            if key not in seen:
                seen.add(key)
                came[after] = (state, label)
                todo.append(after)
                result.kinds.add(label.split("@g0 ")[-1].split("@g1 ")[-1])
    result.states, result.complete = len(seen), not todo
    return result


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return labels[::-1]
