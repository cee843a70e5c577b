"""A request's events that earlier attempts under its Idempotency-Key ended well."""

from headgate.core.event import Decoded, Event
from headgate.core.idempotency import Attempt
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Ticket

# Stands in the place of an event that is done, until its answer does.
_DONE = Failure(Reason.INTERNAL, "done by an earlier attempt")


def leave_out_known(ticket: Ticket, attempt: Attempt, decoded: Decoded) -> None:
    """Leave those out that need not be started again."""
    rest = [*decoded.events]
    for index in attempt.known:
        if index < len(rest):
            ticket.sizes[index] = _size(rest[index])
            rest[index] = _DONE
    decoded.events = rest


def answer_known(ticket: Ticket, attempt: Attempt) -> None:
    """Give these events the answers of earlier attempts."""
    for index, outcome in attempt.known.items():
        if index < len(ticket.outcomes):
            ticket.outcomes[index] = outcome


def _size(event: Event) -> int:
    if isinstance(event, Failure):
        return 0
    value = event if isinstance(event, bytes) else event.value
    return len(value or b"")
