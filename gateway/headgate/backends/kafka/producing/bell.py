"""Who waits for something to do, and is woken."""

import asyncio


class Bell:
    """For one task that waits. What is rung while nobody waits is not remembered."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Until it rings."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def ring(self) -> None:
        """Wake who waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
