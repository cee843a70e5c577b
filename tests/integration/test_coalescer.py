"""The coalescer on real Kafka and Redis, one process of it or two."""

from __future__ import annotations

from coalescer_world import Counts, HeldWorld
from stack import RunningBroker, RunningRedis, eventually


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
