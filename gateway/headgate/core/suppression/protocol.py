"""What the suppression script is told and what it answers: names, operations, calls.

The protocol is stated in `rules` (the same rules as Python, told the time) and in
`suppression.lua`. One call carries any number of operations on any number of keys:

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
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, cast

TOKEN_BYTES = 12
DIGEST_BYTES: Final = 16
NO_DIGEST = bytes(DIGEST_BYTES)  # what an entry holds instead of a digest that nobody may trust
LONGEST_PLAIN_KEY: Final = 64  # bytes; longer keys are hashed, so that names in Redis stay short

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
pack_state: Final = _STATE.pack  # what a script says of a namespace
# letter, token, digest, offset, partition count. The offset is a double: Lua has no other number,
# exact to 2**53.
pack_settlement: Final = struct.Struct(">c12s16sdI").pack


class Counter:
    """A number that several look at."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Scope:
    """The namespace of one topic: whatever its policy, its keys and contents are known in it.

    One object for each topic of a process, compared by identity, so that it is a cheap dict key.
    The policy's fingerprint is not part of the name, it keys the digests: contents that were
    compared under other rules equal none. Neither is the partition count, which grows.

    topic_id: Kafka's; a topic that was recreated is another one.  prefix: redis.namespace.
    partitions: the count that this process places by; see `SuppressionCall`.
    rule: 8 bytes over how events get their keys (`policy.key_rule`).
    free_until_s: until when (the suppressor's clock) events may pass without a reservation, for
    this process has announced it.  passed_s: when the last one did.  unreserved: how many of them
    have not ended yet, shared with the scope of a topic that was recreated meanwhile.
    spooled: how many backlogs lie on this process' disk, shared in the same way.
    mark: the name of what says so to processes that know the topic by another id.
    successor: the scope of the topic that was recreated.
    asked: Redis was asked for events of it since any passed; some may still wait.
    """

    __slots__ = (
        "_entries",
        "_hashed_entries",
        "_prefix",
        "asked",
        "free_until_s",
        "incarnation",
        "mark",
        "namespace",
        "partitions",
        "passed_s",
        "rule",
        "spooled",
        "successor",
        "topic",
        "topic_id",
        "unreserved",
    )

    def __init__(
        self, topic: str, topic_id: bytes, partitions: int, rule: bytes, prefix: str = "headgate"
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.rule = rule
        self.free_until_s = self.passed_s = -math.inf
        self.unreserved = Counter()
        self.spooled = Counter()
        self.mark = f"{prefix}:spooled:{topic}".encode()
        self.successor: Scope | None = None
        self.asked = False
        self._prefix = prefix
        self.namespace = f"{prefix}:{topic_id.hex()}".encode()
        self.incarnation = self.namespace + b":inc"
        self._entries = self.namespace + b":k:"
        self._hashed_entries = self.namespace + b":h:"

    def latest(self) -> "Scope":
        """Of the topic that has its name now."""
        found = self
        while found.successor is not None:
            found = found.successor
        return found

    def twin(self) -> "Scope":
        """The same topic at one of several servers. What passes is counted for all of them."""
        twin = Scope(self.topic, self.topic_id, self.partitions, self.rule, self._prefix)
        twin.unreserved = self.unreserved
        twin.spooled = self.spooled
        return twin

    def entry(self, key: bytes) -> bytes:
        """Return the name of a key's entry."""
        if len(key) <= LONGEST_PLAIN_KEY:
            return self._entries + key
        return self._hashed_entries + blake2b(key, digest_size=DIGEST_BYTES).digest()


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
        """How long an announcement holds, ms. Its end begins a quarantine."""
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
    """What a reply tells of a namespace.

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
    states = [NamespaceState(*_STATE.unpack(one)) for one in packed]
    numbers = list(struct.unpack(f">{call.reservations}q", verdicts))
    return SuppressionReply(now, crowded, forgotten, states, numbers)


def pack_verdicts(verdicts: Sequence[int]) -> bytes:
    """As the script does."""
    return struct.pack(f">{len(verdicts)}q", *verdicts)
