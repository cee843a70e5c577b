"""Turns of a process' owners at the event loop: one piece of work at a time, others in between."""

import asyncio


class Turns:
    """Shared by all owners of a process. When a member dies all of them recover at the same time,
    and what each does in one go would add up.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the next turn: no other owner has had this one, and whoever else waits for the
        event loop came first.
        """
        async with self._lock:
            await asyncio.sleep(0)
