"""The rules of `backends/lua/suppression.lua` in Python, told the time.

Both must give the same answers and leave the same bytes: a property test runs them side by side.
The memory backend runs these. An entry is one string:

    nonce (16)  digest h (16)  offset o (double)  time t of that publish (double, ms)
    and for each token under way: token (12)  deadline (double, ms)  trusted (one byte)

An incarnation is: nonce (16)  the Redis process R (16)  born (double, ms)  renewed (double, ms).
"""

import struct
from collections.abc import MutableMapping
from typing import NamedTuple

from headgate.core import suppression
from headgate.core.suppression import NO_DIGEST, TOKEN_BYTES, Call, Limits, Reply

_ENTRY = struct.Struct(">16s16sdd")
_TOKEN = struct.Struct(">12sdB")
_INCARNATION = struct.Struct(">16s16sdd")
_MARGIN = 60_000.0  # ms that an entry outlives what it says


class Held(NamedTuple):
    """A value in the store. expires: ms by the store's clock."""

    value: bytes
    expires: float


Store = MutableMapping[bytes, Held]


class Entry:
    """What is known of one key. tokens: deadline and whether it is trusted, by token."""

    __slots__ = ("changed", "digest", "offset", "time", "tokens")

    def __init__(self, value: bytes | None, nonce: bytes) -> None:
        self.digest, self.offset, self.time = NO_DIGEST, -1.0, 0.0
        self.tokens: dict[bytes, tuple[float, bool]] = {}
        self.changed = False
        if value is None or value[:16] != nonce:
            return  # of an earlier incarnation: says nothing
        _, self.digest, self.offset, self.time = _ENTRY.unpack_from(value)
        for token, deadline, trusted in _TOKEN.iter_unpack(value[_ENTRY.size :]):
            self.tokens[token] = (deadline, bool(trusted))

    def pack(self, nonce: bytes) -> bytes:
        """Return the string to store."""
        tokens = [_TOKEN.pack(token, *rest) for token, rest in self.tokens.items()]
        return _ENTRY.pack(nonce, self.digest, self.offset, self.time) + b"".join(tokens)

    def claim(
        self, token: bytes, digest: bytes | None, now: float, limits: Limits, trusted: bool
    ) -> int:
        """Leave a token and return the verdict. digest None: never unchanged."""
        if self.tokens and all(deadline <= now for deadline, _ in self.tokens.values()):
            # An expired token is a write of unknown end. One live token left: purge nothing.
            self.tokens.clear()
            self.digest, self.changed = NO_DIGEST, True
        fresh = now - self.time < limits.max_suppress_age
        if trusted and not self.tokens and self.digest == digest and fresh:
            return int(self.offset)
        self.put(token, now, limits, trusted)
        return suppression.verdict_to_publish(int(self.offset))

    def put(self, token: bytes, now: float, limits: Limits, trusted: bool) -> None:
        """Add a token, or move the deadline of one that has not expired."""
        known = self.tokens.get(token)
        if known is not None and known[0] > now:
            trusted = known[1]
        self.tokens[token] = (now + limits.life, trusted)
        self.changed = True

    def settle(self, token: bytes, digest: bytes, offset: float, now: float, keep: bool) -> None:
        """Acknowledged: only the highest offset counts, and only with its own trusted token."""
        known = self.tokens.get(token)
        if known is not None and not keep:
            self.drop(token)
        if offset > self.offset:
            self.offset, self.time, self.changed = offset, now, True
            self.digest = digest if known is not None and known[1] else NO_DIGEST

    def drop(self, token: bytes) -> None:
        """Remove a token, if it is there."""
        self.changed |= self.tokens.pop(token, None) is not None

    def clear(self) -> None:
        """Forget the content and trust nobody under way, but forget no token and no offset."""
        self.digest, self.changed = NO_DIGEST, True
        self.tokens = {token: (deadline, False) for token, (deadline, _) in self.tokens.items()}

    def time_to_live(self, now: float, limits: Limits) -> float:
        """Return ms: longer than the longest deadline and than max_suppress_age."""
        longest = max((deadline - now for deadline, _ in self.tokens.values()), default=0.0)
        return max(longest, limits.max_suppress_age) + _MARGIN


def run(store: Store, call: Call, redis: bytes, now: int) -> Reply:
    """Do what the script does. redis: R of the connection; now: ms."""
    nonces, quarantined = [], []
    for scope, dropped in zip(call.scopes, call.dropped, strict=True):
        nonce, born = _open(store, scope.incarnation, call, redis, now, bool(dropped))
        nonces.append(nonce)
        quarantined.append(now < born + call.limits.quarantine)
    verdicts = [0] * call.reservations
    for name, operations in zip(call.entries, call.operations, strict=True):
        namespace = operations[0]
        entry = Entry(_read(store, name, now), nonces[namespace])
        _apply(entry, operations, now, call.limits, not quarantined[namespace], verdicts)
        if entry.changed:
            expires = now + int(entry.time_to_live(now, call.limits))
            store[name] = Held(entry.pack(nonces[namespace]), expires)
    return Reply(now, nonces, verdicts)


def _open(
    store: Store, name: bytes, call: Call, redis: bytes, now: int, dropped: bool
) -> tuple[bytes, float]:
    held = None if dropped else _read(store, name, now)
    nonce, known, born, renewed = (
        _INCARNATION.unpack(held) if held is not None else (b"", b"", 0.0, 0.0)
    )
    retain = call.limits.retain
    if known != redis:
        nonce, born, renewed = call.candidate, float(now), now - retain
    if now - renewed > retain / 4:
        value = _INCARNATION.pack(nonce, redis, born, float(now))
        store[name] = Held(value, now + retain)
    return nonce, born


def _apply(
    entry: Entry, operations: bytes, now: float, limits: Limits, open_: bool, verdicts: list[int]
) -> None:
    at = 1
    while at < len(operations):
        letter = operations[at : at + 1]
        at += 1
        if letter == suppression.CLEAR:
            entry.clear()
            continue
        token = operations[at : at + TOKEN_BYTES]
        at += TOKEN_BYTES
        if letter == suppression.REGISTER:
            entry.claim(token, None, now, limits, trusted=False)
        elif letter == suppression.REFUSED:
            entry.drop(token)
        elif letter == suppression.FORCE:
            (number,) = struct.unpack_from(">H", operations, at)
            verdicts[number] = entry.claim(token, None, now, limits, open_)
            at += 2
        elif letter == suppression.RESERVE:
            digest, number = struct.unpack_from(">16sH", operations, at)
            verdicts[number] = entry.claim(token, digest, now, limits, open_)
            at += 18
        else:
            digest, offset = struct.unpack_from(">16sd", operations, at)
            entry.settle(token, digest, offset, now, letter == suppression.KEEP)
            at += 24


def _read(store: Store, name: bytes, now: float) -> bytes | None:
    held = store.get(name)
    return held.value if held is not None and held.expires > now else None
