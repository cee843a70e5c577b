"""What is answered when a request's time is up: it depends on where each of its events waits."""

from headgate.backends.base import Suppression
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.publish import Publish, Stage, Ticket
from headgate.pipeline.complete import Complete
from headgate.pipeline.produce import Produce
from headgate.pipeline.turn import Turn
from headgate.pipeline.validate import Validate

_RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Expire:
    """timeout_ms: the time that a request has."""

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
        """Answer what is still open: `unknown` for what Kafka may have, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        self._turn.flush()  # nothing of it must go on after its answer
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                leader = publish.leader or publish
                # With followers the record goes on for their sake, and it carries this event's id.
                if leader.stage >= Stage.HANDED or leader.spooled or publish.followers:
                    self._answer_unknown(ticket, publish)
                else:
                    self._withdraw(publish, leader)

    def _answer_unknown(self, ticket: Ticket, publish: Publish) -> None:
        assert publish.common is not None
        publish.event_id = publish.event_id or self._ids.take(publish.common.now_ms)
        seconds = self._timeout_s
        detail = f"Kafka did not acknowledge within {seconds:g} s; the event may yet arrive"
        failure = Failure(Reason.UNKNOWN, detail, None, _RETRY_AFTER_S)
        outcome = rejected(failure, publish.record.key, publish.event_id)
        self._complete.answer(ticket, publish.index, outcome)

    def _withdraw(self, publish: Publish, leader: Publish) -> None:
        """Nobody hands it over any more."""
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is Stage.LANE
        publish.dropped = True
        waits_for_redis = leader.stage is Stage.QUEUED or leader.stage is Stage.RESERVING
        if leader.stage is Stage.NEW:  # it is examined, or its id is asked for
            waits_for_redis = not self._validate.drop(publish)
        reason = Reason.REDIS_UNAVAILABLE if waits_for_redis else Reason.KAFKA_UNAVAILABLE
        detail = f"not handed to Kafka within {self._timeout_s:g} s; nothing was written"
        failure = Failure(reason, detail, None, _RETRY_AFTER_S)
        self._complete.end(publish, rejected(failure, publish.record.key, publish.event_id))
        if was_in_lane:
            self._suppression.ended(publish, True)
            self._produce.drop(publish)
