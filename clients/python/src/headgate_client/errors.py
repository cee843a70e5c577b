"""Exceptions of this library. A failed event is an outcome: see `headgate_client.outcomes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate_client.outcomes import Rejected, Unknown


class HeadgateError(Exception):
    """Base class of all exceptions below."""


class InvalidEventError(HeadgateError, ValueError):
    """The event cannot be sent. The text names the argument and the fix; nothing was sent."""


class InvalidOptionError(HeadgateError, ValueError):
    """An option does not exist, or its value is out of range. The text lists the allowed ones."""


class BufferFullError(HeadgateError):
    """The producer's buffer has no room. The event was not taken."""


class ClosedError(HeadgateError):
    """The client or producer is closed."""


class OutcomeError(HeadgateError):
    """The event was not written, or may not be. Only `raise_for_outcome()` raises it."""


class RejectedError(OutcomeError):
    """The event was certainly not written; `outcome` has the reason."""

    def __init__(self, outcome: Rejected) -> None:
        super().__init__(f"{outcome.topic}: {outcome.reason}: {outcome.detail}")
        self.outcome = outcome


class UnknownOutcomeError(OutcomeError):
    """The event may or may not be written; `outcome` has the reason."""

    def __init__(self, outcome: Unknown) -> None:
        super().__init__(f"{outcome.topic}: {outcome.reason}: {outcome.detail}")
        self.outcome = outcome
