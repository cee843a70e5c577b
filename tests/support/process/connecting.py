"""Connections of a test's own to Redis."""

from __future__ import annotations

import time
from typing import Protocol

from headgate.redis.script import StoreError

_DEADLINE_S = 60.0


class Connects(Protocol):
    """A store, or a script."""

    async def connect(self) -> object:
        """Raises StoreError."""


async def reach(store: Connects) -> None:
    """As a gateway does, again and again: on a busy machine a second may be too short."""
    end_s = time.monotonic() + _DEADLINE_S
    while True:
        try:
            await store.connect()
        except StoreError:
            if time.monotonic() > end_s:
                raise
        else:
            return
