"""Builds the view anew from the second tier, and has the consumer go on behind it.

    python -m examples.shop.rebuild            beside the view that there is
    python -m examples.shop.rebuild --drop     which is lost first, to see it come back

The ingest tier is not read: its page cache stays with those who read what is new. The consumer
keeps the old build up to date until the new one is ready. Kill this as you like: a build that is
not ready counts for nothing; start it again, and it makes another.
"""

import argparse
import asyncio
import sys
import time
from functools import partial
from typing import Any

import aiohttp
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from examples.shop import views
from examples.shop.consumer import revenue_offsets, run_until
from examples.shop.where import Where, add_where, read_where
from headgate.consumer import Consumer

TOPIC = "shop-orders"
REPLAY = {
    "name": "all orders",
    "topic": TOPIC,
    "from": {"timestamp": 0},
    "to": {"relative": "now"},
    "deliver": {"mode": "topic", "ttl_s": 3600},
}
_PATIENCE_S = 180.0  # for a mirror that has just started, and a runner that copies


class ReplayError(Exception):
    """There is no replay; the text says why."""


async def ready_replay(management: str) -> dict[str, Any]:
    """Ask for a replay of all orders, and return it when it can be read."""
    end = time.monotonic() + _PATIENCE_S
    async with aiohttp.ClientSession(management) as client:
        replay = await _created(client, end)
        while replay["state"] != "ready":
            if replay["state"] in ("failed", "cancelled") or time.monotonic() > end:
                raise ReplayError(f"replay {replay['id']} is {replay['state']}: {replay['reason']}")
            await asyncio.sleep(0.3)
            async with client.get(f"/v1/replays/{replay['id']}") as answer:
                replay = await answer.json()
    return replay


async def _created(client: aiohttp.ClientSession, end: float) -> dict[str, Any]:
    """Up to now, or else as far as the mirror is: live reads what it lacks, which is new."""
    asked: dict[str, Any] = REPLAY
    while True:
        async with client.post("/v1/replays", json=asked) as answer:
            page: dict[str, Any] = await answer.json()
        if answer.status < 300:
            return page
        if answer.status != 422 or "mirrored_to" not in page or time.monotonic() > end:
            raise ReplayError(f"no replay: {page['detail']}")
        if any(page["mirrored_to"]["offsets"].values()):
            asked = {**REPLAY, "to": page["mirrored_to"]}
        else:  # it has just started
            await asyncio.sleep(1)


async def fill(engine: AsyncEngine, build: int, result: dict[str, Any]) -> None:
    """Read a replay to its end into a build, with the consumer and the effect of the live view."""
    offsets = revenue_offsets(engine, build)
    ends = {
        (result["topic"], int(partition)): place["end"]
        for partition, place in result["offsets"].items()
        if place["start"] < place["end"]
    }

    async def is_over() -> bool:
        at = await offsets.positions(ends)
        return all(at.get(place, 0) >= end for place, end in ends.items())

    group, bootstrap = f"shop-revenue-{build}", result["bootstrap_servers"]
    consumer = Consumer(result["topic"], group=group, bootstrap=bootstrap, offsets=offsets)
    await run_until(is_over, consumer, offsets.once(partial(views.add_order, build)))


async def rebuild(where: Where, *, drop: bool) -> None:
    """See the module."""
    engine = create_async_engine(where.database)
    try:
        if drop:
            await views.drop_revenue(engine)
            print("the view is dropped", flush=True)
        print("waits for a replay from the second tier", flush=True)
        replay = await ready_replay(where.management)
        build = await views.new_build(engine, replay["id"])
        print(f"replay {replay['id']} is ready: fills build {build}", flush=True)
        await fill(engine, build, replay["result"])
        # Live goes on with the first record that is not in the replay.
        planned = replay["planned"]["partitions"].items()
        starts = {(TOPIC, int(number)): part["source"]["end"] for number, part in planned}
        await revenue_offsets(engine, build).start_at(starts)
        await views.make_ready(engine, build)
        print(f"build {build} counts: {replay['planned']['records']} orders")
    finally:
        await engine.dispose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_where(parser)
    parser.add_argument("--drop", action="store_true", help="lose the view that there is, first")
    args = parser.parse_args()
    try:
        asyncio.run(rebuild(read_where(args), drop=args.drop))
    except (ReplayError, OSError, aiohttp.ClientError) as error:
        sys.exit(f"rebuild: {error}")
