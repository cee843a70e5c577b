"""What the identity client asks of Redis."""

from collections.abc import Sequence
from typing import Protocol

from headgate.core.idempotency.protocol import ClaimCall, ClaimVerdict


class IdentityStore(Protocol):
    """One connection to what is known of requests and events; the memory store passes the same
    tests.

    One call at a time. After a StoreError of `run` nothing is known of that call, the connection
    is closed, and `connect` comes before the next `run`.
    """

    async def connect(self) -> None:
        """Raises StoreError."""
        ...

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """Run the script once: a verdict for each claim, in order. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
