"""Every pair of policies, before and after a reload, while events of the topic lie on disk.

Whatever the configuration says by then: what lies on disk was answered first, so it reaches the log
first, and so does everything that came behind it.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from headgate.model.outcome import OutcomeName, Reason
from headgate.model.oversize import SplitRule
from headgate.model.publish import Publish, Ticket
from headgate.oversize.choose import MultiRecordPublish
from support.gateway.spool_world import AFTER_S, SpoolWorld
from support.scale import examples

KEYS = 3
LARGE = "x" * 300
MAX_MESSAGE_BYTES = 3000

# What a section may say of a topic that lies, or lay, in the spool. `held`: its held topic exists.
POLICIES: dict[str, dict[str, Any]] = {
    "spool": {"spool": True},
    "spool, suppress": {"spool": True, "suppress": "raw"},
    "plain": {},
    "suppress": {"suppress": "raw"},
    "refuse": {"suppress": "raw", "redis_loss": "refuse"},
    "chunk": {"oversize": ("chunk",)},
    "compress": {"oversize": ("compress", "reject")},
    "notify": {"oversize": ("notify",)},
    "split": {"oversize": ("split",), "split": SplitRule("/items", "/key")},
    "coalesce": {"kind": "state", "coalesce_quiet_ms": 1000},
    "left over": {"held": True, "kind": "state", "oversize": ("chunk",)},
    "another cluster": {"cluster": "other"},
    "keyless": {"keyless": "spread"},
}
WELL = (OutcomeName.PUBLISHED, OutcomeName.SPOOLED, OutcomeName.HELD)
LATER = (Reason.KAFKA_UNAVAILABLE, Reason.UNKNOWN)


class Life:
    """A world and what was posted to it."""

    def __init__(self, world: SpoolWorld, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.sent: list[tuple[int, Ticket]] = []

    def turn_to(self, name: str) -> None:
        """Reload to this policy; Kafka is as it has to be for it."""
        options = dict(POLICIES[name])
        is_held = options.pop("held", False) or "coalesce_quiet_ms" in options
        cluster = options.get("cluster", "main")
        states = self.world.topics.states
        self.world.hold_orders(is_held=is_held)
        for topic in [one for one in states if one.endswith("orders")]:
            states[topic] = states[topic]._replace(
                cluster=cluster, max_message_bytes=MAX_MESSAGE_BYTES
            )
        self.world.reload(spool=options.pop("spool", False), **options)

    def post(self, count: int) -> None:
        for _ in range(count):
            key, kind = self.rng.randrange(KEYS), self.rng.randrange(6)
            value: dict[str, Any] = {"id": key, "n": len(self.sent)}
            if kind == 0:  # too large for one record
                value["items"] = [{"key": f"{key}-{one}", "text": LARGE} for one in range(20)]
            if kind == 1:
                ticket = self.world.post_for_offset("orders", value)
            elif kind == 2:
                ticket = self.world.post("orders", value, **{"headgate-force": b"true"})
            else:
                ticket = self.world.post("orders", value)
            self.sent.append((key, ticket))

    async def go_on(self) -> None:
        """Something happens, or nothing."""
        world = self.world
        choice = self.rng.randrange(6)
        if choice == 0:
            world.publish()
        elif choice == 1:
            await world.writing.write()
        elif choice == 2:
            world.now_s += 1.0
            await world.draining.turn()
        elif choice == 3:
            world.now_s += AFTER_S
            world.spool.sweep()
        elif choice == 4:
            await world.prepared()
        else:
            world.decide()

    async def settle(self) -> None:
        self.world.back()
        for _ in range(3):
            await self.world.prepared()
            await self.world.drain()

    def check(self) -> None:
        places: dict[int, list[int]] = defaultdict(list)
        for place, publish in enumerate(self.world.landed):
            number = self.number_of(publish)
            if publish.record.key == b"%d" % self.sent[number][0]:  # an element has its own
                places[number].append(place)
        assert all(ticket.done for _, ticket in self.sent)
        by_key: dict[int, list[int]] = defaultdict(list)
        for number, (key, ticket) in enumerate(self.sent):
            outcome = ticket.answered()[0]
            if outcome.name in WELL:
                assert places[number], f"{number} was answered {outcome.name}, and is not there"
                by_key[key].append(number)
            elif outcome.name is OutcomeName.REJECTED:
                assert not places[number], f"{number} was answered rejected, and is there"
        for key, numbers in by_key.items():
            spans = [(min(places[one]), max(places[one])) for one in numbers]
            for (_, last), (first, _), number in zip(spans, spans[1:], numbers[1:], strict=False):
                assert last < first, f"key {key}: {number} overtook the one before it: {numbers}"

    def number_of(self, publish: Publish) -> int:
        owner = publish.owner
        if isinstance(owner, MultiRecordPublish):
            publish = owner.parent
        if publish.ticket is not None:
            return next(at for at, (_, ticket) in enumerate(self.sent) if ticket is publish.ticket)
        return int(json.loads(publish.record.value or b"null")["n"])


@pytest.mark.parametrize("after", POLICIES)
@pytest.mark.parametrize("before", POLICIES)
async def test_what_lies_on_disk_comes_first_whatever_the_configuration_says_now(
    tmp_path: Path, before: str, after: str
) -> None:
    for seed in range(examples(8)):
        rng = random.Random(seed)
        world = SpoolWorld(tmp_path / str(seed))
        await world.live()
        life = Life(world, rng)
        life.turn_to("spool")
        world.away()
        life.post(6)
        await world.writing.write()
        if rng.random() < 0.5:
            world.back()
        for name in (before, after):
            life.turn_to(name)
            for _ in range(rng.choice((2, 5))):
                life.post(3)
                await life.go_on()
            if rng.random() < 0.5:
                world.back()
        await life.settle()
        life.post(6)
        await life.settle()
        await world.end()
        try:
            life.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
