"""The consumer groups of `headgate dev --demo`: one that keeps up, and one that is stuck."""

import asyncio
from contextlib import suppress

from headgate.consumer import Consumer, ConsumerOptions, Received

KEEPS_UP, IS_STUCK = "emails", "search-index"
STUCK_AT = b"deal-3"  # the deal that the sample traffic saves 50 times in a row
# Nothing is lost when the demo ends, so nobody waits for the handler that never returns.
_OPTIONS = ConsumerOptions(drain_s=0.0, auto_offset_reset="earliest")


async def consume_until_cancelled(bootstrap: str) -> None:
    """Both groups, on the tier that takes the events."""
    async with asyncio.TaskGroup() as groups:
        groups.create_task(_consume("orders", KEEPS_UP, bootstrap))
        groups.create_task(_consume("deals", IS_STUCK, bootstrap))


async def _consume(topic: str, group: str, bootstrap: str) -> None:
    consumer = Consumer(topic, group=group, bootstrap=bootstrap, options=_OPTIONS)
    with suppress(ExceptionGroup):  # it cannot go on; the sample traffic does
        async with consumer:
            await consumer.run(_handle)


async def _handle(event: Received) -> None:
    """As a call to a service does that never answers for one document, and has no timeout."""
    if event.key == STUCK_AT:
        await asyncio.get_running_loop().create_future()
