"""What the suppressor asks of Redis, and how that may fail."""

from typing import Protocol

from headgate.core.suppression.protocol import Call, Reply


class StoreError(Exception):
    """The store did not answer as it should.

    reason: a label of bounded variety for metrics.  detail: for the log.  in_words: for clients,
    where the detail is not.
    """

    def __init__(self, reason: str, detail: str, in_words: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.in_words = detail if in_words is None else in_words


class SuppressionStore(Protocol):
    """One connection to the state of suppression; the memory store passes the same tests.

    One call at a time. After a StoreError of `run` nothing is known of that call, the connection
    is closed, and `connect` comes before the next `run`.
    """

    async def connect(self) -> None:
        """Connect, and read which Redis process this is. Raises StoreError."""
        ...

    async def run(self, call: Call) -> Reply:
        """Run the script once. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
