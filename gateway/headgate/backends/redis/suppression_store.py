"""What the suppressor asks of Redis."""

from typing import Protocol

from headgate.core.suppression.layout import LayoutCall, LayoutReply
from headgate.core.suppression.protocol import SuppressionCall, SuppressionReply


class SuppressionStore(Protocol):
    """One connection to the state of suppression; the memory store passes the same tests.

    One call at a time. After a StoreError of `run` nothing is known of that call, the connection
    is closed, and `connect` comes before the next `run`.

    server: which Redis process was connected last, for people; empty before the first time.
    eviction: why entries may vanish, as `connect` or `look` saw it last; empty if they stay.
    """

    server: str
    eviction: str

    async def connect(self) -> None:
        """Connect, and read which Redis process this is. Raises StoreError."""
        ...

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Run the script once. Raises StoreError."""
        ...

    async def tell(self, call: LayoutCall) -> LayoutReply:
        """Tell it our layout. Raises StoreError, as `run` does."""
        ...

    async def look(self) -> None:
        """Look whether entries may vanish. Raises StoreError, as `run` does."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
