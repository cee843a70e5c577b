"""Random histories in which the topic is deleted and made again, with any partition count.

The steps of `test_suppression_changes_simulation`, and more. Each process learns of the new topic
at its own moment. What is on its way by then lands in the new topic if that has its partition, or
never, and its process does not know which.

Checked: `unchanged` is never a lie of a process that knows the topic; and once everything has ended
and each partition has a record of each process, a content that repeats is unchanged again. So no
token waits for something that cannot happen any more.
"""

from __future__ import annotations

import pytest

from headgate.model.keys import partition_for
from headgate.model.publish import Publish, Record, Stage
from support.gateway.suppression_world import (
    LIFE_MS,
    QUARANTINE_MS,
    Process,
    World,
    make_publish,
    make_scope,
)
from support.scale import scaled
from unit.suppression.test_suppression_changes_simulation import MAX_PARTITIONS, Changes, Changing
from unit.suppression.test_suppression_simulation import KAFKA, Member

KEY = b"k1"
STEPS = 1000
KINDS = {
    "none": ("later",),
    "recreated": ("recreate", "learn", "learn"),
    "undecided": ("recreate", "give_up_for_long", "land_late", "learn", "learn"),
    "grown": ("recreate", "grow", "give_up_for_long", "land_late", "learn", "learn"),
    "faults": ("recreate", "give_up_for_long", "land_late", "learn", "learn", *KAFKA),
}


class Learning(Changing):
    """A process that knows the topic's id and partition count as it last read them."""

    def unchanged(self, publish: Publish, offset: int) -> None:
        if self.scope.topic_id != self.world.scope.topic_id:
            Process.unchanged(self, publish, offset)  # an exception that remains by design
        else:
            Member.unchanged(self, publish, offset)

    def arriving(self, content: str) -> Publish:
        publish = super().arriving(content)
        publish.record.partition = partition_for(KEY, self.scope.partitions)
        return publish


class Recreations(Changes):
    """A simulation whose topic is made again. world.scope: the topic that there is now."""

    def __init__(self, seed: int, faults: tuple[str, ...]) -> None:
        super().__init__(seed, faults)
        self.topics, self.recreated_at = 1, 0.0
        self.change_rate = self.random.choice((0.005, 0.02))
        self.members = [self._new(self.world, 1, 1) for _ in range(2)]

    def recreate(self, member: Changing) -> bool:
        if any(one.scope.topic_id != self.world.scope.topic_id for one in self.members):
            return False
        self.topics, self.recreated_at = self.topics + 1, self.world.now
        self.partitions = self.random.randint(1, MAX_PARTITIONS)
        self.world.scope = make_scope(self.topics)
        self.world.log.clear()
        self.landed.clear()
        self.moved.clear()
        self.since = dict.fromkeys(self.since, 0)
        for one in self.members:
            if one.offset >= 0:  # it was acknowledged, or nobody hears of it any more
                self.acknowledge(one)
        return True

    def later(self, member: Changing) -> bool:
        # Who can write reads the topics more often than a quarantine takes.
        if self.world.now - self.recreated_at > QUARANTINE_MS / 4:
            for one in self.members:
                self.learn(one)
        return super().later(member)

    def learn(self, member: Changing) -> bool:
        if member.scope.topic_id == self.world.scope.topic_id:
            return super().learn(member)
        old, new = member.scope, make_scope(self.topics)
        new.partitions, new.rule = self.partitions, old.rule
        member.scope = new
        member.reservations.scope_changed(old, new)
        for publish in [one for one in member.lane if self._is_gone(one)]:
            del member.open[id(publish)]
            member.fail(publish, certain=True)
        if member.handed is not None and self._is_gone(member.handed):
            publish, member.handed = member.handed, None
            member.fail(publish, certain=False)
        return True

    def acknowledge(self, member: Changing) -> bool:
        found = super().acknowledge(member)
        self.moved.clear()  # a topic that is made again may have fewer partitions
        return found

    def append(self, member: Changing) -> bool:
        if member.handed is not None and self._is_gone(member.handed):
            return False
        return super().append(member)

    def arrive(self, member: Changing) -> bool:
        # What was placed by a former topic waits for nothing: its process learns.
        if any(self._is_gone(one) for one in member.lane):
            return self.learn(member)
        return super().arrive(member)

    def die(self, member: Changing) -> bool:
        super().die(member)
        place = next(at for at, one in enumerate(self.members) if not isinstance(one, Learning))
        self.members[place] = self._new(self.world, self.partitions, member.rule)
        return True

    def _new(self, world: World, partitions: int, rule: int) -> Learning:
        made = Learning(world, "raw", rule, partitions)
        if world.scope.topic_id != made.scope.topic_id:
            old, new = made.scope, make_scope(self.topics)
            new.partitions, new.rule = partitions, old.rule
            made.scope = new
            made.reservations.scope_changed(old, new)
        return made

    def _is_gone(self, publish: Publish) -> bool:
        return publish.record.partition >= self.partitions

    def _land(self, publish: Publish) -> int:
        return -1 if self._is_gone(publish) else super()._land(publish)

    # ---- the end

    def end(self) -> None:
        """Everything ends, and all processes know the topic."""
        self.faults, self.busy = (), (0, 1)
        for member in self.members:
            self.reconnect(member)
            self.learn(member)
        for _ in range(400):
            for member in self.members:
                for step in (self.execute, self.reply, self.hand_over, self.append):
                    step(member)
                self.acknowledge(member)
        for member in self.members:
            for partition in range(self.partitions):
                other = Publish(Record("deals", partition, b"x", b"", [], 0), 1, None, 0, None)
                member.reservations.acknowledged([other], 0, member.seconds)
        self.life_passes(self.members[0])
        self.life_passes(self.members[0])

    def is_suppressed(self, member: Changing) -> bool:
        """Post a content twice."""
        for _ in range(2):
            publish = member.arriving("A")
            member.open[id(publish)] = (publish, {"A"})
            member.reservations.reserve(publish)
            member.exchange()
            if publish.stage is Stage.LANE:
                member.acknowledge(publish, member.append(publish))
                member.exchange()
        return str(member.outcome(publish)).startswith("unchanged")


@pytest.mark.parametrize("histories", scaled({*range(20)}, {*range(400)}))
@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_that_is_made_again_is_suppressed_again_and_never_wrongly(
    kind: str, histories: set[int]
) -> None:
    for seed in sorted(histories):
        simulation = Recreations(seed, KINDS[kind])
        try:
            simulation.run(STEPS)
            simulation.end()
            for member in simulation.members:
                assert simulation.is_suppressed(member), "nothing of the key is unchanged any more"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n" + "\n".join(simulation.trace[-80:])) from error


def test_the_record_of_a_topic_is_another_ones() -> None:
    """The names of its keys are."""
    first, second = make_scope(1), make_scope(2)
    assert make_publish("A", first).reserved.scope.entry(KEY) != second.entry(KEY)
    assert LIFE_MS > 0
