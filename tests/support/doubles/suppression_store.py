"""The suppression state in memory: the same rules, for tests and for a gateway without Redis."""

from collections.abc import Callable

from headgate.redis.script import StoreError
from headgate.suppression.rules import LayoutCall, LayoutReply, SuppressionCall, SuppressionReply
from support.doubles.suppression_rules import StoredKey, announce_layout, run


class MemoryRedis:
    """What several `MemoryStore` share, with the faults that a Redis may have.

    clock: its TIME, in ms.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.values: dict[bytes, StoredKey] = {}
        self.process = 1
        self.up = True

    @property
    def identity(self) -> bytes:
        """R: which process this is."""
        return self.process.to_bytes(16, "big")

    def restart(self) -> None:
        """Start again, empty."""
        self.process += 1
        self.up = True
        self.values = {}


class MemoryStore:
    """`SuppressionStore` on a `MemoryRedis`. cut: this one cannot reach it."""

    def __init__(self, redis: MemoryRedis) -> None:
        self.redis = redis
        self.cut = False
        self.server = self.eviction = ""
        self._process = 0

    async def connect(self) -> None:
        """Remember which process answers."""
        self._check()
        self._process = self.redis.process
        self.server = f"memory run {self._process}"

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Apply the rules at the redis' time."""
        self._check_process()
        return run(self.redis.values, call, self.redis.identity, int(self.redis.clock()))

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """The same for the layout."""
        self._check_process()
        return announce_layout(
            self.redis.values, call, self.redis.identity, int(self.redis.clock())
        )

    async def look(self) -> None:
        """Nothing vanishes."""
        self._check_process()

    async def close(self) -> None:
        """Forget the connection."""
        self._process = 0

    def _check_process(self) -> None:
        self._check()
        if self._process != self.redis.process:
            self._process = 0
            raise StoreError("redis_error", "the connection was closed")

    def _check(self) -> None:
        if self.cut or not self.redis.up:
            self._process = 0
            raise StoreError("redis_error", "cannot reach the memory store")
