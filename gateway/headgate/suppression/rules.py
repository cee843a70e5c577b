"""The suppression protocol: the messages of both scripts, and the agreement on the servers.

docs/design/suppression-protocol.md explains the protocol; `suppression.lua` and `layout.lua` have
the rules of keys. All functions are pure: the time is an argument.

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
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, cast

from headgate.model.suppression import Scope

TOKEN_BYTES = 12
DIGEST_BYTES: Final = 16

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

_HEADER: Final = struct.Struct(">16s16sdddd")
_SCOPE: Final = struct.Struct(">BI8s")
_STATE: Final = struct.Struct(">16sId")
_LAYOUT_CALL: Final = struct.Struct(">16s16sdd")
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
        now_ms: Redis' clock, in milliseconds.
        crowded: Number of reservations without room for their own token.
        forgotten: Number of keys whose contents are not kept because memory is full.
        states: One state for each scope of the call.
        verdicts: One verdict for each reservation, by its number: the offset if it is unchanged,
            else see `floor_of`.
    """

    now_ms: int
    crowded: int
    forgotten: int
    states: Sequence[NamespaceState]
    verdicts: Sequence[int]


def floor_of(verdict: int) -> int:
    """Return the key's highest acknowledged offset at the reservation; -1 if there was none."""
    return -2 - verdict


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
        now_ms: The server's clock, in milliseconds.
        noisy: Time of the last announcement of another layout, or of the birth of the state.
        is_disputed: Another layout is in use.
    """

    now_ms: int
    noisy: int
    is_disputed: bool


# ---- the layout: agreement of the gateways on the list of servers
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


class _ServerReply(NamedTuple):
    """A server's reply.

    sent_s: Time of the call.  noisy_s: Latest possible time of its noise.
    """

    sent_s: float
    noisy_s: float


_NOTHING: Final = _ServerReply(-math.inf, math.inf)


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

    def apply_reply(self, server: int, sent_s: float, now_s: float, reply: LayoutReply) -> None:
        """Apply a server's reply.

        Args:
            server: Index of the server.
            sent_s: Time of the call.
            now_s: Present time.
            reply: The reply.
        """
        age_s = (reply.now_ms - reply.noisy) / 1000
        if self.count == 1:
            self.clock_s = now_s - reply.now_ms / 1000
        noisy_s = -math.inf if age_s >= self._spans.keep else now_s - age_s
        self._answers[server] = _ServerReply(sent_s, noisy_s)
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


def _noise(answer: _ServerReply) -> tuple[float, float]:
    return answer.noisy_s, -answer.sent_s
