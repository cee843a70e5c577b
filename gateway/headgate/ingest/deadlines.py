"""Request deadlines, and the answers at a deadline.

One periodic sweep checks all deadlines, so requests need no timers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from headgate.backends.base import Suppression
from headgate.ingest.complete import Complete
from headgate.ingest.records import Validate
from headgate.ingest.turn import EventIds, Produce, Turn
from headgate.model.outcome import Failure, Reason, rejected
from headgate.model.publish import Publish, Stage, Ticket

log = logging.getLogger("headgate.ingest")

SWEEP_S = 0.05  # how late an answer may come after its deadline


class Deadlines:
    """Tickets in order of arrival. All have the same timeout, so the oldest is due first.

    Attributes:
        watch: Adds a ticket.
    """

    def __init__(
        self, expire: Callable[[Ticket], None], timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self._expire = expire
        self._timeout_s = timeout_s
        self._clock = clock
        self._tickets: deque[Ticket] = deque()
        self.watch: Final[Callable[[Ticket], None]] = self._tickets.append

    def sweep(self) -> None:
        """Forget tickets that are done, and expire tickets that are due."""
        tickets = self._tickets
        due = self._clock() - self._timeout_s
        while tickets and (tickets[0].done or tickets[0].arrived <= due):
            ticket = tickets.popleft()
            if not ticket.done:
                self._expire(ticket)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.sweep()
            except Exception:  # the outermost frame of this task: other tickets must be answered
                log.exception("deadline callback failed")


# ---- answers at a request's deadline; they depend on the stage of each event


# The reason at the deadline, by stage. Two stages have events that wait for something else, too: in
# NEW for the helper process, and in LANE for the oversize stage (`Expire._reason`).
REASONS: Final[Mapping[Stage, Reason]] = {
    Stage.NEW: Reason.REDIS_UNAVAILABLE,  # the claim of its id
    Stage.QUEUED: Reason.REDIS_UNAVAILABLE,
    Stage.RESERVING: Reason.REDIS_UNAVAILABLE,
    Stage.LANE: Reason.KAFKA_UNAVAILABLE,
    Stage.HANDED: Reason.UNKNOWN,
    Stage.STORING: Reason.UNKNOWN,
}
_RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Expire:
    """Callback for tickets whose deadline has passed.

    Args:
        turn: Batches of this turn of the event loop.
        validate: Validation stage.
        produce: Stage that puts records into the lanes.
        suppression: Suppression state.
        complete: Stage that ends events.
        ids: Generates event ids.
        timeout_ms: Timeout of a request, in milliseconds.
    """

    def __init__(
        self,
        turn: Turn,
        validate: Validate,
        produce: Produce,
        suppression: Suppression,
        complete: Complete,
        ids: EventIds,
        timeout_ms: int,
    ) -> None:
        self._turn = turn
        self._validate = validate
        self._produce = produce
        self._suppression = suppression
        self._complete = complete
        self._ids = ids
        self._timeout_s = timeout_ms / 1000

    def __call__(self, ticket: Ticket) -> None:
        """Answer open events: `unknown` if Kafka may have them, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        self._turn.flush()  # no event of the request may start after its answer
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                leader = publish.leader or publish
                # A record with followers is written for them, and it carries this event's id.
                if leader.stage >= Stage.HANDED or leader.spooled or publish.followers:
                    self._answer_unknown(ticket, publish)
                else:
                    self._withdraw(publish, leader)

    def _answer_unknown(self, ticket: Ticket, publish: Publish) -> None:
        assert publish.common is not None
        publish.event_id = publish.event_id or self._ids.take(publish.common.now_ms)
        seconds = self._timeout_s
        detail = f"Kafka did not acknowledge within {seconds:g} s; the event may yet arrive"
        failure = Failure(Reason.UNKNOWN, detail, retry_after_s=_RETRY_AFTER_S)
        outcome = rejected(failure, publish.record.key, publish.event_id)
        self._complete.answer(ticket, publish.index, outcome)

    def _withdraw(self, publish: Publish, leader: Publish) -> None:
        """Reject an event that was not handed over, and remove it from its stage."""
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is Stage.LANE
        publish.dropped = True
        detail = f"not handed to Kafka within {self._timeout_s:g} s; nothing was written"
        failure = Failure(self._reason(leader), detail, retry_after_s=_RETRY_AFTER_S)
        self._complete.end(publish, rejected(failure, publish.record.key, publish.event_id))
        if was_in_lane:
            self._suppression.ended(publish, True)
            self._produce.drop(publish)

    def _reason(self, leader: Publish) -> Reason:
        """Return the reason for an event that is not handed over; drop it from validation."""
        if leader.stage is Stage.NEW and self._validate.drop(leader):
            return Reason.OVERLOADED
        if leader.stage is Stage.LANE and self._produce.is_preparing(leader):
            assert leader.common is not None  # it came with a request
            stores = "claim-check" in leader.common.route.strategies
            return Reason.BLOBS_UNAVAILABLE if stores else Reason.OVERLOADED
        return REASONS[leader.stage]
