"""Random lives of a spool against what it promised: what was answered, and what the log holds.

Steps: events of few keys come; Redis answers; batches are handed over, acknowledged, given back by
the producer, refused, lost with an unknown end (in the log or not); the time of a request is up;
Kafka goes away and comes back; time passes; the disk takes a commit, refuses it, or leaves it open;
backlogs drain; the topic grows, or is made again with another size, also while events are in lanes
or with the producer; a reload lets it spool, or no
longer, coalesce, or take large events; the process dies, at any point between these, and begins
again.

Checked at the end, when all that is left was published:
- what was answered `published` or `spooled` is in the log, with its event id;
- what was answered `rejected` is not;
- of one key, the first records of the events that were answered well stand in the order of their
  arrival, and so do the last ones: what is repeated is repeated to its end, and the key's last
  record is that of its latest event;
- an event is in the log twice only where an end was unknown, or the process died;
- what was spooled is in the partition that its key has when it lands there;
- nothing is left: no event in flight, no figure of the spool.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headgate.model.outcome import Outcome, OutcomeName
from headgate.model.publish import Ticket
from headgate.spool.backlog import DrainUnit
from support.gateway.spool_world import AFTER_S, AWAY, HELD, UNKNOWN, SpoolWorld
from support.scale import is_full

KEYS = 4
LARGE = "x" * 8000  # more than one record takes
MAX_MESSAGE_BYTES = 4000
POLICIES: tuple[dict[str, Any], ...] = (
    {"spool": True},
    {"spool": True, "suppress": "raw"},
    {"spool": False},
    {"spool": False, "oversize": ("compress", "reject")},
    {"spool": False, "kind": "state", "coalesce_quiet_ms": 1000},
)


class History:
    """What clients sent and were told."""

    def __init__(self, world: SpoolWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.sent: list[tuple[Ticket, list[int]]] = []
        self.of: dict[int, tuple[int, Ticket, int]] = {}  # number: key, ticket, place in it
        self.dead: set[Ticket] = set()
        self.is_held = False
        self.faults = 0  # after which an event may be in the log twice

    def send(self) -> None:
        count = self.rng.choice((1, 1, 1, 2, 5))
        numbers = range(len(self.of), len(self.of) + count)
        values = [{"id": self.rng.randrange(KEYS), "n": number} for number in numbers]
        if self.rng.random() < 0.1:
            values[-1]["text"] = LARGE
        ticket = self.world.post("orders", *values)
        for place, value in enumerate(values):
            self.of[value["n"]] = (value["id"], ticket, place)

    async def reload(self) -> None:
        """Another policy. A topic begins or ends to coalesce when nothing is in a lane: then it can
        only be the spool that comes too late. For the same reason Redis has answered before."""
        world = self.world
        world.decide()
        await world.prepared()
        options = dict(self.rng.choice(POLICIES))
        is_held, was_held = ("coalesce_quiet_ms" in options), self.is_held
        is_busy = any(world.lanes.queues.values()) or any(world.lanes.handed.values())
        if is_held == was_held or not is_busy:
            self.is_held = is_held
            world.hold_orders(is_held=is_held)
            world.reload(**options)

    def expire(self) -> None:
        """The time of the oldest request that is not answered is up."""
        for _, ticket, _ in self.of.values():
            if not ticket.done and ticket not in self.dead:
                self.world.pipeline.expire(ticket)
                return

    def died(self) -> None:
        """Nobody hears of these any more."""
        self.dead |= {ticket for _, ticket, _ in self.of.values()}

    def outcome(self, number: int) -> Outcome | None:
        _, ticket, place = self.of[number]
        return ticket.outcomes[place] if len(ticket.outcomes) > place else None

    def check(self) -> None:
        places: dict[int, list[int]] = {}
        for place, (_, event_id, value) in enumerate(self.world.written()):
            places.setdefault(value["n"], []).append(place)
            known = self.outcome(value["n"])
            if known is not None and known.event_id is not None:
                assert event_id == known.event_id
        well: dict[int, list[int]] = {}
        for number, (key, _, _) in self.of.items():
            outcome, found = self.outcome(number), places.get(number, [])
            if outcome is not None and outcome.name in (
                OutcomeName.PUBLISHED,
                OutcomeName.SPOOLED,
                OutcomeName.HELD,
            ):
                assert found, f"{number} was answered {outcome.name} and is not in the log"
                well.setdefault(key, []).append(number)
            elif outcome is not None and outcome.name is OutcomeName.REJECTED:
                assert not found, f"{number} was answered rejected and is in the log"
            if len(found) > 1:
                assert self.faults, f"{number} is in the log twice for no reason"
        for key, numbers in well.items():
            firsts = [places[number][0] for number in numbers]
            lasts = [places[number][-1] for number in numbers]
            assert firsts == sorted(firsts), f"key {key}: an event overtook an earlier one"
            assert lasts == sorted(lasts), f"key {key}: an event was repeated behind a later one"


async def step(history: History) -> None:
    world, rng = history.world, history.rng
    what = rng.randrange(100)
    lanes = world.lanes
    partition = rng.randrange(world.partitions)
    if what < 30:
        history.send()
    elif what == 30:
        if not any(lanes.queues.values()) and not any(lanes.handed.values()):
            # What is in lanes then, no spool is needed to get out of order.
            world.partitions = rng.choice((1, 2, 3, 4, 5))
            if world.is_up or rng.random() < 0.5:  # else it was made again while Kafka was away
                world.learn()
    elif what < 34:
        await history.reload()
    elif what < 45:
        lanes.hand_over(partition, rng.choice((1, 3, 100)))
        lanes.hand_over(HELD + partition, 100)
    elif what < 55:
        lanes.acknowledge(partition)
        lanes.acknowledge(HELD + partition)
    elif what == 55:
        lanes.put_back(partition)
    elif what == 56:
        lanes.fail(partition, AWAY)
    elif what == 57:
        history.expire()
    elif what < 62:
        history.faults += 1
        batch = lanes.handed.get(partition, [])
        if batch and rng.random() < 0.5:  # it has landed, and nobody heard of it
            world.log[partition].extend(batch)
        lanes.fail(partition, UNKNOWN)
    elif what < 66:
        (world.away if rng.random() < 0.4 else world.back)()
    elif what < 74:
        world.now_s += rng.choice((0.1, AFTER_S))
        world.spool.sweep()
    elif what < 86:
        if rng.random() < 0.1:
            world.disk.fault = rng.choice(("certain", "lost", "written"))
        await world.go("writing", world.writing.write)
    elif what < 98:
        world.now_s += 0.6
        await world.go("draining", world.draining.turn)
    else:
        history.faults += 1
        for number, batch in lanes.handed.items():
            if rng.random() < 0.5:
                world.log[number].extend(batch)
        await world.end()
        history.died()
        history.is_held = False
        await world.live()
        world.limit_orders(MAX_MESSAGE_BYTES)
        world.back()
    if rng.random() < 0.4:
        world.disk.is_slow = not world.disk.is_slow
    if rng.random() < 0.6:
        world.disk.go_on()
        await world.go_on()
    for one in world.backlogs:
        assert one.left >= 0, "read before it was counted"


async def recreate(history: History) -> None:
    """The topics are deleted and created again, whatever is in the lanes."""
    world, rng = history.world, history.rng
    world.recreate(rng.choice((1, 2, 3, 4, 5)))
    if rng.random() < 0.5:
        world.learn()


SEEDS = range(400 if is_full() else 40)


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_was_promised_is_kept(tmp_path: Path, seed: int) -> None:
    await live(tmp_path, random.Random(seed), recreations=0.0)


@pytest.mark.parametrize("seed", SEEDS)
async def test_it_is_kept_though_topics_are_created_again_under_it(
    tmp_path: Path, seed: int
) -> None:
    await live(tmp_path, random.Random(seed), recreations=0.02)


async def live(tmp_path: Path, rng: random.Random, recreations: float) -> None:
    """recreations: for each step, how likely it is."""
    world = SpoolWorld(tmp_path)
    await world.live()
    world.limit_orders(MAX_MESSAGE_BYTES)
    history = History(world, rng)
    for _ in range(rng.choice((60, 200, 400))):
        await step(history)
        if recreations and rng.random() < recreations:
            await recreate(history)
    world.disk.fault = None
    await world.hurry()
    world.disk._retry_at = 0.0
    await world.disk.probe()
    world.back()
    await world.prepared()
    await world.drain()
    assert not any(
        isinstance(one.owner, DrainUnit) for q in world.lanes.queues.values() for one in q
    )
    assert (world.admission.events, world.disk.bytes, world.disk.coming) == (0, 0, 0)
    for one in world.backlogs:
        assert (one.events, one.bytes, one.left, one.oldest_ms) == (0, 0, 0, 0)
        assert (one.counts, one.topic_counts, one.landed) == ({}, {}, {})
    if rng.random() < 0.5:  # nothing must come of another start
        await world.end()
        await world.live()
        await world.drain()
    await world.end()
    history.check()
    assert not world.misplaced
