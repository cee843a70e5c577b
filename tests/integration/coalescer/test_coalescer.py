"""The coalescer on real Kafka and Redis, one process of it or two."""

from __future__ import annotations

from support.gateway.coalescer_world import Counts, HeldWorld
from support.process.stack import RunningBroker, RunningRedis, eventually


async def test_a_burst_of_a_key_becomes_one_record_with_its_last_state(
    kafka: RunningBroker, redis_server: RunningRedis, topic_name: str
) -> None:
    world, counts = HeldWorld(kafka, redis_server.url, topic_name), Counts()
    for number in range(20):
        world.write("a", str(number))
    last = world.write("a", "end")
    world.write("b", "one")
    async with world.coalescing(counts):
        await eventually(lambda: counts.outcomes["published"] == 2, 30)
    assert counts.outcomes == {"published": 2, "superseded": 20}
    assert (world.values("a"), world.values("b")) == (["end"], ["one"])
    record = next(one for one in world.log() if one.key == b"a")
    names = [name for name, _ in record.headers]
    assert names == ["content-type", "hg-event-id", "hg-producer", "hg-received-at"]
    assert record.header("hg-event-id") == last.encode()
    assert not counts.lives


async def test_a_backlog_of_more_keys_than_are_held_is_published_once_each(
    kafka: RunningBroker, redis_server: RunningRedis, topic_name: str
) -> None:
    world = HeldWorld(kafka, redis_server.url, topic_name, coalesce_max_keys=100)
    counts, keys = Counts(), [f"key-{number}" for number in range(3000)]
    for value in ("old", "new"):
        for key in keys:
            world.write(key, value, flush=False)
    world.write("last", "new")
    limit = 0

    async with world.coalescing(counts) as coalescing:

        def is_done() -> bool:
            nonlocal limit
            held = coalescing.figures().get(topic_name)
            limit = max(limit, 0 if held is None else held.keys)
            return counts.outcomes.total() == 2 * len(keys) + 1

        await eventually(is_done, 60, 0.01)
    last = {(one.key or b"").decode(): one.value for one in world.log()}
    assert last == dict.fromkeys([*keys, "last"], b"new")
    # What was read at once, 100 records at most, goes over the bound; in each of two partitions.
    assert 0 < limit <= 2 * (100 + 100)
    assert not counts.lives
