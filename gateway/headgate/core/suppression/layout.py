"""Do all gateways keep suppression on the same servers?

A gateway asks the server of a key (`slots`). Two gateways with different lists may ask different
servers for the same key, and then neither learns what the other publishes. So each tells every
server of its list its layout, again and again, and each server remembers who told another one:

    TELL(layout)   other R, or nothing known: born = now, no layouts
                   noisy = the latest of born and of the times when other layouts were told
                   found = another one was told within `alive`
                   told[layout] = now

A gateway believes a server's `unchanged` only while it has heard, in calls sent within the last
lease, from more than half of its servers, and what the server knows of the topic was born after
all of them were last noisy. A gateway that finds another layout when it starts waits for a lease
before it takes events: nobody of the other layout believes anything then. When the servers have
been quiet for a lease, topics that were born before begin anew.

The same in Lua is `backends/redis/lua/layout.lua`; a property test holds the two together.
"""

import math
import struct
from collections.abc import MutableMapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from headgate.core.suppression.rules import StoredKey

_CALL: Final = struct.Struct(">16s16sdd")
_HEAD: Final = struct.Struct(">16sd")
_TOLD: Final = struct.Struct(">16sd")
_MAX_LAYOUTS: Final = 32  # that a server remembers, the newest; also in layout.lua
_RETAIN_MS: Final = 30 * 86_400_000  # as incarnations; also in layout.lua
_ALONE: Final = bytes(16)  # all keys are on this server, whatever it is called


class LayoutCall(NamedTuple):
    """name: of the key in Redis.  layout: 16 bytes.  alive_ms: how long a layout that was told
    counts as in use.  keep_ms: how long it is remembered."""

    name: bytes
    layout: bytes
    alive_ms: float
    keep_ms: float

    def packed(self, redis: bytes) -> bytes:
        """The script's argument. redis: R of the connection."""
        return _CALL.pack(redis, self.layout, self.alive_ms, self.keep_ms)


class LayoutReply(NamedTuple):
    """now, noisy: by the server's clock, ms.  found: another layout is in use."""

    now: int
    noisy: int
    found: bool


def layout_of(servers: Sequence[str]) -> bytes:
    """16 bytes for a list of servers, in whatever order."""
    if len(servers) == 1:
        return _ALONE
    return blake2b("\n".join(sorted(servers)).encode(), digest_size=16).digest()


def tell(
    store: MutableMapping[bytes, StoredKey], call: LayoutCall, redis: bytes, now: int
) -> LayoutReply:
    """Do what the script does."""
    held = store.get(call.name)
    value = held.value if held is not None and held.expires > now else b""
    born, told = float(now), list[tuple[bytes, float]]()
    if value[:16] == redis:
        _, born = _HEAD.unpack_from(value)
        told = [
            (layout, when)
            for layout, when in _TOLD.iter_unpack(value[_HEAD.size :])
            if layout != call.layout and now - when < call.keep_ms
        ]
    noisy = max((when for _, when in told), default=born)
    found = any(now - when < call.alive_ms for _, when in told)
    kept = [*told[1 - _MAX_LAYOUTS :], (call.layout, float(now))]
    packed = _HEAD.pack(redis, born) + b"".join([_TOLD.pack(*one) for one in kept])
    store[call.name] = StoredKey(packed, now + _RETAIN_MS)
    return LayoutReply(now, int(max(noisy, born)), found)


class LayoutSpans(NamedTuple):
    """Seconds. lease: how long a gateway goes by what it heard.  interval: between two tellings.
    alive, keep: see `LayoutCall`."""

    lease: float
    interval: float
    alive: float
    keep: float


def layout_spans(quarantine_ms: float, max_suppress_age_ms: float) -> LayoutSpans:
    """A start that waits for a lease should be short; an outage of the tellings may last nearly as
    long. What is older than max_suppress_age is believed by nobody."""
    lease_s = min(10.0, max(1.0, quarantine_ms / 2000))
    interval_s = min(lease_s / 4, quarantine_ms / 6000)
    alive_s = max(quarantine_ms / 1000, lease_s)
    return LayoutSpans(lease_s, interval_s, alive_s, max_suppress_age_ms / 1000 + 2 * alive_s)


class _Heard(NamedTuple):
    """sent_s: when the call was sent.  noisy_s: a moment not before the server was last noisy."""

    sent_s: float
    noisy_s: float


_NOTHING: Final = _Heard(-math.inf, math.inf)


class Agreement:
    """What one process heard of the layout. count: of its servers. Times are its own, in seconds.

    until_s: how long it may believe what servers say, if it hears nothing more.  quiet_s: since
    when more than half of its servers know of no other layout; to what was born before they may
    owe something. (The interval of tellings is taken off: clocks differ, servers are started one
    after the other, and a quarantine is longer.)  begins_s: not before then may it take
    events, a lease after each server was first told.  clock_s: what the clock of an only server is
    behind ours, as quiet_s has it: compared by the server's own clock, a slow call raises no doubt.
    """

    __slots__ = ("_heard", "_met", "_spans", "begins_s", "clock_s", "count", "quiet_s", "until_s")

    def __init__(self, count: int, spans: LayoutSpans) -> None:
        self.count = count
        self._spans = spans
        self._heard = [_NOTHING] * count
        self._met: set[int] = set()  # those that have answered
        self.until_s, self.quiet_s, self.begins_s = -math.inf, math.inf, -math.inf
        self.clock_s: float | None = None

    @staticmethod
    def granted() -> "Agreement":
        """Of who has nobody to agree with."""
        agreement = Agreement(1, layout_spans(0.0, 0.0))
        agreement.until_s, agreement.quiet_s = math.inf, -math.inf
        return agreement

    def heard(self, server: int, sent_s: float, now_s: float, reply: LayoutReply) -> None:
        """A server has answered."""
        age_s = (reply.now - reply.noisy) / 1000
        if self.count == 1:
            self.clock_s = now_s - reply.now / 1000
        noisy_s = -math.inf if age_s >= self._spans.keep else now_s - age_s
        self._heard[server] = _Heard(sent_s, noisy_s)
        if reply.found and server not in self._met:
            self.begins_s = max(self.begins_s, now_s + self._spans.lease)
        self._met.add(server)
        self._conclude(now_s)

    def lost(self, server: int, now_s: float) -> None:
        """The connection broke: the server may have forgotten what it was told."""
        self._heard[server] = _NOTHING
        self._conclude(now_s)

    @property
    def is_heard(self) -> bool:
        """Whether more than half of the servers have answered."""
        return self.until_s > -math.inf

    def believes(self, born_s: float, now_s: float) -> bool:
        """Whether `unchanged` holds in a namespace that was born then."""
        return now_s < self.until_s and born_s >= self.quiet_s

    def begins_anew(self, born_s: float, now_s: float) -> bool:
        """Whether a namespace that was born then must begin anew before it can be believed. Not
        while the others still are there: it would soon have to again."""
        if now_s >= self.until_s or now_s - self.quiet_s < self._spans.lease:
            return False
        return born_s < self.quiet_s

    def _conclude(self, now_s: float) -> None:
        oldest_s, needed = now_s - self._spans.lease, self.count // 2 + 1
        fresh = sorted((one for one in self._heard if one.sent_s > oldest_s), key=_noise)
        if len(fresh) < needed:
            self.until_s, self.quiet_s = -math.inf, math.inf
            return
        chosen = fresh[:needed]
        self.quiet_s = chosen[-1].noisy_s - self._spans.interval
        self.until_s = min(one.sent_s for one in chosen) + self._spans.lease


def _noise(heard: _Heard) -> tuple[float, float]:
    return heard.noisy_s, -heard.sent_s
