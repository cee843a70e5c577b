"""The rules of `backends/redis/lua/identity.lua` in Python, told the time.

Both must give the same answers and leave the same bytes: a property test runs them side by side.
The memory backend runs these. An entry is one string:

    fingerprint (16)  token (12, zeros: nobody's)  deadline (double, ms)  done (one byte)
    and what is remembered of events that ended well
"""

import struct
from collections.abc import MutableMapping
from typing import NamedTuple

from headgate.core.idempotency.protocol import (
    CLAIM,
    DONE,
    PARTLY,
    RELEASE,
    RENEW,
    TOKEN_BYTES,
    ClaimCall,
    ClaimState,
    ClaimVerdict,
    unpack_operation,
)

_ENTRY = struct.Struct(">16s12sdB")
_NOBODY = bytes(TOKEN_BYTES)
# ms that an entry outlives its claim: who comes late finds its own token there, and a retry with
# other content is still seen as one.
_MARGIN = 60_000.0


class StoredName(NamedTuple):
    """A value in the store. expires: ms by the store's clock."""

    value: bytes
    expires: float


class NameEntry(NamedTuple):
    """What is known of one name."""

    fingerprint: bytes
    token: bytes
    deadline: float
    done: bool
    remembered: bytes


Store = MutableMapping[bytes, StoredName]


def run(store: Store, call: ClaimCall, now: int) -> list[ClaimVerdict]:
    """Do what the script does; one verdict for each claim, in order. now: ms."""
    verdicts = []
    for step in call.operations:
        name = step.name
        letter, fingerprint, token, keep_ms, remembered = unpack_operation(step.packed)
        entry = _read(store, name, now)
        mine = entry is not None and entry.token == token
        if letter == CLAIM:
            verdict = _verdict(entry, fingerprint, token, now)
            verdicts.append(verdict)
            if verdict.state is ClaimState.CLAIMED:
                _claim(store, name, entry, fingerprint, token, call.claim_ms, keep_ms, now)
        elif letter == RENEW and (entry is None or mine):
            _claim(store, name, entry, fingerprint, token, call.claim_ms, keep_ms, now)
        elif letter in (DONE, PARTLY) and (entry is None or mine):
            ended = NameEntry(fingerprint, _NOBODY, 0.0, letter == DONE, remembered)
            _write(store, name, ended, keep_ms, now)
        elif letter == RELEASE and entry is not None and mine:
            if entry.remembered:
                _write(store, name, entry._replace(token=_NOBODY, deadline=0.0), keep_ms, now)
            else:
                del store[name]
    return verdicts


def _verdict(entry: NameEntry | None, fingerprint: bytes, token: bytes, now: int) -> ClaimVerdict:
    if entry is None:
        return ClaimVerdict(ClaimState.CLAIMED)
    if entry.fingerprint != fingerprint:
        return ClaimVerdict(ClaimState.MISMATCH)
    if entry.done:
        return ClaimVerdict(ClaimState.DONE, entry.remembered)
    # An attempt that died is not done: past its deadline the claim is anybody's.
    if entry.token not in (_NOBODY, token) and entry.deadline > now:
        return ClaimVerdict(ClaimState.RUNNING)
    return ClaimVerdict(ClaimState.CLAIMED, entry.remembered)


def _claim(
    store: Store,
    name: bytes,
    entry: NameEntry | None,
    fingerprint: bytes,
    token: bytes,
    claim_ms: float,
    keep_ms: float,
    now: int,
) -> None:
    remembered = entry.remembered if entry is not None else b""
    claimed = NameEntry(fingerprint, token, now + claim_ms, False, remembered)
    left_ms = claim_ms + _MARGIN
    if remembered:
        left_ms = max(left_ms, keep_ms)
    _write(store, name, claimed, left_ms, now)


def _read(store: Store, name: bytes, now: float) -> NameEntry | None:
    held = store.get(name)
    if held is None or held.expires <= now:
        store.pop(name, None)
        return None
    fingerprint, token, deadline, done = _ENTRY.unpack_from(held.value)
    return NameEntry(fingerprint, token, deadline, bool(done), held.value[_ENTRY.size :])


def _write(store: Store, name: bytes, entry: NameEntry, left_ms: float, now: float) -> None:
    store[name] = StoredName(_ENTRY.pack(*entry[:4]) + entry.remembered, now + int(left_ms))
