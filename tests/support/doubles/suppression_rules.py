"""The rules of both scripts of suppression in Python: the same replies, the same bytes.

Tests compare them with `suppression.lua` and `layout.lua`, and simulations run on them.
All functions are pure: the time is an argument.
"""

import struct
from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

from headgate.model.suppression import Scope
from headgate.suppression.rules import (
    ANNOUNCE,
    CLEAR,
    DIGEST_BYTES,
    DROP,
    FORCE,
    KEEP,
    MARK,
    REFUSED,
    REGISTER,
    RESERVE,
    TOKEN_BYTES,
    LayoutCall,
    LayoutReply,
    NamespaceState,
    SuppressionCall,
    SuppressionReply,
    SuppressionSpans,
)


def verdict_to_publish(floor: int) -> int:
    """Encode PUBLISH with the floor. UNCHANGED is the offset itself, which is never negative."""
    return -2 - floor


def pack_verdicts(verdicts: Sequence[int]) -> bytes:
    """Pack verdicts as the script does."""
    return struct.pack(f">{len(verdicts)}q", *verdicts)


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


NO_DIGEST = bytes(DIGEST_BYTES)  # replaces a digest that must not be trusted
MAX_TOKENS = 64  # of one key, also in suppression.lua; more publishes at once share CROWD
CROWD = b"\xff" * TOKEN_BYTES

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
