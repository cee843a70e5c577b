"""What waits for Redis in one process, and how it is packed into calls. It knows no connection."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.core.idempotency.protocol import (
    CLAIM,
    RENEW,
    Claim,
    ClaimCall,
    ClaimState,
    ClaimStep,
    ClaimVerdict,
)
from headgate.idempotency.options import IdentityOptions
from headgate.idempotency.pending import Ask, End, PendingReports


class PackedCall(NamedTuple):
    """What one call carries, in this order: who claims sees what has ended before."""

    ends: list[End]
    renewed: list[Claim]
    claimed: list[tuple[Ask, Claim]]

    def call(self, claim_ms: float) -> ClaimCall:
        """As the script is told it."""
        operations: list[ClaimStep] = [end.operation for end in self.ends]
        operations += [claim.operation(RENEW) for claim in self.renewed]
        operations += [claim.operation(CLAIM) for _, claim in self.claimed]
        return ClaimCall(claim_ms, operations)


class Waiting:
    """Asks in their order, ends in theirs, and the claims of all that is under way here.

    on_forgotten: told of each end that Redis is never told. Times are seconds.
    """

    def __init__(self, options: IdentityOptions, on_forgotten: Callable[[], None]) -> None:
        self._options = options
        self._open: dict[bytes, tuple[Claim, float]] = {}  # by token, in the order of renewal
        self._to_renew: deque[Claim] = deque()
        self.asks: deque[Ask] = deque()
        self.ends = PendingReports(options.max_pending, options.max_pending_bytes, on_forgotten)

    @property
    def open_claims(self) -> int:
        """How many attempts are under way, or on their way to be."""
        return len(self._open) + len(self.asks)

    @property
    def has_news(self) -> bool:
        """Whether anything waits for a call, or may go on without one."""
        return self.news > 0 or len(self._to_renew) > 0

    @property
    def news(self) -> int:
        """How many wait for a call."""
        return len(self.asks) + len(self.ends)

    @property
    def fills_a_call(self) -> bool:
        """Whether no more than what waits now would go with the next call."""
        return self.news >= self._options.max_steps

    def follow(self, claim: Claim, now: float) -> None:
        """This attempt is under way: its claim is kept alive until `end`."""
        self._open[claim.token] = (claim, now)

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """An attempt has ended: Redis is to know."""
        self._open.pop(token, None)
        self.ends.add(End(token, operation))

    def next_call(self, now: float) -> PackedCall | None:
        """What the next call carries, oldest first."""
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
        self._take_claims(outgoing, now, room, size)
        if outgoing.ends or outgoing.renewed or outgoing.claimed:
            return outgoing
        return None

    def _take_claims(self, outgoing: PackedCall, now: float, room: int, size: int) -> None:
        for ask in self.asks:
            while room > 0 and size > 0:
                sized = ask.take()
                if sized is None:
                    break
                self.follow(sized.claim, now)
                outgoing.claimed.append((ask, sized.claim))
                room, size = room - 1, size - sized.size
            if room <= 0 or size <= 0:
                return

    def answered(self, outgoing: PackedCall, verdicts: Sequence[ClaimVerdict]) -> None:
        """The call has run: verdicts of its claims, in order."""
        for end in outgoing.ends:
            self.ends.reported(end)
        for (ask, claim), verdict in zip(outgoing.claimed, verdicts, strict=True):
            ask.answered(claim, verdict)
            if verdict.state is not ClaimState.CLAIMED:
                self._open.pop(claim.token, None)

    def lost(self, outgoing: PackedCall | None) -> None:
        """Redis is away; of this call nothing is known."""
        if outgoing is not None:
            self.ends.put_back(outgoing.ends)
        self.ends.wake_all()

    def go_on(self) -> None:
        """Let those go on that have all their verdicts, in order."""
        while self.asks and self.asks[0].is_complete:
            self._go_on_first("")

    def go_on_without(self, reason: str) -> None:
        """Let all go on with the verdicts that they have."""
        while self.asks:
            self._go_on_first(reason)

    def go_on_overdue(self, asked_before_s: float) -> int:
        """Let those go on that have waited since then; returns how many did. The oldest first."""
        count = 0
        while self.asks and self.asks[0].asked_s <= asked_before_s:
            self._go_on_first("redis_slow")
            count += 1
        return count

    def _go_on_first(self, reason: str) -> None:
        # It leaves the queue afterwards: what it starts meanwhile must not overtake it.
        try:
            self.asks[0].go_on(reason)
        finally:
            self.asks.popleft()

    def renew_older_than(self, before: float, now: float) -> bool:
        """Renew claims that were made or renewed before then; tells whether there were any."""
        due = []
        for claim, renewed in self._open.values():
            if renewed > before:
                break
            due.append(claim)
        for claim in due:
            del self._open[claim.token]
            self.follow(claim, now)
        self._to_renew.extend(due)
        return bool(due)

    def renew_all(self, now: float) -> None:
        """Redis may have lost its state: claim again for all that is under way here."""
        self._to_renew.clear()
        self.renew_older_than(float("inf"), now)
