"""Keeps the view: each event has its effect in the transaction that says it is done.

    python -m examples.shop.consumer --where .shop/where.json

Kill it as you like, and start it again. SIGTERM ends it when what it has begun is done.
"""

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from examples.shop import views
from examples.shop.where import Where, add_where, read_where
from headgate.consumer import Consumer, Received, RedisPauses
from headgate.consumer.sql_offsets import SqlOffsets


def revenue_offsets(engine: AsyncEngine, build: int) -> SqlOffsets:
    """How far a build is: each has offsets of its own, as it has rows of its own."""
    return SqlOffsets(engine, group=f"revenue of build {build}")


async def run_until(
    is_over: Callable[[], Awaitable[bool]],
    consumer: Consumer,
    handler: Callable[[Received], Awaitable[None]],
) -> None:
    """Run a consumer until `is_over`, then finish what it has begun."""

    async def watch() -> None:
        while True:
            if await is_over():
                return consumer.stop()
            await asyncio.sleep(0.2)

    async with consumer, asyncio.TaskGroup() as group:
        group.create_task(watch())
        await consumer.run(handler)


async def keep_offers(
    engine: AsyncEngine, bootstrap: str, pauses: RedisPauses, stop: asyncio.Event
) -> None:
    """The newest state of each offer."""

    async def is_over() -> bool:
        return stop.is_set()

    offsets = SqlOffsets(engine, group="offers")
    topics = ("shop-offers", "shop-stock")
    consumer = Consumer(
        *topics, group="shop-offers", bootstrap=bootstrap, pauses=pauses, offsets=offsets
    )
    await run_until(is_over, consumer, offsets.once(views.save_offer))


async def keep_revenue(
    engine: AsyncEngine, bootstrap: str, pauses: RedisPauses, stop: asyncio.Event
) -> None:
    """Revenue by day and offer, in the build that counts: goes over to a new one by itself."""
    while not stop.is_set():
        build = await views.forget_older_builds(engine)

        async def is_over(build: int = build) -> bool:
            return stop.is_set() or await views.ready_build(engine) != build

        offsets = revenue_offsets(engine, build)
        consumer = Consumer(
            "shop-orders",
            group="shop-revenue",
            bootstrap=bootstrap,
            pauses=pauses,
            offsets=offsets,
        )
        add = partial(views.add_order, build)
        await run_until(is_over, consumer, offsets.once(add))


async def main(where: Where) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    engine, pauses = create_async_engine(where.database), RedisPauses(where.redis)
    try:
        await views.create(engine)
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_offers(engine, where.ingest, pauses, stop))
            group.create_task(keep_revenue(engine, where.ingest, pauses, stop))
    finally:
        await pauses.close()
        await engine.dispose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_where(parser)
    asyncio.run(main(read_where(parser.parse_args())))
