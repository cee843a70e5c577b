# Not compiled: `Publish` would lose the default of its attribute `owner`.
"""Owners of records that do not belong to a request: an oversized event, the end of a burst."""

from typing import TYPE_CHECKING, Protocol

from headgate.model.outcome import Outcome

if TYPE_CHECKING:
    from headgate.model.publish import Publish


class RecordOwner(Protocol):
    """Listener for the outcomes of its records."""

    def ended(self, publish: "Publish", outcome: Outcome) -> None:
        """Handle the outcome of one of its records."""
        ...
