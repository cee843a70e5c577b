"""Claims and their ends that wait for Redis in one process, and the calls that carry them."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headgate.idempotency.rules import (
    CLAIM,
    RENEW,
    ClaimCall,
    ClaimState,
    ClaimStep,
    ClaimVerdict,
    step_of,
)
from headgate.idempotency.store import IdentityOptions
from headgate.model.publish import Claim

Verdicts = Mapping[bytes, ClaimVerdict]  # by token; claims without a verdict are missing
GoOn = Callable[[Verdicts, str], None]  # verdicts, and why some are missing; "" if none is


class SizedClaim:
    """A claim, and the number of bytes that were digested for it."""

    __slots__ = ("claim", "size")

    def __init__(self, claim: Claim, size: int) -> None:
        self.claim: Final = claim
        self.size: Final = size


class Ask:
    """One request's claims, which are made one by one, when calls have room for them.

    Args:
        claims: The claims.
        go_on: Called once with the verdicts.
        asked_s: Time when the request began to wait, in seconds.
    """

    __slots__ = ("_claims", "_exhausted", "_go_on", "_unanswered", "_verdicts", "asked_s")

    def __init__(self, claims: Iterator[SizedClaim], go_on: GoOn, asked_s: float = 0.0) -> None:
        self.asked_s = asked_s
        self._claims = claims
        self._go_on = go_on
        self._exhausted = False
        self._unanswered = 0
        self._verdicts: dict[bytes, ClaimVerdict] = {}

    def take(self) -> SizedClaim | None:
        """Return the next claim; None if there are no more."""
        sized = next(self._claims, None)
        if sized is None:
            self._exhausted = True
        else:
            self._unanswered += 1
        return sized

    @property
    def is_complete(self) -> bool:
        """Return whether all claims have their verdicts."""
        return self._exhausted and not self._unanswered

    def answered(self, claim: Claim, verdict: ClaimVerdict) -> None:
        """Note the verdict of a claim."""
        self._unanswered -= 1
        self._verdicts[claim.token] = verdict

    def go_on(self, reason: str = "") -> None:
        """Let the request go on with the present verdicts.

        Args:
            reason: Why some verdicts are missing; empty if none is.
        """
        self._go_on(self._verdicts, reason)


class End:
    """The end of a claim until it is in Redis.

    Attributes:
        waiter: Called once, when it is there.
    """

    __slots__ = ("operation", "token", "waiter")

    def __init__(self, token: bytes, operation: ClaimStep) -> None:
        self.token = token
        self.operation = operation
        self.waiter: Callable[[], None] | None = None

    def wake(self) -> None:
        """Call the waiter: the end is in Redis, or Redis is away."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter()


class PendingReports:
    """Ends that are not in Redis yet, in order. Beyond the limits the oldest is forgotten.

    Args:
        limit: Most ends.
        max_bytes: Most bytes of all ends.
        on_forgotten: Called once for each forgotten end.
    """

    def __init__(self, limit: int, max_bytes: int, on_forgotten: Callable[[], None]) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._on_forgotten = on_forgotten
        self._queue: deque[End] = deque()
        self._bytes = 0
        self._by_token: dict[bytes, End] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, end: End) -> None:
        """Add an end behind all others."""
        self._queue.append(end)
        self._bytes += len(end.operation.packed)
        self._by_token[end.token] = end
        while len(self._queue) > self._limit or self._bytes > self._max_bytes:
            forgotten = self.take()
            self.reported(forgotten)
            self._on_forgotten()

    def take(self) -> End:
        """Take the oldest end, for a call."""
        end = self._queue.popleft()
        self._bytes -= len(end.operation.packed)
        return end

    def put_back(self, ends: list[End]) -> None:
        """Queue the ends of a call with an unknown fate again; a second call does no harm."""
        for end in reversed(ends):
            self._queue.appendleft(end)
            self._bytes += len(end.operation.packed)

    def reported(self, end: End) -> None:
        """Remove an end that is in Redis, or never will be."""
        if self._by_token.get(end.token) is end:
            del self._by_token[end.token]
        end.wake()

    def find(self, token: bytes) -> End | None:
        """Return the end of this attempt if it is not in Redis yet."""
        return self._by_token.get(token)

    def wake_all(self) -> None:
        """Call all waiters."""
        for end in [*self._by_token.values()]:
            end.wake()


class PackedCall(NamedTuple):
    """The contents of one call, in this order: a claim sees the ends before it."""

    ends: list[End]
    renewed: list[Claim]
    claimed: list[tuple[Ask, Claim]]

    def call(self, claim_ms: float) -> ClaimCall:
        """Return the script's call."""
        operations: list[ClaimStep] = [end.operation for end in self.ends]
        operations += [step_of(claim, RENEW) for claim in self.renewed]
        operations += [step_of(claim, CLAIM) for _, claim in self.claimed]
        return ClaimCall(claim_ms, operations)


class PendingClaims:
    """Waiting requests and ends, each in order, and the claims of all current attempts.

    Times are in seconds.

    Args:
        options: Options of request identity.
        on_forgotten: Called once for each end that Redis never gets.
    """

    def __init__(self, options: IdentityOptions, on_forgotten: Callable[[], None]) -> None:
        self._options = options
        self._open: dict[bytes, tuple[Claim, float]] = {}  # by token, in the order of renewal
        self._to_renew: deque[Claim] = deque()
        self.asks: deque[Ask] = deque()
        self.ends = PendingReports(options.max_pending, options.max_pending_bytes, on_forgotten)

    @property
    def open_claims(self) -> int:
        """Return the number of current and waiting attempts."""
        return len(self._open) + len(self.asks)

    @property
    def has_news(self) -> bool:
        """Return whether anything waits for a call."""
        return self.news > 0 or len(self._to_renew) > 0

    @property
    def news(self) -> int:
        """Return the number of requests and ends that wait for a call."""
        return len(self.asks) + len(self.ends)

    def follow(self, claim: Claim, now_s: float) -> None:
        """Keep the claim of an attempt alive until `end`."""
        self._open[claim.token] = (claim, now_s)

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """Queue the end of an attempt."""
        self._open.pop(token, None)
        self.ends.add(End(token, operation))

    def next_call(self, now_s: float) -> PackedCall | None:
        """Pack the next call, oldest first; return None if it would be empty."""
        outgoing, options = PackedCall([], [], []), self._options
        room, size = options.max_steps, options.max_bytes
        while self.ends and room > 0 and size > 0:
            end = self.ends.take()
            outgoing.ends.append(end)
            room, size = room - 1, size - len(end.operation.packed)
        while self._to_renew and room > 0:
            claim = self._to_renew.popleft()
            if claim.token in self._open:
                outgoing.renewed.append(claim)
                room -= 1
        self._take_claims(outgoing, now_s, room, size)
        if outgoing.ends or outgoing.renewed or outgoing.claimed:
            return outgoing
        return None

    def _take_claims(self, outgoing: PackedCall, now_s: float, room: int, size: int) -> None:
        for ask in self.asks:
            while room > 0 and size > 0:
                sized = ask.take()
                if sized is None:
                    break
                self.follow(sized.claim, now_s)
                outgoing.claimed.append((ask, sized.claim))
                room, size = room - 1, size - sized.size
            if room <= 0 or size <= 0:
                return

    def answered(self, outgoing: PackedCall, verdicts: Sequence[ClaimVerdict]) -> None:
        """Apply the verdicts of a call's claims, in order."""
        for end in outgoing.ends:
            self.ends.reported(end)
        for (ask, claim), verdict in zip(outgoing.claimed, verdicts, strict=True):
            ask.answered(claim, verdict)
            if verdict.state is not ClaimState.CLAIMED:
                self._open.pop(claim.token, None)

    def lost(self, outgoing: PackedCall | None) -> None:
        """Note that Redis is away and that the fate of the current call is unknown."""
        if outgoing is not None:
            self.ends.put_back(outgoing.ends)
        self.ends.wake_all()

    def go_on(self) -> None:
        """Let requests go on that have all their verdicts, in order."""
        while self.asks and self.asks[0].is_complete:
            self._go_on_first("")

    def go_on_without(self, reason: str) -> None:
        """Let all requests go on with the verdicts that they have."""
        while self.asks:
            self._go_on_first(reason)

    def go_on_overdue(self, asked_before_s: float) -> int:
        """Let requests go on that have waited since a time (seconds), the oldest first.

        Returns:
            The number of these requests.
        """
        count = 0
        while self.asks and self.asks[0].asked_s <= asked_before_s:
            self._go_on_first("redis_slow")
            count += 1
        return count

    def _go_on_first(self, reason: str) -> None:
        # It leaves the queue afterwards: requests that it starts must not overtake it.
        try:
            self.asks[0].go_on(reason)
        finally:
            self.asks.popleft()

    def renew_older_than(self, before: float, now_s: float) -> bool:
        """Renew the claims that were last made or renewed before a time.

        Args:
            before: The time, in seconds.
            now_s: Present time, in seconds.

        Returns:
            Whether there were any.
        """
        due = []
        for claim, renewed in self._open.values():
            if renewed > before:
                break
            due.append(claim)
        for claim in due:
            del self._open[claim.token]
            self.follow(claim, now_s)
        self._to_renew.extend(due)
        return bool(due)

    def renew_all(self, now_s: float) -> None:
        """Renew the claims of all current attempts, because Redis may have lost its state."""
        self._to_renew.clear()
        self.renew_older_than(float("inf"), now_s)
