"""Claims that wait for their verdicts, and ends that Redis has not been told yet."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headgate.core.idempotency.protocol import Claim, ClaimStep, ClaimVerdict

Verdicts = Mapping[bytes, ClaimVerdict]  # by token; one that is missing could not be had
GoOn = Callable[[Verdicts, str], None]  # and why some are missing, "" if none is


class Sized:
    """A claim, and the bytes that were digested for it."""

    __slots__ = ("claim", "size")

    def __init__(self, claim: Claim, size: int) -> None:
        self.claim: Final = claim
        self.size: Final = size


class Ask:
    """One request's claims. They are made one by one, as calls have room for them.

    asked_s: when it began to wait.
    """

    __slots__ = ("_claims", "_exhausted", "_go_on", "_unanswered", "_verdicts", "asked_s")

    def __init__(self, claims: Iterator[Sized], go_on: GoOn, asked_s: float = 0.0) -> None:
        self.asked_s = asked_s
        self._claims = claims
        self._go_on = go_on
        self._exhausted = False
        self._unanswered = 0
        self._verdicts: dict[bytes, ClaimVerdict] = {}

    def take(self) -> Sized | None:
        """The next claim, or None when there is no more."""
        sized = next(self._claims, None)
        if sized is None:
            self._exhausted = True
        else:
            self._unanswered += 1
        return sized

    @property
    def is_complete(self) -> bool:
        """Whether all claims have been made and answered."""
        return self._exhausted and not self._unanswered

    def answered(self, claim: Claim, verdict: ClaimVerdict) -> None:
        """One of the claims that were taken has its verdict."""
        self._unanswered -= 1
        self._verdicts[claim.token] = verdict

    def go_on(self, reason: str = "") -> None:
        """Let the request go on with the verdicts that there are."""
        self._go_on(self._verdicts, reason)


class End:
    """The end of a claim, until Redis knows of it. waiter: who waits for that; called once."""

    __slots__ = ("operation", "token", "waiter")

    def __init__(self, token: bytes, operation: ClaimStep) -> None:
        self.token = token
        self.operation = operation
        self.waiter: Callable[[], None] | None = None

    def wake(self) -> None:
        """Redis knows, or cannot be told now."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter()


class PendingReports:
    """What Redis has not been told yet, in order; the oldest is forgotten where it gets too much.

    on_forgotten: told of each.
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
        """Behind all others."""
        self._queue.append(end)
        self._bytes += len(end.operation.packed)
        self._by_token[end.token] = end
        while len(self._queue) > self._limit or self._bytes > self._max_bytes:
            forgotten = self.take()
            self.reported(forgotten)
            self._on_forgotten()

    def take(self) -> End:
        """The oldest, for a call."""
        end = self._queue.popleft()
        self._bytes -= len(end.operation.packed)
        return end

    def put_back(self, ends: list[End]) -> None:
        """Nothing is known of the call that had these; telling twice does no harm."""
        for end in reversed(ends):
            self._queue.appendleft(end)
            self._bytes += len(end.operation.packed)

    def reported(self, end: End) -> None:
        """Redis knows of it, or never will."""
        if self._by_token.get(end.token) is end:
            del self._by_token[end.token]
        end.wake()

    def find(self, token: bytes) -> End | None:
        """The end of this attempt, if Redis has not been told yet."""
        return self._by_token.get(token)

    def wake_all(self) -> None:
        """Nobody need wait any longer."""
        for end in [*self._by_token.values()]:
            end.wake()
