"""Who has records that are no request's events: an oversized event, the end of a burst.

Not compiled, and apart from `Publish` for that reason: mypyc leaves an attribute without its
default where its type is a protocol that is compiled with it.
"""

from typing import TYPE_CHECKING, Protocol

from headgate.core.outcome import Outcome

if TYPE_CHECKING:
    from headgate.core.publish import Publish


class RecordOwner(Protocol):
    """Hears how each of its records ends."""

    def ended(self, publish: "Publish", outcome: Outcome) -> None:
        """One of its records has ended."""
        ...
