"""Random histories in which anything may change: policies, partitions, key rules, and how late a
record lands. `unchanged` is never a lie, and the keys of a topic move once.

The steps of `test_suppression_simulation`, and more. What is one thing to its owner is one log
here, whatever its key and partition: X may be answered `unchanged` only if X was the newest record
of the thing at some moment between the event's arrival and its answer.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from headgate.model.content import Digester
from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Scope
from support.gateway.suppression_world import LIFE_MS, World, figures, make_publish, make_scope
from support.scale import scaled
from unit.suppression.test_suppression_simulation import (
    KAFKA,
    REDIS,
    TELLING,
    Ghost,
    Member,
    Simulation,
)

HISTORIES, STEPS = 200, 1000
CHANGE_RATES = (0.0, 0.0, 0.01, 0.04)
MAX_PARTITIONS = 5
POLICIES = ("raw", "raw", "canonical", "off")
NEVER = float("inf")


class Changing(Member):
    """A process with its own policy, and its own idea of the partition count."""

    scope: Scope

    def __init__(self, world: World, policy: str, rule: int, partitions: int) -> None:
        self.scope = make_scope()
        self.scope.partitions = partitions
        self.policy = policy
        self.set_rule(rule)
        super().__init__(world)
        self.reservations.open(self.scope)

    def set_rule(self, rule: int) -> None:
        self.rule = rule
        self.scope.rule = bytes([rule]) * 8

    def arriving(self, content: str) -> Publish:
        publish = make_publish(content, self.scope, key=f"k{self.rule}")
        reservation = publish.reserved
        reservation.partitions = self.scope.partitions
        reservation.refuse = self.world.refuse
        publish.digest = Digester(self.policy.encode()).digest(content.encode())
        if self.policy == "off":
            reservation.refuse = False
            passes = self.reservations.let_pass(self.scope, 1, self.seconds)
            publish.digest, reservation.force = (None, False) if passes else (b"", True)
        return publish


class Changes(Simulation):
    """A simulation whose topic and configuration change."""

    def __init__(self, seed: int, faults: tuple[str, ...]) -> None:
        super().__init__(seed, faults, "refuse")
        self.partitions = 1
        self.landed: dict[tuple[str, int], int] = defaultdict(int)
        self.landed["k1", 1] = 1  # the world's own
        self.moved: dict[str, int] = defaultdict(int)  # the largest count acknowledged, by key
        self.since: dict[int, int] = {}  # that of its key when an event came
        self.left_at = 0.0
        self.change_rate = self.random.choice(CHANGE_RATES)
        self.members = [Changing(self.world, "raw", 1, 1) for _ in range(2)]

    def _choose(self) -> str:
        # What changes does so more often than machines die.
        if self.random.random() < self.change_rate:
            return self.random.choice(self.faults or ("later",))
        return super()._choose()

    # ---- what changes

    def change_policy(self, member: Changing) -> bool:
        member.policy = self.random.choice(POLICIES)
        member.reservations.open(member.scope)
        if member.policy == "off":
            member.reservations.shut(member.scope)
        return True

    def change_rule(self, member: Changing) -> bool:
        member.set_rule(3 - member.rule)
        member.reservations.rule_changed(member.scope)
        return True

    def grow(self, member: Changing) -> bool:
        if self.partitions == MAX_PARTITIONS:
            return False
        self.partitions += 1
        return True

    def learn(self, member: Changing) -> bool:
        """Its metadata is fresh."""
        if member.scope.partitions == self.partitions:
            return False
        member.scope.partitions = self.partitions
        member.reservations.grew(member.scope)
        return True

    def give_up_for_long(self, member: Changing) -> bool:
        """The end is unknown, and the record may land later than any timeout."""
        if member.handed is None or member.offset >= 0:
            return False
        publish, member.handed = member.handed, None
        self.ghosts.append(Ghost(publish, NEVER))
        member.left = [*getattr(member, "left", []), publish]
        member.fail(publish, certain=False)
        self.left_at = self.world.now
        self.busy = (1 - self.members.index(member),)  # its clients go to the other process
        return True

    def land_late(self, member: Changing) -> bool:
        late = [ghost for ghost in self.ghosts if ghost.until == NEVER]
        if not late or self.world.now < self.left_at + 1.5 * LIFE_MS:
            return False
        self.ghosts.remove(late[0])
        self._land(late[0].publish)
        return True

    # ---- steps that differ

    def arrive(self, member: Changing) -> bool:
        if len(member.open) >= self.crowd:
            return False
        publish = member.arriving(self.random.choice("AAAAABBC"))
        member.open[id(publish)] = (publish, set(self.world.text[-1:]))
        key = (publish.record.key or b"").decode()
        self.since[id(publish)] = self.moved[key]
        if publish.digest is None:
            member.publish(publish)
        else:
            member.reservations.reserve(publish)
        return True

    def hand_over(self, member: Changing) -> bool:
        if not super().hand_over(member):
            return False
        publish = member.handed
        assert publish is not None
        if publish.digest is not None and not publish.reserved.unreserved:
            assert publish.reserved.partitions >= self.since[id(publish)], "a key moved back"
        return True

    def append(self, member: Changing) -> bool:
        if not super().append(member):
            return False
        # The successor's epoch: nothing of the former producer lands in this partition any more.
        assert member.handed is not None
        place = _place(member.handed)
        for publish in [one for one in getattr(member, "left", []) if _place(one) == place]:
            member.left.remove(publish)
            self.ghosts = [ghost for ghost in self.ghosts if ghost.publish is not publish]
        return True

    def acknowledge(self, member: Changing) -> bool:
        publish = member.handed
        if not super().acknowledge(member):
            return False
        assert publish is not None
        if publish.digest is not None and not publish.reserved.unreserved:
            key = (publish.record.key or b"").decode()
            self.moved[key] = max(self.moved[key], publish.reserved.partitions)
        return True

    def die(self, member: Changing) -> bool:
        if member.handed is not None and member.offset < 0:
            self._haunt(member.handed)
        for publish in getattr(member, "left", []):  # on the wire: lands soon, or never
            self.ghosts = [ghost for ghost in self.ghosts if ghost.publish is not publish]
            self._haunt(publish)
        place = self.members.index(member)
        policy = self.random.choice((member.policy, "raw"))  # perhaps with an old file
        self.members[place] = Changing(self.world, policy, member.rule, self.partitions)
        return True

    def _land(self, publish: Publish) -> int:
        super()._land(publish)
        place = _place(publish)
        self.landed[place] += 1
        return self.landed[place] - 1


def _place(publish: Publish) -> tuple[str, int]:
    """Of one key each count has its own partition."""
    return (publish.record.key or b"").decode(), publish.reserved.partitions


KINDS = {
    "policy": ("change_policy",),
    "rule": ("change_rule", "change_policy"),
    "growth": ("grow", "learn"),
    "late": ("give_up_for_long", "life_passes", "land_late"),
    "changes": ("change_policy", "grow", "learn", "change_rule", "die"),
    "all": (
        "change_policy", "change_policy", "grow", "learn", "change_rule", "give_up_for_long",
        "land_late", *KAFKA, *REDIS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("histories", scaled({*range(25), *TELLING}, {*range(HISTORIES)}))
@pytest.mark.parametrize("kind", KINDS)
def test_unchanged_is_never_a_lie_whatever_changes(kind: str, histories: set[int]) -> None:
    unchanged = 0
    for seed in sorted(histories):
        simulation = Changes(seed, KINDS[kind])
        try:
            simulation.run(STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n" + "\n".join(simulation.trace[-80:])) from error
        unchanged += sum(
            outcome.startswith("unchanged")
            for member in simulation.members
            for outcome in member.outcomes.values()
        )
    assert unchanged > len(histories) / 10  # else nothing was tested


def test_the_life_of_a_token_ends_in_this_simulation() -> None:
    """Or the rule for late records would not be tried."""
    simulation = Changes(1, ())
    before = simulation.world.now
    assert simulation.life_passes(simulation.members[0])
    assert simulation.world.now - before > LIFE_MS
    assert figures(simulation.members[0].reservations)["waiting"] == 0
    assert Stage.LANE < Stage.HANDED
