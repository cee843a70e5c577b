"""What the suppression script is told and what it answers: names, operations, calls.

The protocol is stated in `suppression_rules` (the same rules as Python, told the time) and in
`backends/lua/suppression.lua`. One call carries any number of operations on any number of keys:

    KEYS    the incarnation of each namespace, then the entries
    ARGV[1] the header: what holds for the whole call, and a byte for each namespace
    ARGV[n] an entry's operations: the namespace's place in the call (one byte), then operations

An operation is a letter and fields of fixed width, applied in the order given to one entry. So a
key may be settled and then reserved several times in one call: each operation sees those before
it, which a script that reads all entries first and decides afterwards would get wrong.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

TOKEN_BYTES = 12
DIGEST_BYTES: Final = 16
NONCE_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)  # what an entry holds instead of a digest that nobody may trust
LONGEST_PLAIN_KEY: Final = 64  # bytes; longer keys are hashed, so that names in Redis stay short

RESERVE: Final = b"r"
FORCE: Final = b"p"
REGISTER: Final = b"g"
SETTLE: Final = b"s"
KEEP: Final = b"k"
REFUSED: Final = b"x"
CLEAR: Final = b"c"

_HEADER: Final = struct.Struct(">16s16sdddd")
# letter, token, digest, offset. A double: Lua has no other number, exact to 2**53.
pack_settlement: Final = struct.Struct(">c12s16sd").pack


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The namespace of one topic in force: what was published under other rules says nothing.

    Compared by identity (one object for each topic in force), so that it is a cheap dict key.
    fingerprint: changes when the meaning of "the same content" does (`policy.fingerprint`).
    prefix: the option redis.namespace.
    """

    topic: str
    topic_id: bytes
    partitions: int
    fingerprint: bytes
    prefix: str = "headgate"
    namespace: bytes = field(init=False)
    incarnation: bytes = field(init=False)
    _entries: bytes = field(init=False)
    _hashed_entries: bytes = field(init=False)

    def __post_init__(self) -> None:
        name = (
            f"{self.prefix}:{self.topic_id.hex()}:{self.partitions}:{self.fingerprint.hex()}"
        ).encode()
        object.__setattr__(self, "namespace", name)
        object.__setattr__(self, "incarnation", name + b":inc")
        object.__setattr__(self, "_entries", name + b":k:")
        object.__setattr__(self, "_hashed_entries", name + b":h:")

    def entry(self, key: bytes) -> bytes:
        """Return the name of a key's entry."""
        if len(key) <= LONGEST_PLAIN_KEY:
            return self._entries + key
        return self._hashed_entries + blake2b(key, digest_size=DIGEST_BYTES).digest()


class Limits(NamedTuple):
    """The spans of the protocol, in ms. All gateways of one Redis should agree on them.

    life: how long a token may stand for a publish whose end is not known.  quarantine: how long
    after the birth of an incarnation nothing is suppressed.  max_suppress_age: how old the
    published record may be.  retain: how long an unused incarnation is kept.
    """

    life: float
    quarantine: float
    max_suppress_age: float
    retain: float = 30 * 86_400_000.0


class Call(NamedTuple):
    """One run of the script.

    candidate: a nonce that was never used before, for the incarnations that this call creates.
    scopes: the namespaces.  dropped: one byte for each, 1 = delete its incarnation first.
    entries, operations: names of entries, all different, and what is done to each.
    reservations: how many of the operations are RESERVE or FORCE.
    """

    limits: Limits
    candidate: bytes
    scopes: Sequence[Scope]
    dropped: bytes
    entries: Sequence[bytes]
    operations: Sequence[bytes]
    reservations: int

    def header(self, redis: bytes) -> bytes:
        """Return ARGV[1]. redis: 16 bytes that no other Redis process or replication id has."""
        return _HEADER.pack(redis, self.candidate, *self.limits) + self.dropped


class Reply(NamedTuple):
    """The script's answer.

    now: Redis' clock, ms.  nonces: one for each of the call's scopes.  verdicts: one for each
    reservation, by its number: `is_unchanged`, and `floor_of` those that are not.
    """

    now: int
    nonces: Sequence[bytes]
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
    """Say that a publish is, or may be, under way: adds an untrusted token or renews one."""
    return REGISTER + token


def settle(token: bytes, digest: bytes, offset: int, *, keep: bool = False) -> bytes:
    """Acknowledged at this offset. keep: leave the token, a copy may still land."""
    return pack_settlement(KEEP if keep else SETTLE, token, digest, offset)


def refused(token: bytes) -> bytes:
    """No record of this publish can be in the log."""
    return REFUSED + token


def number_bytes(count: int) -> list[bytes]:
    """Return the numbers 0 .. count - 1 as the operations carry them."""
    return [number.to_bytes(2, "big") for number in range(count)]


def read_reply(call: Call, answer: Sequence[int | bytes]) -> Reply:
    """Take the script's flat answer apart."""
    first = 1 + len(call.scopes)
    return Reply(answer[0], answer[1:first], answer[first:])  # type: ignore[arg-type]
