"""What this library raises. How an event ended is no exception: see `headgate_client.outcomes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate_client.outcomes import Rejected, Unknown


class HeadgateError(Exception):
    """The base of all errors below."""


class InvalidEventError(HeadgateError, ValueError):
    """An argument that no gateway takes. The text names it and says what to do."""


class BufferFullError(HeadgateError):
    """There is no room for another event. Nothing was taken of it."""


class ClosedError(HeadgateError):
    """The client or producer was closed."""


class OutcomeError(HeadgateError):
    """An event did not end well; raised by `raise_for_outcome()` alone."""


class RejectedError(OutcomeError):
    """The event was certainly not written."""

    def __init__(self, outcome: Rejected) -> None:
        super().__init__(f"{outcome.topic}: {outcome.reason}: {outcome.detail}")
        self.outcome = outcome


class UnknownOutcomeError(OutcomeError):
    """It is not known whether the event was written."""

    def __init__(self, outcome: Unknown) -> None:
        super().__init__(f"{outcome.topic}: {outcome.reason}: {outcome.detail}")
        self.outcome = outcome
