"""Random histories of two processes, faults included: `unchanged` is never a lie.

No event is refused for Redis' sake while Redis answers.
S1 of the model: when an event with content X is answered `unchanged`, X was the content of the
last record of the key at some moment between the event's arrival and its answer.
The steps and their guards are the model's; what runs is the real `Reservations` on the real rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Stage
from support.doubles.suppression_rules import KeyEntry
from support.gateway.suppression_world import LIFE_MS, QUARANTINE_MS, Process, World, make_publish
from support.scale import scaled

STEP_MS = QUARANTINE_MS / 8
FAULT_RATE, QUIET_RATE, HISTORIES, STEPS = 0.008, 0.01, 400, 1000
# Where single rules of `suppression/rules.py` were taken out, these showed it first, here or
# in `test_suppression_changes_simulation`; the other rules taken out are seen in the first 60.
TELLING = {67, 68, 73, 91, 97, 115, 137, 154, 161, 162, 207}
ORDINARY = ("arrive", "execute", "reply", "hand_over", "append", "acknowledge")


class Ghost(NamedTuple):
    """A request of a dead process, or one given up, that may still land."""

    publish: Publish
    until: float


class Member(Process):
    """A process whose lane hands over one record at a time."""

    def __init__(self, world: World) -> None:
        self.handed: Publish | None = None
        self.offset = -1  # of the one handed over, once it is in the log
        self.connected = True
        self.cut_at = 0.0
        self.open: dict[int, tuple[Publish, set[str]]] = {}
        super().__init__(world)

    def unchanged(self, publish: Publish, offset: int) -> None:
        for one in (publish, *(publish.followers or ())):
            _, seen = self.open[id(one)]
            content = (one.record.value or b"").decode()
            assert content in seen, f"{content} unchanged, the log is {self.world.text}"
        super().unchanged(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        assert not self.connected, f"refused although Redis answers: {failure.detail}"
        super().refused(publish, failure)

    def _end(self, publish: Publish, outcome: str) -> None:
        for one in (publish, *(publish.followers or ())):
            self.open.pop(id(one), None)
        super()._end(publish, outcome)


class Simulation:
    """One history. faults: the names of the steps that may happen beside the ordinary ones."""

    def __init__(self, seed: int, faults: tuple[str, ...], redis_loss: str) -> None:
        self.random = random.Random(seed)
        self.world = World(redis_loss=redis_loss)
        self.members = [Member(self.world), Member(self.world)]
        self.ghosts: list[Ghost] = []
        self.snapshot = dict(self.world.values)
        self.trace: list[str] = []
        self.faults = faults
        # Memory has to be full and free again while a record is under way.
        self.fault_rate = FAULT_RATE * 8 if "fill" in faults[:1] else FAULT_RATE
        self.busy: tuple[int, ...] = (0, 1)  # whose turns come now
        self.crowd = self.random.choice((1, 1, 2, 4))

    def run(self, count: int) -> None:
        for _ in range(count):
            if self.random.random() < 0.02:
                self.busy = self.random.choice(((0,), (1,), (0, 1)))
            name, number = self._choose(), self.random.choice(self.busy)
            step: Callable[[Member], bool] = getattr(self, name)
            if step(self.members[number]):
                self.trace.append(f"{name} g{number}: {self.world.text[-4:]}")

    def _choose(self) -> str:
        chance = self.random.random()
        if self.faults and chance < self.fault_rate:
            return self.random.choice(self.faults)
        if chance > 1 - QUIET_RATE:
            return self.random.choice(("quarantine_passes", "life_passes"))
        return self.random.choice(ORDINARY)

    # ---- ordinary steps; each tells whether it could be taken

    def arrive(self, member: Member) -> bool:
        if len(member.open) >= self.crowd:
            return False
        last = set(self.world.text[-1:])
        content = self.random.choice("AAAAABBC")
        publish = _prepare(self.world, content)
        member.open[id(publish)] = (publish, last)
        member.reservations.reserve(publish)
        return True

    def execute(self, member: Member) -> bool:
        return member.connected and member._on_its_way is None and member.execute()

    def reply(self, member: Member) -> bool:
        if member._on_its_way is None:
            return False
        member.reply()
        return True

    def hand_over(self, member: Member) -> bool:
        if member.handed is not None or not member.lane:
            return False
        member.handed = member.lane[0]
        member.hand_over(member.handed)
        return True

    def append(self, member: Member) -> bool:
        if member.handed is None or member.offset >= 0:
            return False
        member.offset = self._land(member.handed)
        return True

    def acknowledge(self, member: Member) -> bool:
        if member.offset < 0 or member.handed is None:
            return False
        publish, offset = member.handed, member.offset
        member.handed, member.offset = None, -1
        member.acknowledge(publish, offset)
        return True

    def later(self, member: Member) -> bool:
        """Time passes only as far as the guards of the protocol allow."""
        for one in self.members:
            # Q is longer than any process takes to reconnect.
            if not one.connected and self.world.now - one.cut_at > QUARANTINE_MS / 4:
                self.reconnect(one)
        self.world.later(STEP_MS)
        for ghost in [one for one in self.ghosts if one.until <= self.world.now]:
            self.ghosts.remove(ghost)
            if self.random.random() < 0.5:
                self._land(ghost.publish)
        for one in self.members:
            if not one.connected:
                one.reservations.tick(one.seconds)
                continue
            if one._on_its_way is not None:
                self.reply(one)  # a reply takes no longer than the timeout
            if one.reservations.tick(one.seconds) and one.execute():
                self.reply(one)
        return True

    def quarantine_passes(self, member: Member) -> bool:
        return all(self.later(member) for _ in range(9))

    def life_passes(self, member: Member) -> bool:
        return all(self.later(member) for _ in range(int(LIFE_MS / STEP_MS) + 1))

    # ---- faults

    def refuse(self, member: Member) -> bool:
        if member.handed is None or member.offset >= 0:
            return False
        publish, member.handed = member.handed, None
        member.fail(publish, certain=True)
        return True

    def give_up(self, member: Member) -> bool:
        """The lane gives up: unknown. It may have landed, land later, or never."""
        if member.handed is None:
            return False
        publish, landed = member.handed, member.offset >= 0
        member.handed, member.offset = None, -1
        if not landed:
            self._haunt(publish)
        member.fail(publish, certain=False)
        return True

    def no_offset(self, member: Member) -> bool:
        if member.offset < 0 or member.handed is None:
            return False
        publish, member.handed, member.offset = member.handed, None, -1
        member.acknowledge(publish, -1)
        return True

    def deadline(self, member: Member) -> bool:
        """A client's deadline passes before the hand-over."""
        free = [
            publish
            for publish, _ in member.open.values()
            if publish.stage < Stage.HANDED and not publish.followers and publish.leader is None
        ]
        if not free or self.random.random() < 0.5:
            return False
        publish = self.random.choice(free)
        publish.dropped = True
        del member.open[id(publish)]
        if publish.stage is Stage.LANE:
            member.lane.remove(publish)
            member.reservations.ended(publish, True, member.seconds)
        return True

    def die(self, member: Member) -> bool:
        if member.handed is not None and member.offset < 0:
            self._haunt(member.handed)
        self.members[self.members.index(member)] = Member(self.world)
        return True

    def cut(self, member: Member) -> bool:
        if not member.connected:
            return False
        member.connected, member.cut_at = False, self.world.now
        member.cut()
        return True

    def reconnect(self, member: Member) -> bool:
        if member.connected:
            return False
        member.connected = True
        member.reconnect(exchange=self.random.random() < 0.5)
        return True

    def restart_empty(self, member: Member) -> bool:
        return self._restart({})

    def restart_old(self, member: Member) -> bool:
        return self._restart(self.snapshot)

    def take_snapshot(self, member: Member) -> bool:
        self.snapshot = dict(self.world.values)
        return True

    def flush(self, member: Member) -> bool:
        self.world.values.clear()
        return True

    def fill(self, member: Member) -> bool:
        """Memory is full from now on, or no longer."""
        self.world.is_full = not self.world.is_full
        return True

    def expire(self, member: Member) -> bool:
        """What is known of the key has grown old: an entry without tokens goes."""
        name = self.world.scope.entry(b"k")
        held = self.world.values.get(name)
        if held is None or len(held.value) > len(KeyEntry(None, b"").pack(bytes(16))):
            return False
        del self.world.values[name]
        return True

    # ---- helpers of the steps

    def _restart(self, values: dict) -> bool:  # type: ignore[type-arg]
        self.world.redis_process += 1
        self.world.values = dict(values)
        for one in self.members:
            self.cut(one)
        return True

    def _haunt(self, publish: Publish) -> None:
        # What is on the wire lands or dies well within life and quarantine.
        self.ghosts.append(Ghost(publish, self.world.now + QUARANTINE_MS / 4))

    def _land(self, publish: Publish) -> int:
        content = (publish.record.value or b"").decode()
        self.world.log.append(content)
        for member in self.members:
            for _, seen in member.open.values():
                seen.add(content)
        return len(self.world.log) - 1


def _prepare(world: World, content: str) -> Publish:
    publish = make_publish(content, world.scope)
    publish.reserved.refuse = world.refuse
    return publish


KAFKA = ("refuse", "give_up", "no_offset", "deadline", "die")
REDIS = ("cut", "reconnect", "restart_empty", "restart_old", "take_snapshot", "flush")
KINDS = {
    "none": (),
    "kafka": KAFKA,
    "processes": ("die", "die", "give_up"),
    "redis": REDIS,
    "full": ("fill", "fill", "fill", "expire", "expire"),
    "all": (*KAFKA, *REDIS, "fill", "expire"),
}


@pytest.mark.parametrize("histories", scaled({*range(25), *TELLING}, {*range(HISTORIES)}))
@pytest.mark.parametrize("kind", KINDS)
def test_unchanged_is_never_a_lie(kind: str, histories: set[int]) -> None:
    unchanged = 0
    for seed in sorted(histories):
        simulation = Simulation(seed, KINDS[kind], "refuse")
        try:
            simulation.run(STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n" + "\n".join(simulation.trace[-60:])) from error
        unchanged += sum(
            outcome.startswith("unchanged")
            for member in simulation.members
            for outcome in member.outcomes.values()
        )
    assert unchanged > len(histories) / 4  # else nothing was tested
