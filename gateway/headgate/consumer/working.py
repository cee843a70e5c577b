"""Tasks that take events and call a handler, and that end in bounded time when they have to."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from headgate.consumer.received import Received

log = logging.getLogger("headgate.consumer.working")

_CANCEL_S = 5.0

Events = AsyncIterator[Received]
Handler = Callable[[Received], Awaitable[None]]


async def work(
    events: Events, handler: Handler, tasks: int, stop: asyncio.Event, drain_s: float
) -> None:
    """Handle events with so many tasks at a time, until there are no more.

    From `stop` on, handlers in flight have `drain_s` to end, and are cancelled then; one that does
    not end even so is left behind. Raises what `events` raises, as an ExceptionGroup; handlers
    in flight are cancelled at once then.
    """
    end = asyncio.create_task(_end(events, stop), name="end of the events")
    workers = [
        asyncio.create_task(_handle_all(events, handler), name=f"handler {number}")
        for number in range(tasks)
    ]
    every = [end, *workers]
    try:
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        if not _errors(every):
            await asyncio.wait(every, timeout=drain_s, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _cancel(every)
    if errors := _errors(every):
        raise BaseExceptionGroup("the consumer cannot go on", errors)


async def _end(events: Events, stop: asyncio.Event) -> None:
    """What ended the events is heard also while all workers are busy."""
    await stop.wait()
    await anext(events, None)


async def _handle_all(events: Events, handler: Handler) -> None:
    async for event in events:
        try:
            await handler(event)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # It came from within the handler, such as from a task that it waited for.
            log.warning("handler cancelled itself for %r", event)
            event.failed(error)
        except Exception as error:  # the handler is not ours; its error is the event's
            log.exception("handler failed for %r", event)
            event.failed(error)
        else:
            event.done()


def _errors(tasks: list[asyncio.Task[None]]) -> list[BaseException]:
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    # Each task that asks for the next event is told the same.
    return list(dict.fromkeys(error for task in ended if (error := task.exception()) is not None))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        _, unfinished = await asyncio.wait(left, timeout=_CANCEL_S)
        for task in unfinished:
            log.error("%s continues after its cancellation and is abandoned", task.get_name())
