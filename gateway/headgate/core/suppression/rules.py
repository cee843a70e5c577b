"""The rules of `backends/redis/lua/suppression.lua` in Python, told the time.

Both must give the same answers and leave the same bytes: a property test runs them side by side.
The memory backend runs these. An entry is one string:

    nonce (16)  digest h (16)  offset o (double)  time t of that publish (double, ms)
    the partition count by which o was placed (int)  until when it is kept at least (double, ms)
    and for each token in flight: token (12)  deadline (double, ms)  trusted (one byte)

An incarnation is: nonce (16)  the Redis process R (16)  born (double, ms)  renewed (double, ms)
the partition count in force (int)  the key rule in use (8).

A mark is there while events of the topic lie on the disk of any process, under whatever id that
process knows the topic.
"""

import struct
from collections.abc import MutableMapping
from typing import NamedTuple

from headgate.core.suppression import protocol
from headgate.core.suppression.protocol import (
    CROWD,
    MAX_TOKENS,
    NO_DIGEST,
    TOKEN_BYTES,
    NamespaceState,
    Scope,
    SuppressionCall,
    SuppressionReply,
    SuppressionSpans,
)

_ENTRY = struct.Struct(">16s16sddId")
_TOKEN = struct.Struct(">12sdB")
_INCARNATION = struct.Struct(">16s16sddI8s")
_MARGIN = 60_000.0  # ms that an entry outlives what it says
_STEP = 10_000.0  # ms; many entries have the same `kept`, one string in Lua


class StoredKey(NamedTuple):
    """A value in the store. expires: ms by the store's clock."""

    value: bytes
    expires: float


Store = MutableMapping[bytes, StoredKey]


class KeyEntry:
    """What is known of one key. tokens: deadline and whether it is trusted, by token.

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
        known = (self.digest, self.offset, self.time, self.count, self.kept)
        return _ENTRY.pack(nonce, *known) + b"".join(tokens)

    def place_by(self, count: int) -> None:
        """Whatever is known of the key's former partition says nothing of this one."""
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
        return protocol.verdict_to_publish(int(self.offset))

    def purge(self, now: float) -> None:
        """An expired token is a write of unknown end. One live token left: purge nothing."""
        if self.tokens and all(deadline <= now for deadline, _ in self.tokens.values()):
            self.tokens.clear()
            self.digest, self.changed = NO_DIGEST, True

    def put(self, token: bytes, now: float, spans: SuppressionSpans, trusted: bool) -> None:
        """Add a token, or move the deadline of one that has not expired."""
        known = self.tokens.get(token)
        if known is None and self.is_full:
            token, trusted = CROWD, False
            known = self.tokens.get(token)
        if known is not None and known[0] > now:
            trusted = known[1]
        self.tokens[token] = (now + spans.life, trusted)
        self.changed = True

    @property
    def is_full(self) -> bool:
        """Whether another token of its own would be too many."""
        return len(self.tokens) >= MAX_TOKENS

    def settle(
        self, token: bytes, digest: bytes, offset: float, count: int, now: float, keep: bool
    ) -> None:
        """Acknowledged: only the highest offset counts, and only with its own trusted token."""
        known = self.tokens.get(token)
        if known is not None and not keep:
            self.drop(token)
        if count < self.count:
            # In the key's former partition: it may be newer than anything in the present one, and
            # than what is still on its way there.
            self.clear()
        elif count > self.count or offset > self.offset:
            self.offset, self.time, self.count, self.changed = offset, now, count, True
            self.digest = digest if known is not None and known[1] else NO_DIGEST

    def drop(self, token: bytes) -> None:
        """Remove a token, if it is there."""
        self.changed |= self.tokens.pop(token, None) is not None

    def clear(self) -> None:
        """Forget the content and trust nobody in flight, but forget no token and no offset."""
        self.digest, self.changed = NO_DIGEST, True
        self.tokens = {token: (deadline, False) for token, (deadline, _) in self.tokens.items()}

    def forget(self) -> bool:
        """Memory is full, and nothing was known of the key: nothing comes to be known, or memory
        would grow with every key. Its tokens stay; none may set a digest without the offset.
        """
        if self.offset < 0:
            return False
        self.clear()
        self.offset, self.time = -1.0, 0.0
        return True

    def keep(self, now: float, spans: SuppressionSpans) -> None:
        """Whatever is written is kept for longer than a token lives and than max_suppress_age.

        What was not gets longer than that, in whole steps: most writes leave the expiry as it is.
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
    found = [
        _open(store, call, redis, now, scope, flags, count, is_marked)
        for scope, flags, count, is_marked in zip(
            call.scopes, call.flags, call.counts, marked, strict=True
        )
    ]
    reservations, forgotten = _Reservations(call.reservations), 0
    for name, operations in zip(call.entries, call.operations, strict=True):
        namespace = found[operations[0]]
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
    states = [namespace.state for namespace in found]
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
    if flags & protocol.MARK:
        store[scope.mark] = StoredKey(b"1", now + int(call.spans.lease))
        is_marked = True
    held = _read(store, scope.incarnation, now)
    rule = scope.rule[:8].ljust(8, b"\0")
    nonce, known, born, renewed, count, whose = (
        _INCARNATION.unpack(held) if held is not None else (b"", b"", 0.0, 0.0, 0, rule)
    )
    quarantine, changed = call.spans.quarantine, False
    if known != redis or flags & protocol.DROP:
        nonce, born, changed = call.candidate, float(now), True
    if caller > count:  # for one topic id it only grows, whatever else was lost
        count, changed = caller, True
    is_open = now >= born + quarantine
    if whose != rule:
        if is_open:
            nonce = call.candidate
        born, whose, changed = max(born, float(now)), rule, True
        is_open = now >= born + quarantine
    if flags & protocol.ANNOUNCE:
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
    """What becomes of a call's reservations."""

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
        if letter == protocol.CLEAR:
            entry.clear()
            continue
        token = operations[at : at + TOKEN_BYTES]
        at += TOKEN_BYTES
        if letter == protocol.REGISTER:
            entry.purge(now)
            entry.put(token, now, spans, trusted=False)
        elif letter == protocol.REFUSED:
            entry.drop(token)
        elif letter == protocol.FORCE:
            (number,) = struct.unpack_from(">H", operations, at)
            reservations.claim(number, entry, token, None, now, spans, namespace)
            at += 2
        elif letter == protocol.RESERVE:
            digest, number = struct.unpack_from(">16sH", operations, at)
            reservations.claim(number, entry, token, digest, now, spans, namespace)
            at += 18
        else:
            digest, offset, count = struct.unpack_from(">16sdI", operations, at)
            entry.settle(token, digest, offset, count, now, letter == protocol.KEEP)
            at += 28


def _read(store: Store, name: bytes, now: float) -> bytes | None:
    held = store.get(name)
    return held.value if held is not None and held.expires > now else None
