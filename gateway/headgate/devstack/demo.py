"""The sample traffic of `headgate dev --demo`: four producers and two consumer groups."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from typing import Any, NamedTuple

import aiohttp

from headgate.consumer import Consumer, ConsumerOptions, Received, RedisPauses

POSTS_PER_S = 5.0
SAVES_EVERY = 60  # posts: one run of saves in 12 s
SAVES = 50
_PATIENCE = aiohttp.ClientTimeout(total=10)
KEEPS_UP, IS_STUCK = "emails", "search-index"
STUCK_AT = b"deal-3"  # the deal that the sample traffic saves 50 times in a row
# Nothing is lost when the demo ends, so it does not wait for the handler that never returns.
_OPTIONS = ConsumerOptions(drain_s=0.0, auto_offset_reset="earliest")


class Post(NamedTuple):
    """One request: a single event, or a list as a batch."""

    producer: str
    topic: str
    body: Any


async def post_until_cancelled(gateway_url: str, source: random.Random) -> None:
    """Post at POSTS_PER_S. A refused or unreachable request is skipped: the demo goes on."""
    async with aiohttp.ClientSession(gateway_url, timeout=_PATIENCE) as client:
        for post in posts(source):
            path = f"/v1/topics/{post.topic}/events"
            headers = {"Headgate-Producer": post.producer}
            with suppress(aiohttp.ClientError, TimeoutError):
                async with client.post(path, json=post.body, headers=headers) as answer:
                    await answer.read()
            await asyncio.sleep(1 / POSTS_PER_S)


def posts(source: random.Random) -> Iterator[Post]:
    """Yield requests without end: each producer in turn."""
    for turn, make in enumerate(cycle(_MAKERS)):
        yield make(source, turn)


def _order(source: random.Random, turn: int) -> Post:
    lines = [
        {"sku": f"sku-{source.randrange(500)}", "quantity": source.randint(1, 4)}
        for _ in range(source.randint(1, 5))
    ]
    return Post("checkout", "orders", {"order_id": 100_000 + turn, "lines": lines})


def _deal(source: random.Random, turn: int) -> Post:
    if turn % SAVES_EVERY == 1:
        return _saves(turn)
    # Saved far more often than changed: the price moves every hundredth turn.
    deal = source.randrange(8)
    body = {"id": f"deal-{deal}", "title": f"City break {deal}", "price": 199 + turn // 100}
    return Post("deal-admin", "deals", body)


def _saves(turn: int) -> Post:
    # Incident A in small: one deal saved after each of its options is switched off or on again.
    # Each save differs from the one before, so comparing contents does not help.
    states = [f"{turn}-{option}" for option in range(SAVES)]
    deal = {"id": "deal-3", "title": "City break 3", "price": 199}
    return Post("deal-admin", "deals", [{**deal, "switched": state} for state in states])


def _save(source: random.Random, turn: int) -> Post:
    # A save before the change is complete: an option goes off and on again.
    body = {"id": "deal-1", "title": "City break 1", "options": {"7": turn // 5 % 2 == 0}}
    return Post("deal-admin", "deals-coalesced", body)


def _clicks(source: random.Random, turn: int) -> Post:
    pages = ("/", "/deals", "/checkout", "/account")
    batch = [
        {"page": source.choice(pages), "visitor": source.randrange(10_000), "turn": turn}
        for _ in range(source.randint(2, 10))
    ]
    return Post("web", "clicks", batch)


def _document(source: random.Random, turn: int) -> Post:
    text = "Lorem ipsum dolor sit amet. " * source.randint(10, 400)
    return Post("archive", "documents", {"id": f"document-{turn % 50}", "text": text})


_MAKERS = (_order, _deal, _clicks, _deal, _document, _save)


async def consume_until_cancelled(bootstrap: str, redis_url: str) -> None:
    """Run both groups on the ingest tier, with pauses: one keeps up, and one is stuck."""
    pauses = RedisPauses(redis_url)
    try:
        async with asyncio.TaskGroup() as groups:
            groups.create_task(_consume("orders", KEEPS_UP, bootstrap, pauses))
            groups.create_task(_consume("deals", IS_STUCK, bootstrap, pauses))
    finally:
        await pauses.close()


async def _consume(topic: str, group: str, bootstrap: str, pauses: RedisPauses) -> None:
    options = replace(_OPTIONS, client_id=f"{group}-1")
    consumer = Consumer(topic, group=group, bootstrap=bootstrap, options=options, pauses=pauses)
    with suppress(ExceptionGroup):  # it cannot go on; the sample traffic does
        async with consumer:
            await consumer.run(_handle)


async def _handle(event: Received) -> None:
    """Handle an event; for one document, wait forever as for a service without a timeout."""
    if event.key == STUCK_AT:
        await asyncio.get_running_loop().create_future()
