"""The suppression protocol: the messages of both scripts, and their rules in Python.

docs/design/suppression-protocol.md explains the protocol. `suppression.lua` and `layout.lua` have
the same rules; property tests compare them. All functions are pure: the time is an argument.

One call of the suppression script carries any number of operations on any number of keys:

    KEYS    the incarnation of each namespace, the mark of each one's topic, then the entries
    ARGV[1] the header: fields of the call, and a few fields for each namespace
    ARGV[2] the bytes of operations of each entry
    ARGV[3] the operations of all entries: for each entry the namespace's index in the call (one
            byte), then its operations

An operation is a letter and fields of fixed width. The script applies the operations of an entry in
order. So one call may settle a key and then reserve it several times: each operation sees the
effects of those before it. A script that first reads all entries and then decides would be wrong.
"""

import math
import struct
from collections.abc import MutableMapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, cast

from headgate.model.suppression import Scope

TOKEN_BYTES = 12
DIGEST_BYTES: Final = 16
NO_DIGEST = bytes(DIGEST_BYTES)  # replaces a digest that must not be trusted

RESERVE: Final = b"r"
FORCE: Final = b"p"
REGISTER: Final = b"g"
SETTLE: Final = b"s"
KEEP: Final = b"k"
REFUSED: Final = b"x"
CLEAR: Final = b"c"

# Effects of a call on a namespace before its operations.
DROP: Final = 1  # forget the state of all keys
ANNOUNCE: Final = 2  # announce that records are, or were, written without a reservation
MARK: Final = 4  # with ANNOUNCE: some of them wait on disk, even if the topic's id changes

MAX_TOKENS: Final = 64  # of one key, also in suppression.lua; more publishes at once share CROWD
CROWD: Final = b"\xff" * TOKEN_BYTES

_HEADER: Final = struct.Struct(">16s16sdddd")
_SCOPE: Final = struct.Struct(">BI8s")
_STATE: Final = struct.Struct(">16sId")
_LAYOUT_CALL: Final = struct.Struct(">16s16sdd")
pack_state: Final = _STATE.pack  # state of a namespace in a reply
# letter, token, digest, offset, partition count. The offset is a double: Lua has no other number,
# exact to 2**53.
pack_settlement: Final = struct.Struct(">c12s16sdI").pack


class SuppressionSpans(NamedTuple):
    """The spans of the protocol, in milliseconds. All gateways of one Redis should agree on them.

    Attributes:
        life: Life of a token for a publish with an unknown result.
        quarantine: Time after the birth of an incarnation during which no event is suppressed.
        max_suppress_age: Largest age of the published record.
        retain: Time for which an unused incarnation is kept.
    """

    life: float
    quarantine: float
    max_suppress_age: float
    retain: float = 30 * 86_400_000.0

    @property
    def lease(self) -> float:
        """Return the life of an announcement, in milliseconds. Its end begins a quarantine."""
        return self.quarantine / 2


class SuppressionCall(NamedTuple):
    """One run of the script.

    Attributes:
        candidate: A nonce that was never used before, for the incarnations that this call begins.
        scopes: The namespaces.
        flags: One byte for each namespace: DROP, ANNOUNCE and MARK.
        counts: The caller's partition count for each namespace.
        entries: Names of the entries, all different.
        operations: Operations on each entry.
        reservations: Number of operations that are RESERVE or FORCE.
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
        """Return ARGV[1].

        Args:
            redis: 16 bytes that are unique to the Redis process and its replication id.
        """
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

    Attributes:
        nonce: Nonce of its incarnation.
        partitions: Active partition count; reservations with a smaller count were not made.
        opens_ms: Time on Redis' clock at which it suppresses, unless the quarantine is extended.
    """

    nonce: bytes
    partitions: int
    opens_ms: float


class SuppressionReply(NamedTuple):
    """The script's reply.

    Attributes:
        now: Redis' clock, in milliseconds.
        crowded: Number of reservations without room for their own token.
        forgotten: Number of keys whose contents are not kept because memory is full.
        states: One state for each scope of the call.
        verdicts: One verdict for each reservation, by its number: the offset if it is unchanged,
            else see `floor_of`.
    """

    now: int
    crowded: int
    forgotten: int
    states: Sequence[NamespaceState]
    verdicts: Sequence[int]


def floor_of(verdict: int) -> int:
    """Return the key's highest acknowledged offset at the reservation; -1 if there was none."""
    return -2 - verdict


def verdict_to_publish(floor: int) -> int:
    """Encode PUBLISH with the floor. UNCHANGED is the offset itself, which is never negative."""
    return -2 - floor


def reserve(token: bytes, digest: bytes, number: bytes) -> bytes:
    """Return a RESERVE: publish unless unchanged.

    Args:
        token: Token of the publish.
        digest: Digest of the content.
        number: Index of the verdict, in two bytes.
    """
    return RESERVE + token + digest + number


def force(token: bytes, number: bytes) -> bytes:
    """Return a FORCE: a reservation that is never unchanged (Headgate-Force).

    REGISTER would not do. The token of FORCE is trusted like that of any claim with new content, so
    the next equal event is unchanged again.

    Args:
        token: Token of the publish.
        number: Index of the verdict, in two bytes.
    """
    return FORCE + token + number


def register(token: bytes) -> bytes:
    """Return a REGISTER, which adds or renews an untrusted token of a publish in flight."""
    return REGISTER + token


def settle(token: bytes, digest: bytes, offset: int, count: int, *, keep: bool = False) -> bytes:
    """Return a SETTLE, or a KEEP, for an acknowledged record.

    Args:
        token: Token of the publish.
        digest: Digest of the content.
        offset: Offset of the record.
        count: Partition count that the record was placed by.
        keep: Keep the token, because a copy of the record may still land.
    """
    return pack_settlement(KEEP if keep else SETTLE, token, digest, offset, count)


def refused(token: bytes) -> bytes:
    """Return a REFUSED: no record of this publish can be in the log."""
    return REFUSED + token


def number_bytes(count: int) -> list[bytes]:
    """Return the numbers 0 .. count - 1 as the operations encode them."""
    return [number.to_bytes(2, "big") for number in range(count)]


def read_reply(call: SuppressionCall, answer: Sequence[int | bytes]) -> SuppressionReply:
    """Parse the script's flat reply."""
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

    Attributes:
        name: Name of the key in Redis.
        layout: 16 bytes.
        alive_ms: Time for which an announced layout counts as in use, in milliseconds.
        keep_ms: Time for which it is stored, in milliseconds.
    """

    name: bytes
    layout: bytes
    alive_ms: float
    keep_ms: float

    def packed(self, redis: bytes) -> bytes:
        """Return the script's argument. redis: R of the connection."""
        return _LAYOUT_CALL.pack(redis, self.layout, self.alive_ms, self.keep_ms)


class LayoutReply(NamedTuple):
    """The layout script's reply.

    Attributes:
        now: The server's clock, in milliseconds.
        noisy: Time of the last announcement of another layout, or of the birth of the state.
        is_disputed: Another layout is in use.
    """

    now: int
    noisy: int
    is_disputed: bool


# ---- The rules of `suppression.lua`: the same replies, the same bytes
#
# An entry is one string:
#
#     nonce (16)  digest h (16)  offset o (double)  time t of that publish (double, ms)
#     the partition count by which o was placed (int)  the earliest end of its life (double, ms)
#     and for each token in flight: token (12)  deadline (double, ms)  trusted (one byte)
#
# An incarnation is: nonce (16)  the Redis process R (16)  born (double, ms)  renewed (double, ms)
# the active partition count (int)  the active key rule (8).
#
# A mark exists while any process has events of the topic on disk, under any id of the topic.


_ENTRY = struct.Struct(">16s16sddId")
_TOKEN = struct.Struct(">12sdB")
_INCARNATION = struct.Struct(">16s16sddI8s")
_MARGIN = 60_000.0  # ms that an entry outlives its contents
_LAYOUT_HEAD = struct.Struct(">16sd")
_LAYOUT_SEEN = struct.Struct(">16sd")
_MAX_LAYOUTS = 32  # most layouts on a server, the newest ones; also in layout.lua
_RETAIN_MS = 30 * 86_400_000  # same as for incarnations; also in layout.lua
_STEP = 10_000.0  # ms; many entries have the same `kept`, one string in Lua


class StoredKey(NamedTuple):
    """A value in the store. expires: time on the store's clock, in milliseconds."""

    value: bytes
    expires: float


Store = MutableMapping[bytes, StoredKey]


class KeyEntry:
    """The entry of one key.

    Attributes:
        tokens: Deadline and trust of each token.
        kept: Time that no token outlives; the entry lives _MARGIN longer.
    """

    __slots__ = ("changed", "count", "digest", "kept", "offset", "time", "tokens")

    def __init__(self, value: bytes | None, nonce: bytes) -> None:
        self.digest, self.offset, self.time = NO_DIGEST, -1.0, 0.0
        self.count, self.kept = 0, 0.0
        self.tokens: dict[bytes, tuple[float, bool]] = {}
        self.changed = False
        if value is None or value[:16] != nonce:
            return  # the entry of an earlier incarnation is void
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
        """Add a token and return the verdict.

        Args:
            token: Token of the publish.
            digest: Digest of the content; None: never unchanged.
            now: Redis' clock, in milliseconds.
            spans: Spans of the protocol.
            trusted: The namespace suppresses.
        """
        self.purge(now)
        fresh = now - self.time < spans.max_suppress_age
        if trusted and not self.tokens and self.digest == digest and fresh:
            return int(self.offset)
        self.put(token, now, spans, trusted)
        return verdict_to_publish(int(self.offset))

    def purge(self, now: float) -> None:
        """Drop all tokens and the digest once all tokens have expired.

        Each token is a write with an unknown result. While one token lives, all stay.
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
        """Return whether the entry has no room for another token."""
        return len(self.tokens) >= MAX_TOKENS

    def settle(
        self, token: bytes, digest: bytes, offset: float, count: int, now: float, keep: bool
    ) -> None:
        """Settle a record: only the highest offset counts, and only with its own trusted token.

        Args:
            token: Token of the publish.
            digest: Digest of the content.
            offset: Offset of the record.
            count: Partition count that the record was placed by.
            now: Redis' clock, in milliseconds.
            keep: Keep the token.
        """
        held = self.tokens.get(token)
        if held is not None and not keep:
            self.drop(token)
        if count < self.count:
            # The record is in the key's former partition: it may be newer than all records in the
            # present one, and than those on their way there.
            self.clear()
        elif count > self.count or offset > self.offset:
            self.offset, self.time, self.count, self.changed = offset, now, count, True
            self.digest = digest if held is not None and held[1] else NO_DIGEST

    def drop(self, token: bytes) -> None:
        """Remove a token, if it is there."""
        self.changed |= self.tokens.pop(token, None) is not None

    def clear(self) -> None:
        """Forget the content and the trust in all tokens; keep the tokens and the offset."""
        self.digest, self.changed = NO_DIGEST, True
        self.tokens = {token: (deadline, False) for token, (deadline, _) in self.tokens.items()}

    def forget(self) -> bool:
        """Drop the content of a new key because memory is full; return whether there was any.

        Otherwise memory would grow with every key. The tokens stay, but none may set a digest
        without the offset.
        """
        if self.offset < 0:
            return False
        self.clear()
        self.offset, self.time = -1.0, 0.0
        return True

    def keep(self, now: float, spans: SuppressionSpans) -> None:
        """Extend the entry's life beyond that of a token, and beyond max_suppress_age.

        It grows in full steps, so that most writes do not change the expiry.
        """
        span = max(spans.life, spans.max_suppress_age)
        if self.kept < now + span:
            self.kept = (now + span + span / 8) // _STEP * _STEP + _STEP

    def keep_tokens(self) -> None:
        """Limit the entry's life to that of its tokens."""
        self.kept = max((deadline for deadline, _ in self.tokens.values()), default=0.0)


class _Namespace(NamedTuple):
    """A namespace during a call.

    Attributes:
        is_open: The namespace suppresses.
        is_behind: The caller's partition count is too small.
    """

    state: NamespaceState
    is_open: bool
    is_behind: bool


def run(
    store: Store, call: SuppressionCall, redis: bytes, now: int, *, is_full: bool = False
) -> SuppressionReply:
    """Run the script's rules.

    Args:
        store: Keys of the server.
        call: The call.
        redis: R of the connection.
        now: Clock of the store, in milliseconds.
        is_full: Redis' memory is full, and it evicts nothing.
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
    if caller > count:  # for one topic id the count only grows, even if other state was lost
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
    """Run the layout script's rules.

    Args:
        store: Keys of the server.
        call: The call.
        redis: R of the connection.
        now: Clock of the store, in milliseconds.
    """
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


# ---- The layout: agreement of the gateways on the list of servers
#
# A gateway uses the server of a key (`Slots`). Two gateways with different lists may use different
# servers for the same key, and then miss each other's publishes. So each gateway announces its
# layout to every server of its list at intervals, and each server stores the other layouts:
#
#     ANNOUNCE(layout)   other R, or no state: born = now, no layouts
#                        noisy = the latest of born and of the announcements of other layouts
#                        is_disputed = another one was announced within `alive`
#                        announced[layout] = now
#
# A gateway believes a server's `unchanged` only under two conditions. More than half of its servers
# have answered calls of the last lease, and the topic's state on the server was born after all of
# them were last noisy. If a gateway finds another layout at its start, it waits for a lease before
# it takes events: after that, gateways with the other layout believe nothing. When the servers have
# been quiet for a lease, topics that were born before get a new incarnation.


_ALONE: Final = bytes(16)  # all keys are on this server, under any name


def layout_of(servers: Sequence[str]) -> bytes:
    """Return 16 bytes that identify a list of servers, in any order."""
    if len(servers) == 1:
        return _ALONE
    return blake2b("\n".join(sorted(servers)).encode(), digest_size=16).digest()


class LayoutSpans(NamedTuple):
    """Spans, in seconds.

    Attributes:
        lease: Time for which a server's reply counts.
        interval: Time between two heartbeats.
        alive: See `LayoutCall`.
        keep: See `LayoutCall`.
    """

    lease: float
    interval: float
    alive: float
    keep: float


def layout_spans(quarantine_ms: float, max_suppress_age_ms: float) -> LayoutSpans:
    """Return the spans for a quarantine.

    A start may wait for a lease, so the lease is short; heartbeats may fail for nearly as long.
    State older than max_suppress_age is never believed.

    Args:
        quarantine_ms: Quarantine, in milliseconds.
        max_suppress_age_ms: Largest age of a published record, in milliseconds.
    """
    lease_s = min(10.0, max(1.0, quarantine_ms / 2000))
    interval_s = min(lease_s / 4, quarantine_ms / 6000)
    alive_s = max(quarantine_ms / 1000, lease_s)
    return LayoutSpans(lease_s, interval_s, alive_s, max_suppress_age_ms / 1000 + 2 * alive_s)


class _Answer(NamedTuple):
    """A server's reply.

    sent_s: Time of the call.  noisy_s: Latest possible time of its noise.
    """

    sent_s: float
    noisy_s: float


_NOTHING: Final = _Answer(-math.inf, math.inf)


class Agreement:
    """The layouts that one process' servers report. Times are on its own clock, in seconds.

    Args:
        count: Number of the process' servers.
        spans: Spans of the agreement.

    Attributes:
        until_s: Time until which the process may believe the servers without another reply.
        quiet_s: Time since which more than half of its servers have seen no other layout. State
            that was born before may lack publishes. (One interval of the heartbeats is subtracted:
            clocks differ, servers start one after the other, and a quarantine is longer.)
        begins_s: Time from which the process may take events: a lease after each server's first
            reply.
        clock_s: Difference to the clock of the only server, as in quiet_s. Compared by the server's
            own clock, a slow call raises no doubt.
    """

    __slots__ = ("_answers", "_met", "_spans", "begins_s", "clock_s", "count", "quiet_s", "until_s")

    def __init__(self, count: int, spans: LayoutSpans) -> None:
        self.count = count
        self._spans = spans
        self._answers = [_NOTHING] * count
        self._met: set[int] = set()  # servers that have answered
        self.until_s, self.quiet_s, self.begins_s = -math.inf, math.inf, -math.inf
        self.clock_s: float | None = None

    @staticmethod
    def granted() -> "Agreement":
        """Return the agreement of a process without other gateways: it believes everything."""
        agreement = Agreement(1, layout_spans(0.0, 0.0))
        agreement.until_s, agreement.quiet_s = math.inf, -math.inf
        return agreement

    def answered(self, server: int, sent_s: float, now_s: float, reply: LayoutReply) -> None:
        """Apply a server's reply.

        Args:
            server: Index of the server.
            sent_s: Time of the call.
            now_s: Present time.
            reply: The reply.
        """
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
        """Return whether `unchanged` is believed in a namespace that was born at `born_s`."""
        return now_s < self.until_s and born_s >= self.quiet_s

    def begins_anew(self, born_s: float, now_s: float) -> bool:
        """Return whether a namespace that was born at `born_s` needs a new incarnation.

        While the other layout is in use, it does not: it would soon need another one.
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
