"""What is known of requests and events, in memory: the same rules, for tests."""

from collections.abc import Callable, Sequence

from headgate.idempotency.rules import ClaimCall, ClaimVerdict, StoredName, run
from headgate.redis.script import StoreError


class SharedIdentities:
    """What several `MemoryIdentityStore` share. clock: its TIME, in ms.  up: whether it answers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.values: dict[bytes, StoredName] = {}
        self.up = True


class MemoryIdentityStore:
    """`IdentityStore` on `SharedIdentities`."""

    def __init__(self, shared: SharedIdentities) -> None:
        self.shared = shared
        self._is_connected = False

    async def connect(self) -> None:
        """Succeeds while it is up."""
        self._is_connected = self.shared.up
        if not self._is_connected:
            raise StoreError("redis_error", "cannot reach the memory store")

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """Apply the rules at its time."""
        if not (self._is_connected and self.shared.up):
            self._is_connected = False
            raise StoreError("redis_error", "not connected to the memory store")
        return run(self.shared.values, call, int(self.shared.clock()))

    async def close(self) -> None:
        """Forget the connection."""
        self._is_connected = False
