"""Random histories of owners on `coalescer_sim`; and what each of its rules is for.

Every rule of docs/design/coalescing-protocol.md is switched off once: the same histories must then
show a violation, so that they can.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from headgate.coalescer.coalescer import rules_of
from headgate.coalescer.decisions import CoalescingRules, LogError, Read
from headgate.coalescer.partition import KafkaHeldPartition, PartitionSession, Unsettled
from headgate.coalescer.windows import DoneMark, HeldEvent, Window, Windows
from support.scale import scaled
from support.scenarios.coalescer_sim import CRAMPED, OPEN, POLICY, RULES, Process, World

HISTORIES, STEPS = 400, 160
SIZES = scaled(20, HISTORIES)
SEARCHED = 20 * HISTORIES  # for one that shows what a rule is for
BACKLOG_SEED, BLIND_SEED = 187, 101  # the first that do, see RULES_OUT
FAULTS = ("crash", "zombie", "timeout", "lose_request", "lose_answer", "lose_by_fence", "flush",
          "expire", "cut", "recreate_held")  # fmt: skip
CLOCKS = (("clock_back",), ("clock_back", "crash", "cut"))


class History:
    """One random history; `trace` tells it."""

    def __init__(
        self,
        seed: int,
        faults: Sequence[str],
        session: type[PartitionSession] = PartitionSession,
        *,
        forgets_unreserved: bool = False,
        rules: Sequence[CoalescingRules] = (RULES,),
        **world: bool,
    ) -> None:
        self.random = random.Random(seed)
        self.world = World(**world)
        self.session, self.rules = session, rules
        self.faults = faults
        self.forgets_unreserved = forgets_unreserved
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.left = self.random.randint(2, 5)
        self.budget = self.random.randint(1, 3)
        self.contents = ["A"]
        self._warm()
        self._assign()

    def run(self) -> list[str]:
        """Return what broke."""
        for _ in range(STEPS):
            self._step()
            if self.world.violations:
                break
        else:
            self._quiesce()
        for process in self.processes:
            process.die()
        return self.world.violations

    def _warm(self) -> None:
        """O ends in A, and Redis knows it."""
        process = self._process()
        self.world.hold("a", "A")
        for _ in range(60):
            process.resume()
            self.world.now += 20
            self.world.write_markers()
        assert [one.content for one in self.world.visible()] == [b"A"], self.world.visible()
        process.die()

    def _process(self) -> Process:
        kind = type(
            "Sim", (Process,), {"life_type": self.session, "rules": self.random.choice(self.rules)}
        )
        process: Process = kind(self.world, len(self.processes))
        process.forgets_unreserved = self.forgets_unreserved
        return process

    def _assign(self) -> None:
        self.processes.append(self._process())
        self.trace.append(f"assigned to P{len(self.processes) - 1}")

    def _step(self) -> None:
        chance = self.random.random()
        if chance < 0.06 and self.left:
            self._hold()
        elif chance < 0.09 and self.budget and self.faults:
            self._fault()
        elif chance < 0.16:
            self.world.write_markers()
        elif chance < 0.25:
            self.world.now += self.random.choice((5, 20, 50))
        elif chance < 0.27:
            self._learn()
        elif chance < 0.28 and self.world.wire:
            self._arrive()
        else:
            self._resume(self.random.choice(self.processes))

    def _resume(self, process: Process) -> None:
        if not process.is_dead:
            process.resume()
            log = "".join((one.content or b"-").decode() for one in self.world.visible())
            self.trace.append(f"P{process.number} {process.label}: O={log}")

    def _hold(self) -> None:
        self.left -= 1
        key = self.random.choice("aaab")
        content = self.random.choice(("A", "B", "A", "C", None))
        force = self.random.random() < 0.15
        self.world.hold(key, content, force=force)
        self.trace.append(f"held {key}={content}{'!' if force else ''}")

    def _learn(self) -> None:
        """A zombie hears from the group, or the owner of another H."""
        for process in self.processes:
            process.look()
        for process in self.processes[:-1]:
            process.knows = False

    def _arrive(self) -> None:
        transaction = self.world.wire.pop()
        if self.world.may_write(transaction.epoch):
            self.world.decide(transaction)

    # ---- faults

    def _fault(self) -> None:
        self.budget -= 1
        name = self.random.choice(list(self.faults))
        self.trace.append(name.upper())
        fault: Callable[[Process], None] = getattr(self, f"_{name}")
        fault(self.processes[-1])

    def _crash(self, owner: Process) -> None:
        owner.die()
        self._assign()

    def _zombie(self, owner: Process) -> None:
        self._assign()

    def _timeout(self, owner: Process) -> None:
        for one in self.world.transactions:
            if one.state == OPEN:
                self.world.abort(one)
                self.world.epoch += 1

    def _lose_request(self, owner: Process) -> None:
        owner.lose = "request"

    def _lose_answer(self, owner: Process) -> None:
        owner.lose = "answer"

    def _lose_by_fence(self, owner: Process) -> None:
        owner.lose = "fenced"

    def _flush(self, owner: Process) -> None:
        self.world.cells.clear()

    def _expire(self, owner: Process) -> None:
        for cell in self.world.cells.values():
            cell.tokens = dict.fromkeys(cell.tokens, True)

    def _recreate_held(self, owner: Process) -> None:
        self.world.recreate_held()
        self.left += self.random.randint(2, 6)  # else there is little to be lost

    def _cut(self, owner: Process) -> None:
        if self.world.redis_up:
            self.world.redis_up = False
            return
        self._heal()

    def _clock_back(self, owner: Process) -> None:
        """That of all, by far more than any window is open."""
        self.world.now -= 100_000

    def _heal(self) -> None:
        self.world.redis_up = True
        for process in self.processes:
            if not process.is_dead:
                process.tell_redis()

    def _quiesce(self) -> None:
        """No more faults: what is to be done gets done."""
        self._heal()
        self._learn()
        self.world.wire.clear()
        for one in self.world.transactions:
            if one.state == OPEN and one.epoch != self.world.epoch:
                self.world.abort(one)
        for _ in range(300):
            self.world.now += 20
            self.world.write_markers()
            for process in self.processes:
                self._resume(process)
            if self.world.violations:
                return
        self.world.check_end()


def seeds(histories: int) -> Iterable[int]:
    """So many, and those that showed what a rule is for: of a few, these are the ones to take."""
    return sorted({*range(histories), *(row[-1] for row in RULES_OUT), BACKLOG_SEED, BLIND_SEED})


@pytest.mark.parametrize("histories", SIZES)
@pytest.mark.parametrize("faults", [(), *((one,) for one in FAULTS), FAULTS, *CLOCKS], ids=str)
def test_the_rules_hold(faults: tuple[str, ...], histories: int) -> None:
    for seed in seeds(histories):
        history = History(seed, faults)
        assert history.run() == [], f"seed {seed}\n" + "\n".join(history.trace)


@pytest.mark.parametrize("histories", SIZES)
@pytest.mark.parametrize("faults", [(), ("crash",), ("zombie",), FAULTS], ids=str)
def test_the_rules_hold_where_more_is_held_than_fits(
    faults: tuple[str, ...], histories: int
) -> None:
    """Every backlog is read twice then: once for its done marks."""
    for seed in seeds(histories):
        history = History(seed, faults, rules=(RULES, CRAMPED))
        assert history.run() == [], f"seed {seed}\n" + "\n".join(history.trace)


# ---- the option comes and goes

WITH = replace(POLICY, coalesce_quiet_ms=10, coalesce_max_delay_ms=40)
WITHOUT = POLICY


class Reloading(History):
    """Two gateways with files of their own: each gets and loses coalesce_quiet_ms when it likes,
    and whoever of them owns H goes by its own file.
    """

    def __init__(self, seed: int, faults: Sequence[str], *, by_option: bool = False) -> None:
        self.policies = [WITH, WITH]
        self.by_option = by_option
        super().__init__(seed, faults)
        self.left = self.random.randint(3, 6)

    def _process(self) -> Process:
        policy = self.policies[len(self.processes) % 2]
        process = super()._process()
        process.rules = rules_of(policy)._replace(max_records=1)
        return process

    def _step(self) -> None:
        if self.random.random() < 0.05:
            self._reload()
        super()._step()

    def _reload(self) -> None:
        gateway = self.random.randrange(2)
        self.policies[gateway] = WITHOUT if self.policies[gateway] is WITH else WITH
        self.trace.append(f"G{gateway} reloads: {self.policies[gateway].coalesces}")
        for process in self.processes[-1:]:
            if process.number % 2 == gateway:
                process.rules = rules_of(self.policies[gateway])._replace(max_records=1)
                process.is_leaving = True

    def _resume(self, process: Process) -> None:
        if self.by_option and not self.policies[process.number % 2].coalesces:
            return  # the old rule: its coalescer lets go of H
        super()._resume(process)

    def _hold(self) -> None:
        self.left -= 1
        key, content = self.random.choice("aaab"), self.random.choice(("A", "B", "C", None))
        policy = self.random.choice(self.policies)
        if self.by_option and not policy.coalesces:
            outcome = self.world.publish(key, content)
        else:
            outcome = self.world.post(key, content, policy)
        self.trace.append(f"{outcome} {key}={content}")


@pytest.mark.parametrize("histories", SIZES)
@pytest.mark.parametrize("faults", [(), ("crash",), ("zombie",), ("crash", "cut")], ids=str)
def test_the_option_may_come_and_go(faults: tuple[str, ...], histories: int) -> None:
    for seed in seeds(histories):
        history = Reloading(seed, faults)
        assert history.run() == [], f"seed {seed}\n" + "\n".join(history.trace)


def test_with_the_option_as_the_rule_something_breaks() -> None:
    broken: set[str] = set()
    for seed in range(HISTORIES):
        broken |= {text[0] for text in Reloading(seed, (), by_option=True).run()}
        if broken >= {"1", "2"}:
            break
    assert broken >= {"1", "2"}  # lost where the option stays away, and O goes back


# ---- one rule out at a time


class NoMarks(PartitionSession):
    def _marks(self, emitted: Sequence[Window], low_water: int) -> Sequence[DoneMark]:
        return ()


class EmitsWithoutKnowingMarks(PartitionSession):
    async def _begin_with_marks(self, target: int) -> Windows:
        windows = await super()._begin_with_marks(target)
        windows._marks = {}
        return windows


class CommitsPosition(PartitionSession):
    async def _begin(self) -> Windows:
        windows = await super()._begin()
        windows.low_water = lambda: windows.position  # type: ignore[method-assign]
        return windows


class EmitsWhileCatchingUp(PartitionSession):
    async def _begin(self) -> Windows:
        windows = await super()._begin()
        windows.target = 0
        return windows


class ReadsFirst:
    """The partition with its start in another order: what InitProducerId comes behind."""

    def __init__(self, partition: KafkaHeldPartition, first: str) -> None:
        self._partition, self._first = partition, first
        self._known: object = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._partition, name)

    async def fence(self) -> None:
        self._known = await getattr(self._partition, self._first)()
        await self._partition.fence()

    async def committed(self) -> object:
        return self._known if self._first == "committed" else await self._partition.committed()

    async def end(self) -> object:
        return self._known if self._first == "end" else await self._partition.end()


class ReadsOffsetBeforeFencing(PartitionSession):
    first = "committed"

    async def _begin(self) -> Windows:
        partition = self._log
        self._log = ReadsFirst(partition, self.first)  # type: ignore[assignment]
        windows = await super()._begin()
        self._log = partition
        return windows


class ReadsEndBeforeFencing(ReadsOffsetBeforeFencing):
    first = "end"


class SettlesBeforeCommit(PartitionSession):
    async def _write(self, settlements: Unsettled, low_water: int) -> None:
        await super()._write(settlements, low_water)
        settlements.is_committed = True
        settlements.settle()
        settlements.is_committed = False


class TakesUnknownAsCommitted(PartitionSession):
    async def _commit(self, offset: int, settlements: Unsettled) -> None:
        try:
            await super()._commit(offset, settlements)
        except LogError as error:
            if error.is_refusal or error.label == "fenced":
                raise
            settlements.is_committed = True
            self._committed = offset


class TakesUnknownAsRefused(PartitionSession):
    async def _commit(self, offset: int, settlements: Unsettled) -> None:
        try:
            await super()._commit(offset, settlements)
        except LogError:
            settlements._is_refused = True
            raise


class NeverCommitsAlone(PartitionSession):
    def _owes_offset(self, windows: Windows) -> bool:
        return False


class CommitsUnderTheIdOfTheMoment(PartitionSession):
    async def _commit(self, offset: int, settlements: Unsettled) -> None:
        self._topic_id = self._around.topic_id()
        await super()._commit(offset, settlements)


class TakesMarksOfAnotherH(PartitionSession):
    async def _poll(self, wait_ms: int) -> Read:
        return await self._log.read(wait_ms)


class ForcedIsNotSticky(PartitionSession):
    async def _begin(self) -> Windows:
        windows = await super()._begin()
        take = windows._take

        def forgetful(held: HeldEvent, now_ms: int) -> None:
            take(held, now_ms)
            window = windows._windows[held.key]
            window.is_forced = held.is_forced
            window.is_due = False

        windows._take = forgetful  # type: ignore[method-assign]
        return windows


class EmitsTheFirst(PartitionSession):
    """The leading edge taken literally: the first event of the window, not its newest."""

    async def _begin(self) -> Windows:
        windows = await super()._begin()
        take = windows._take

        def first_wins(held: HeldEvent, now_ms: int) -> None:
            known = windows._windows.get(held.key)
            first = known.last if known is not None else held
            take(held, now_ms)
            windows._windows[held.key].last = first

        windows._take = first_wins  # type: ignore[method-assign]
        return windows


# The last column is the first history that shows it: the search begins there, and goes on where
# a change of the code has made other histories of the seeds.
RULES_OUT = [
    ("6: no done marks", NoMarks, {}, ("crash",), "24", 34),
    ("4, 6: emits while catching up", EmitsWhileCatchingUp, {}, ("crash", "zombie"), "24", 17),
    ("4: emits the first event of a window", EmitsTheFirst, {}, ("crash",), "124", 0),
    ("2: end before InitProducerId", ReadsEndBeforeFencing, {}, ("zombie",), "24", 688),
    ("2: offset before InitProducerId", ReadsOffsetBeforeFencing, {}, ("crash", "zombie"), "234",
     36),
    ("1: nobody is fenced", PartitionSession, {"is_fenced": False}, ("zombie",), "1245", 3),
    ("5: emits, then commits the offset", PartitionSession, {"is_atomic": False}, ("crash",), "24",
     1),
    ("5: commits the position", CommitsPosition, {}, ("crash",), "1", 10),
    ("8: settles before the commit", SettlesBeforeCommit, {}, ("crash", "timeout"), "15", 1),
    ("9: unknown is committed", TakesUnknownAsCommitted, {}, ("lose_request",), "15", 2),
    ("9: unknown is refused", TakesUnknownAsRefused, {}, ("lose_answer", "lose_by_fence"), "5", 0),
    ("11: forced is not sticky", ForcedIsNotSticky, {}, (), "6", 17),
    ("14: an old offset of a new H", CommitsUnderTheIdOfTheMoment, {}, ("recreate_held",), "1", 79),
    ("14: marks of another H", TakesMarksOfAnotherH, {}, ("recreate_held", "crash"), "1", 1821),
    ("7: no offset alone", NeverCommitsAlone, {}, ("crash",), "3", 64),
]  # fmt: skip


@pytest.mark.parametrize(
    ("session", "world", "faults", "numbers", "seed"), [row[1:] for row in RULES_OUT],
    ids=[row[0] for row in RULES_OUT],
)  # fmt: skip
def test_without_the_rule_something_breaks(
    session: type[PartitionSession],
    world: dict[str, bool],
    faults: tuple[str, ...],
    numbers: str,
    seed: int,
) -> None:
    for at in range(seed, seed + SEARCHED):
        found = {text[0] for text in History(at, faults, session, **world).run()}
        if found & set(numbers):
            return
    pytest.fail("no history showed what the rule is for")


def test_without_the_marks_of_a_long_backlog_something_breaks() -> None:
    for seed in range(BACKLOG_SEED, BACKLOG_SEED + SEARCHED):
        history = History(seed, ("crash",), EmitsWithoutKnowingMarks, rules=(RULES, CRAMPED))
        if any(text[0] in "24" for text in history.run()):
            return
    pytest.fail("no history showed what the rule is for")


def test_without_the_blind_flag_something_breaks() -> None:
    """Rule 12: published past Redis, and the owner dies before it could tell."""
    for seed in range(BLIND_SEED, BLIND_SEED + SEARCHED):
        history = History(seed, ("cut", "crash"), forgets_unreserved=True)
        if any(text[0] == "5" for text in history.run()):
            return
    pytest.fail("no history showed what the rule is for")
