"""The suppression protocol: the messages of both scripts, and their rules in Python.

docs/design/suppression-protocol.md explains it. `suppression.lua` and `layout.lua` have the same
rules; property tests hold them together. Everything here is pure: the time is an argument.

One call of the suppression script carries any number of operations on any number of keys:

    KEYS    the incarnation of each namespace, the mark of each one's topic, then the entries
    ARGV[1] the header: what holds for the whole call, and a few fields for each namespace
    ARGV[2] how many bytes of operations each entry has
    ARGV[3] the operations of all entries: for each the namespace's place in the call (one byte),
            then operations

An operation is a letter and fields of fixed width, applied in the order given to one entry. So a
key may be settled and then reserved several times in one call: each operation sees those before
it, which a script that reads all entries first and decides afterwards would get wrong.
"""

import math
import struct
from collections.abc import MutableMapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, cast

from headgate.core.suppression import Scope

TOKEN_BYTES = 12
DIGEST_BYTES: Final = 16
NO_DIGEST = bytes(DIGEST_BYTES)  # instead of a digest that must not be trusted

RESERVE: Final = b"r"
FORCE: Final = b"p"
REGISTER: Final = b"g"
SETTLE: Final = b"s"
KEEP: Final = b"k"
REFUSED: Final = b"x"
CLEAR: Final = b"c"

# What a call does to a namespace before its operations.
DROP: Final = 1  # forget what is known of all keys
ANNOUNCE: Final = 2  # say that records are, or were, written to the topic without a reservation
MARK: Final = 4  # with ANNOUNCE: some wait for it on disk, whatever id the topic has by then

MAX_TOKENS: Final = 64  # of one key, also in suppression.lua; more publishes at once share CROWD
CROWD: Final = b"\xff" * TOKEN_BYTES

_HEADER: Final = struct.Struct(">16s16sdddd")
_SCOPE: Final = struct.Struct(">BI8s")
_STATE: Final = struct.Struct(">16sId")
_LAYOUT_CALL: Final = struct.Struct(">16s16sdd")
pack_state: Final = _STATE.pack  # what a script says of a namespace
# letter, token, digest, offset, partition count. The offset is a double: Lua has no other number,
# exact to 2**53.
pack_settlement: Final = struct.Struct(">c12s16sdI").pack


class SuppressionSpans(NamedTuple):
    """The spans of the protocol, in ms. All gateways of one Redis should agree on them.

    life: how long a token may stand for a publish whose end is not known.  quarantine: how long
    after the birth of an incarnation nothing is suppressed.  max_suppress_age: how old the
    published record may be.  retain: how long an unused incarnation is kept.
    """

    life: float
    quarantine: float
    max_suppress_age: float
    retain: float = 30 * 86_400_000.0

    @property
    def lease(self) -> float:
        """The time for which an announcement holds, ms. Its end begins a quarantine."""
        return self.quarantine / 2


class SuppressionCall(NamedTuple):
    """One run of the script.

    candidate: a nonce that was never used before, for the incarnations that this call begins.
    scopes: the namespaces.  flags: one byte for each, DROP, ANNOUNCE and MARK.  counts: for each,
    the partition count that the caller places by.
    entries, operations: names of entries, all different, and what is done to each.
    reservations: how many of the operations are RESERVE or FORCE.
    """

    spans: SuppressionSpans
    candidate: bytes
    scopes: Sequence[Scope]
    flags: bytes
    counts: Sequence[int]
    entries: Sequence[bytes]
    operations: Sequence[bytes]
    reservations: int

    def header(self, redis: bytes) -> bytes:
        """Return ARGV[1]. redis: 16 bytes that no other Redis process or replication id has."""
        return _HEADER.pack(redis, self.candidate, *self.spans) + b"".join(
            [
                _SCOPE.pack(flags, count, scope.rule)
                for scope, flags, count in zip(self.scopes, self.flags, self.counts, strict=True)
            ]
        )

    def sizes(self) -> bytes:
        """Return ARGV[2]."""
        return struct.pack(f">{len(self.operations)}H", *map(len, self.operations))


class NamespaceState(NamedTuple):
    """The state of a namespace in a reply.

    nonce: of its incarnation.  partitions: the count in force; a reservation by a smaller one was
    not made.  opens_ms: by Redis' clock, when it suppresses, if nothing happens before.
    """

    nonce: bytes
    partitions: int
    opens_ms: float


class SuppressionReply(NamedTuple):
    """The script's answer.

    now: Redis' clock, ms.  crowded: how many reservations found no room for a token of their own.
    forgotten: how many keys' contents are not kept because memory is full.
    states: one for each of the call's scopes.  verdicts: one for each reservation, by its number:
    the offset if it is unchanged, else see `floor_of`.
    """

    now: int
    crowded: int
    forgotten: int
    states: Sequence[NamespaceState]
    verdicts: Sequence[int]


def floor_of(verdict: int) -> int:
    """Return the key's highest acknowledged offset when it was reserved, -1 if there was none."""
    return -2 - verdict


def verdict_to_publish(floor: int) -> int:
    """Encode PUBLISH with the floor; UNCHANGED is the offset itself, which is never negative."""
    return -2 - floor


def reserve(token: bytes, digest: bytes, number: bytes) -> bytes:
    """Publish unless unchanged. number: two bytes, the reservation's place among the verdicts."""
    return RESERVE + token + digest + number


def force(token: bytes, number: bytes) -> bytes:
    """Reserve, but never as unchanged (Headgate-Force).

    Not REGISTER: its token is trusted like that of any claim that found other content, so the
    next equal event is unchanged again.
    """
    return FORCE + token + number


def register(token: bytes) -> bytes:
    """Say that a publish is, or may be, in flight: adds an untrusted token or renews one."""
    return REGISTER + token


def settle(token: bytes, digest: bytes, offset: int, count: int, *, keep: bool = False) -> bytes:
    """Acknowledged at this offset. count: of the partitions when the record was placed.

    keep: leave the token, a copy may still land.
    """
    return pack_settlement(KEEP if keep else SETTLE, token, digest, offset, count)


def refused(token: bytes) -> bytes:
    """No record of this publish can be in the log."""
    return REFUSED + token


def number_bytes(count: int) -> list[bytes]:
    """Return the numbers 0 .. count - 1 as the operations carry them."""
    return [number.to_bytes(2, "big") for number in range(count)]


def read_reply(call: SuppressionCall, answer: Sequence[int | bytes]) -> SuppressionReply:
    """Take the script's flat answer apart."""
    now, crowded, forgotten = cast("Sequence[int]", answer[:3])
    verdicts, *packed = cast("Sequence[bytes]", answer[3:])
    states = [NamespaceState(*_STATE.unpack(state)) for state in packed]
    numbers = list(struct.unpack(f">{call.reservations}q", verdicts))
    return SuppressionReply(now, crowded, forgotten, states, numbers)


def pack_verdicts(verdicts: Sequence[int]) -> bytes:
    """Pack verdicts as the script does."""
    return struct.pack(f">{len(verdicts)}q", *verdicts)


class LayoutCall(NamedTuple):
    """One run of the layout script.

    name: Of the key in Redis.
    layout: 16 bytes.
    alive_ms: How long an announced layout counts as in use.
    keep_ms: How long it is remembered.
    """

    name: bytes
    layout: bytes
    alive_ms: float
    keep_ms: float

    def packed(self, redis: bytes) -> bytes:
        """The script's argument. redis: R of the connection."""
        return _LAYOUT_CALL.pack(redis, self.layout, self.alive_ms, self.keep_ms)


class LayoutReply(NamedTuple):
    """The layout script's answer.

    now, noisy: By the server's clock, ms.
    is_disputed: Another layout is in use.
    """

    now: int
    noisy: int
    is_disputed: bool


# ---- The rules, as in `suppression.lua`: the same answers, the same bytes
#
# An entry is one string:
#
#     nonce (16)  digest h (16)  offset o (double)  time t of that publish (double, ms)
#     the partition count by which o was placed (int)  the earliest end of its life (double, ms)
#     and for each token in flight: token (12)  deadline (double, ms)  trusted (one byte)
#
# An incarnation is: nonce (16)  the Redis process R (16)  born (double, ms)  renewed (double, ms)
# the partition count in force (int)  the key rule in use (8).
#
# A mark exists while events of the topic lie on the disk of any process, under whatever id that
# process has for the topic.


_ENTRY = struct.Struct(">16s16sddId")
_TOKEN = struct.Struct(">12sdB")
_INCARNATION = struct.Struct(">16s16sddI8s")
_MARGIN = 60_000.0  # ms that an entry outlives what it says
_LAYOUT_HEAD = struct.Struct(">16sd")
_LAYOUT_SEEN = struct.Struct(">16sd")
_MAX_LAYOUTS = 32  # that a server remembers, the newest; also in layout.lua
_RETAIN_MS = 30 * 86_400_000  # as incarnations; also in layout.lua
_STEP = 10_000.0  # ms; many entries have the same `kept`, one string in Lua


class StoredKey(NamedTuple):
    """A value in the store. expires: ms by the store's clock."""

    value: bytes
    expires: float


Store = MutableMapping[bytes, StoredKey]


class KeyEntry:
    """The entry of one key. tokens: deadline and whether it is trusted, by token.

    kept: no token lives longer, and the entry lives _MARGIN longer.
    """

    __slots__ = ("changed", "count", "digest", "kept", "offset", "time", "tokens")

    def __init__(self, value: bytes | None, nonce: bytes) -> None:
        self.digest, self.offset, self.time = NO_DIGEST, -1.0, 0.0
        self.count, self.kept = 0, 0.0
        self.tokens: dict[bytes, tuple[float, bool]] = {}
        self.changed = False
        if value is None or value[:16] != nonce:
            return  # of an earlier incarnation: says nothing
        _, self.digest, self.offset, self.time, self.count, self.kept = _ENTRY.unpack_from(value)
        for token, deadline, trusted in _TOKEN.iter_unpack(value[_ENTRY.size :]):
            self.tokens[token] = (deadline, bool(trusted))

    def pack(self, nonce: bytes) -> bytes:
        """Return the string to store."""
        tokens = [_TOKEN.pack(token, *rest) for token, rest in self.tokens.items()]
        fields = (self.digest, self.offset, self.time, self.count, self.kept)
        return _ENTRY.pack(nonce, *fields) + b"".join(tokens)

    def place_by(self, count: int) -> None:
        """Forget an offset that was placed by another partition count."""
        if self.count != count:
            self.digest, self.offset, self.count = NO_DIGEST, -1.0, count

    def claim(
        self,
        token: bytes,
        digest: bytes | None,
        now: float,
        spans: SuppressionSpans,
        trusted: bool,
    ) -> int:
        """Leave a token and return the verdict. digest None: never unchanged."""
        self.purge(now)
        fresh = now - self.time < spans.max_suppress_age
        if trusted and not self.tokens and self.digest == digest and fresh:
            return int(self.offset)
        self.put(token, now, spans, trusted)
        return verdict_to_publish(int(self.offset))

    def purge(self, now: float) -> None:
        """Drop all tokens and the digest once all have expired: each is a write of unknown end.

        With one live token left, none goes.
        """
        if self.tokens and all(deadline <= now for deadline, _ in self.tokens.values()):
            self.tokens.clear()
            self.digest, self.changed = NO_DIGEST, True

    def put(self, token: bytes, now: float, spans: SuppressionSpans, trusted: bool) -> None:
        """Add a token, or move the deadline of one that has not expired."""
        held = self.tokens.get(token)
        if held is None and self.is_full:
            token, trusted = CROWD, False
            held = self.tokens.get(token)
        if held is not None and held[0] > now:
            trusted = held[1]
        self.tokens[token] = (now + spans.life, trusted)
        self.changed = True

    @property
    def is_full(self) -> bool:
        """True if the entry has no room for another token."""
        return len(self.tokens) >= MAX_TOKENS

    def settle(
        self, token: bytes, digest: bytes, offset: float, count: int, now: float, keep: bool
    ) -> None:
        """Acknowledged: only the highest offset counts, and only with its own trusted token."""
        held = self.tokens.get(token)
        if held is not None and not keep:
            self.drop(token)
        if count < self.count:
            # In the key's former partition: it may be newer than anything in the present one, and
            # than what is still on its way there.
            self.clear()
        elif count > self.count or offset > self.offset:
            self.offset, self.time, self.count, self.changed = offset, now, count, True
            self.digest = digest if held is not None and held[1] else NO_DIGEST

    def drop(self, token: bytes) -> None:
        """Remove a token, if it is there."""
        self.changed |= self.tokens.pop(token, None) is not None

    def clear(self) -> None:
        """Forget the content and the trust in all tokens, but no token and no offset."""
        self.digest, self.changed = NO_DIGEST, True
        self.tokens = {token: (deadline, False) for token, (deadline, _) in self.tokens.items()}

    def forget(self) -> bool:
        """Drop the content of a new key because memory is full, or memory would grow with every
        key. Its tokens stay; none may set a digest without the offset.
        """
        if self.offset < 0:
            return False
        self.clear()
        self.offset, self.time = -1.0, 0.0
        return True

    def keep(self, now: float, spans: SuppressionSpans) -> None:
        """Extend the entry's life beyond that of a token, and beyond max_suppress_age.

        It grows in whole steps, so that most writes leave the expiry as it is.
        """
        span = max(spans.life, spans.max_suppress_age)
        if self.kept < now + span:
            self.kept = (now + span + span / 8) // _STEP * _STEP + _STEP

    def keep_tokens(self) -> None:
        """It is kept for its tokens alone."""
        self.kept = max((deadline for deadline, _ in self.tokens.values()), default=0.0)


class _Namespace(NamedTuple):
    """A namespace while a call runs. is_open: it suppresses.  is_behind: the caller is."""

    state: NamespaceState
    is_open: bool
    is_behind: bool


def run(
    store: Store, call: SuppressionCall, redis: bytes, now: int, *, is_full: bool = False
) -> SuppressionReply:
    """Do what the script does. redis: R of the connection; now: ms.

    is_full: Redis has used up its memory and evicts nothing.
    """
    marked = [_read(store, scope.mark, now) is not None for scope in call.scopes]
    namespaces = [
        _open(store, call, redis, now, scope, flags, count, is_marked)
        for scope, flags, count, is_marked in zip(
            call.scopes, call.flags, call.counts, marked, strict=True
        )
    ]
    reservations, forgotten = _Reservations(call.reservations), 0
    for name, operations in zip(call.entries, call.operations, strict=True):
        namespace = namespaces[operations[0]]
        nonce = namespace.state.nonce
        entry = KeyEntry(_read(store, name, now), nonce)
        was_new = entry.offset < 0
        _apply(entry, operations, now, call.spans, namespace, reservations)
        if not entry.changed:
            continue
        entry.keep(now, call.spans)
        if is_full and was_new:
            forgotten += entry.forget()
            entry.keep_tokens()
        if is_full and was_new and not entry.tokens:
            store.pop(name, None)
        else:
            store[name] = StoredKey(entry.pack(nonce), now + int(entry.kept - now + _MARGIN))
    states = [namespace.state for namespace in namespaces]
    return SuppressionReply(now, reservations.crowded, forgotten, states, reservations.verdicts)


def _open(
    store: Store,
    call: SuppressionCall,
    redis: bytes,
    now: int,
    scope: Scope,
    flags: int,
    caller: int,
    is_marked: bool,
) -> _Namespace:
    if flags & MARK:
        store[scope.mark] = StoredKey(b"1", now + int(call.spans.lease))
        is_marked = True
    held = _read(store, scope.incarnation, now)
    rule = scope.rule[:8].ljust(8, b"\0")
    nonce, process, born, renewed, count, whose = (
        _INCARNATION.unpack(held) if held is not None else (b"", b"", 0.0, 0.0, 0, rule)
    )
    quarantine, changed = call.spans.quarantine, False
    if process != redis or flags & DROP:
        nonce, born, changed = call.candidate, float(now), True
    if caller > count:  # for one topic id it only grows, whatever else was lost
        count, changed = caller, True
    is_open = now >= born + quarantine
    if whose != rule:
        if is_open:
            nonce = call.candidate
        born, whose, changed = max(born, float(now)), rule, True
        is_open = now >= born + quarantine
    if flags & ANNOUNCE:
        if is_open:
            nonce = call.candidate
        born, changed = max(born, now + call.spans.lease), True
        is_open = now >= born + quarantine
    if changed or now - renewed > call.spans.retain / 4:
        value = _INCARNATION.pack(nonce, redis, born, float(now), count, whose)
        store[scope.incarnation] = StoredKey(value, now + call.spans.retain)
    is_open = is_open and not is_marked
    return _Namespace(NamespaceState(nonce, count, born + quarantine), is_open, caller < count)


class _Reservations:
    """The verdicts of a call's reservations."""

    __slots__ = ("crowded", "verdicts")

    def __init__(self, count: int) -> None:
        self.verdicts = [-1] * count
        self.crowded = 0

    def claim(
        self, number: int, entry: KeyEntry, token: bytes, digest: bytes | None, now: float,
        spans: SuppressionSpans, namespace: _Namespace,
    ) -> None:  # fmt: skip
        if namespace.is_behind:
            return
        entry.place_by(namespace.state.partitions)
        verdict = entry.claim(token, digest, now, spans, namespace.is_open)
        self.verdicts[number] = verdict
        if verdict < 0 and token not in entry.tokens:
            self.crowded += 1


def _apply(
    entry: KeyEntry, operations: bytes, now: float, spans: SuppressionSpans, namespace: _Namespace,
    reservations: _Reservations,
) -> None:  # fmt: skip
    at = 1
    while at < len(operations):
        letter = operations[at : at + 1]
        at += 1
        if letter == CLEAR:
            entry.clear()
            continue
        token = operations[at : at + TOKEN_BYTES]
        at += TOKEN_BYTES
        if letter == REGISTER:
            entry.purge(now)
            entry.put(token, now, spans, trusted=False)
        elif letter == REFUSED:
            entry.drop(token)
        elif letter == FORCE:
            (number,) = struct.unpack_from(">H", operations, at)
            reservations.claim(number, entry, token, None, now, spans, namespace)
            at += 2
        elif letter == RESERVE:
            digest, number = struct.unpack_from(">16sH", operations, at)
            reservations.claim(number, entry, token, digest, now, spans, namespace)
            at += 18
        else:
            digest, offset, count = struct.unpack_from(">16sdI", operations, at)
            entry.settle(token, digest, offset, count, now, letter == KEEP)
            at += 28


def _read(store: Store, name: bytes, now: float) -> bytes | None:
    held = store.get(name)
    return held.value if held is not None and held.expires > now else None


def announce_layout(
    store: MutableMapping[bytes, StoredKey], call: LayoutCall, redis: bytes, now: int
) -> LayoutReply:
    """Do what the layout script does."""
    held = store.get(call.name)
    value = held.value if held is not None and held.expires > now else b""
    born, announced = float(now), list[tuple[bytes, float]]()
    if value[:16] == redis:
        _, born = _LAYOUT_HEAD.unpack_from(value)
        announced = [
            (layout, when)
            for layout, when in _LAYOUT_SEEN.iter_unpack(value[_LAYOUT_HEAD.size :])
            if layout != call.layout and now - when < call.keep_ms
        ]
    noisy = max((when for _, when in announced), default=born)
    is_disputed = any(now - when < call.alive_ms for _, when in announced)
    kept = [*announced[1 - _MAX_LAYOUTS :], (call.layout, float(now))]
    packed = _LAYOUT_HEAD.pack(redis, born) + b"".join([_LAYOUT_SEEN.pack(*seen) for seen in kept])
    store[call.name] = StoredKey(packed, now + _RETAIN_MS)
    return LayoutReply(now, int(max(noisy, born)), is_disputed)


# ---- The layout: do all gateways keep suppression on the same servers?
#
# A gateway asks the server of a key (`Slots`). Two gateways with different lists may ask different
# servers for the same key, and then neither learns what the other publishes. So each announces its
# layout to every server of its list, again and again, and each server remembers the others:
#
#     ANNOUNCE(layout)   other R, or no state: born = now, no layouts
#                        noisy = the latest of born and of the announcements of other layouts
#                        is_disputed = another one was announced within `alive`
#                        announced[layout] = now
#
# A gateway believes a server's `unchanged` only while more than half of its servers have answered
# calls of the last lease, and the topic's state on the server was born after all of them were last
# noisy. A gateway that meets another layout when it starts waits for a lease before it takes
# events: gateways with the other layout believe nothing then. When the servers have been quiet for
# a lease, topics that were born before begin anew.


_ALONE: Final = bytes(16)  # all keys are on this server, whatever it is called


def layout_of(servers: Sequence[str]) -> bytes:
    """16 bytes for a list of servers, in whatever order."""
    if len(servers) == 1:
        return _ALONE
    return blake2b("\n".join(sorted(servers)).encode(), digest_size=16).digest()


class LayoutSpans(NamedTuple):
    """Spans, in seconds.

    lease: How long an answer of a server counts.
    interval: Between two heartbeats.
    alive, keep: See `LayoutCall`.
    """

    lease: float
    interval: float
    alive: float
    keep: float


def layout_spans(quarantine_ms: float, max_suppress_age_ms: float) -> LayoutSpans:
    """Return the spans for a quarantine.

    A start that waits for a lease should be short; an outage of the heartbeats may last nearly as
    long. State older than max_suppress_age is never believed.
    """
    lease_s = min(10.0, max(1.0, quarantine_ms / 2000))
    interval_s = min(lease_s / 4, quarantine_ms / 6000)
    alive_s = max(quarantine_ms / 1000, lease_s)
    return LayoutSpans(lease_s, interval_s, alive_s, max_suppress_age_ms / 1000 + 2 * alive_s)


class _Answer(NamedTuple):
    """sent_s: when the call was sent.  noisy_s: a moment not before the server was last noisy."""

    sent_s: float
    noisy_s: float


_NOTHING: Final = _Answer(-math.inf, math.inf)


class Agreement:
    """The layouts that one process' servers report. Times are by its own clock, in seconds.

    until_s: Until when it may believe the servers, if no other answer comes.
    quiet_s: Since when more than half of its servers know of no other layout. They may miss
        something of state that was born before. (The heartbeats' interval is taken off: clocks
        differ, servers are started one after the other, and a quarantine is longer.)
    begins_s: When it may take events: a lease after each server's first answer.
    clock_s: How far the clock of an only server is behind ours, as quiet_s has it: compared by the
        server's own clock, a slow call raises no doubt.

    Args:
        count: Number of the process' servers.
    """

    __slots__ = ("_answers", "_met", "_spans", "begins_s", "clock_s", "count", "quiet_s", "until_s")

    def __init__(self, count: int, spans: LayoutSpans) -> None:
        self.count = count
        self._spans = spans
        self._answers = [_NOTHING] * count
        self._met: set[int] = set()  # those that have answered
        self.until_s, self.quiet_s, self.begins_s = -math.inf, math.inf, -math.inf
        self.clock_s: float | None = None

    @staticmethod
    def granted() -> "Agreement":
        """Return the agreement of a process without other gateways: it believes everything."""
        agreement = Agreement(1, layout_spans(0.0, 0.0))
        agreement.until_s, agreement.quiet_s = math.inf, -math.inf
        return agreement

    def answered(self, server: int, sent_s: float, now_s: float, reply: LayoutReply) -> None:
        """Take in a server's answer."""
        age_s = (reply.now - reply.noisy) / 1000
        if self.count == 1:
            self.clock_s = now_s - reply.now / 1000
        noisy_s = -math.inf if age_s >= self._spans.keep else now_s - age_s
        self._answers[server] = _Answer(sent_s, noisy_s)
        if reply.is_disputed and server not in self._met:
            self.begins_s = max(self.begins_s, now_s + self._spans.lease)
        self._met.add(server)
        self._conclude(now_s)

    def lost(self, server: int, now_s: float) -> None:
        """Forget a server whose connection broke: it may have lost its state."""
        self._answers[server] = _NOTHING
        self._conclude(now_s)

    def believes(self, born_s: float, now_s: float) -> bool:
        """Return whether `unchanged` holds in a namespace that was born then."""
        return now_s < self.until_s and born_s >= self.quiet_s

    def begins_anew(self, born_s: float, now_s: float) -> bool:
        """Return whether a namespace that was born then must begin anew to be believed.

        Not while the other layout is in use: it would soon have to again.
        """
        if now_s >= self.until_s or now_s - self.quiet_s < self._spans.lease:
            return False
        return born_s < self.quiet_s

    def _conclude(self, now_s: float) -> None:
        oldest_s, needed = now_s - self._spans.lease, self.count // 2 + 1
        fresh = sorted((answer for answer in self._answers if answer.sent_s > oldest_s), key=_noise)
        if len(fresh) < needed:
            self.until_s, self.quiet_s = -math.inf, math.inf
            return
        chosen = fresh[:needed]
        self.quiet_s = chosen[-1].noisy_s - self._spans.interval
        self.until_s = min(answer.sent_s for answer in chosen) + self._spans.lease


def _noise(answer: _Answer) -> tuple[float, float]:
    return answer.noisy_s, -answer.sent_s
