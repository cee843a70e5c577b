"""Whether there is room for a request's events: how many they are, the budget, the quotas."""

from collections.abc import Mapping
from typing import Protocol

from headgate.config.settings import ProducerSettings
from headgate.core.admission import Admission, InFlightLimit
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Ticket
from headgate.core.refusal import Refused, malformed
from headgate.core.request import RequestOptions


class Quotas(Protocol):
    """Whether a producer may send so much now."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


def in_flight_limits(
    producers: Mapping[str, ProducerSettings], workers: int
) -> dict[str, InFlightLimit]:
    """Of the producers that have one; an instance's limits are split evenly over its workers."""
    found = {}
    for name, one in producers.items():
        both = (one.max_in_flight_bytes, one.max_in_flight_events)
        if both != (None, None):
            parts = [None if limit is None else max(1, limit // workers) for limit in both]
            found[name] = InFlightLimit(*parts)
    return found


class Admit:
    """max_events: of one request."""

    def __init__(self, admission: Admission, quotas: Quotas, max_events: int) -> None:
        self._admission = admission
        self._quotas = quotas
        self._max_events = max_events

    def take(self, ticket: Ticket, options: RequestOptions, count: int, size: int) -> None:
        """Let so many events in, of so many bytes together. Raises Refused, and keeps nothing."""
        if ticket.is_batch and options.single_event_header is not None:
            name = options.single_event_header
            raise Refused(malformed(f"{name} means one event, but the body is a batch"))
        if count > self._max_events:
            limit = self._max_events
            detail = f"{count} events in one request are more than http.batch_max_events = {limit}"
            raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))
        failure = self._admission.take_events(ticket.producer, count)
        if failure is not None:
            raise Refused(failure)
        ticket.expect(count)
        failure = self._quotas.check(ticket.producer, count, size)
        if failure is not None:
            self._admission.give(ticket.producer, 0, count)
            raise Refused(failure)
