"""What one call may do is bounded, and how long an event waits for Redis."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from headgate.model.publish import Publish, Stage
from headgate.suppression.in_flight import Waits
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import SuppressionCall
from support.doubles.suppression_rules import MAX_TOKENS
from support.gateway.suppression_world import LOST, Process, World, contents, figures, make_publish
from support.scale import scaled

LETTERS = {b"r": 31, b"p": 15, b"g": 13, b"s": 41, b"k": 41, b"x": 13, b"c": 1}
OPTIONS = SuppressOptions()
# One entry may bring a few more than there is room for (`calls._MAX_BYTES`).
MOST = OPTIONS.max_operations_per_call + 40


def operations_of(call: SuppressionCall) -> int:
    """Count them as the script reads them."""
    count = 0
    for operations in call.operations:
        at = 1
        while at < len(operations):
            at += LETTERS[operations[at : at + 1]]
            count += 1
        assert at == len(operations)
    return count


class Counted(Process):
    """Counts the operations of each call."""

    def __init__(self, world: World) -> None:
        self.calls: list[int] = []
        super().__init__(world)

    def execute(self) -> bool:
        if not super().execute():
            return False
        assert self._on_its_way is not None
        self.calls.append(operations_of(self._on_its_way[1]))
        return True


def arrive(process: Process, count: int, key: str) -> list[Publish]:
    return [process.arrive(f"content {number}", key=key) for number in range(count)]


@pytest.mark.parametrize("end", ["acknowledged", "unknown", "refused", "redis dies"])
def test_a_busy_key_does_not_make_a_call_long(end: str) -> None:
    world = World()
    process = Counted(world)
    publishes = arrive(process, 9_000, "busy")
    process.exchange()
    assert list(process.lane) == publishes  # all in their order
    process.hand_over(*publishes)
    if end == "redis dies":
        world.restart_redis()
        process.cut()
        process.reconnect(exchange=False)
    for offset, publish in enumerate(publishes):
        if end == "acknowledged":
            process.acknowledge(publish, offset)
        elif end != "redis dies":
            process.fail(publish, certain=end == "refused")
    process.exchange()
    assert max(process.calls) <= MOST
    assert sum(process.calls) < 3 * len(publishes) + 100
    entry = world.values[world.scope.entry(b"busy")].value
    assert (len(entry) - 60) / 21 <= MAX_TOKENS + 1
    assert process.bypassed_count >= len(publishes) - MAX_TOKENS  # counted as crowded


def test_many_keys_that_settle_many_times_at_once_are_bounded_too() -> None:
    world = World()
    process = Counted(world)
    waves = [arrive(process, 40, f"key {number}") for number in range(30)]
    process.exchange()
    for publishes in waves:
        process.hand_over(*publishes)
        for offset, publish in enumerate(publishes):
            process.acknowledge(publish, offset)
    for number in range(30):
        process.arrive("another", key=f"key {number}")  # its settlements ride with it
    process.exchange()
    assert max(process.calls) <= MOST


@pytest.mark.parametrize("rounds", scaled(20, 120))
def test_settlements_keep_up_with_reservations_however_many_of_a_key_there_are(rounds: int) -> None:
    """Clients that post the next event when the last is answered; each call carries what it can."""
    world, chance = World(), random.Random(1)
    process = Counted(world)
    offsets: Counter[str] = Counter()
    backlog = []
    for _ in range(rounds):
        while len(process.lane) < 800:
            process.arrive(f"content {chance.random()}", key=f"key {chance.randrange(300)}")
            if len(process.reservations._queue) >= 200:
                assert process.execute()
                process.reply()
        for publish in list(process.lane):
            process.hand_over(publish)
            key = (publish.record.key or b"").decode()
            offsets[key] += 1
            process.acknowledge(publish, offsets[key])
        backlog.append(figures(process.reservations)["unsettled"])
    assert max(process.calls) <= MOST
    assert max(backlog[rounds // 2 :]) <= 2 * max(backlog[: rounds // 2])
    assert process.bypassed_count == 0  # no key is crowded by tokens that nobody took back


def test_what_a_lost_call_carried_is_bounded_again() -> None:
    world = World()
    process = Counted(world)
    publishes = arrive(process, 2_000, "busy")
    process.exchange()
    process.hand_over(*publishes)
    for offset, publish in enumerate(publishes):
        process.acknowledge(publish, offset)
    for _ in range(3):
        assert process.execute()
        process.cut()
        process.reconnect(exchange=False)
    process.exchange()
    assert max(process.calls) <= MOST
    assert figures(process.reservations)["unsettled"] == 0


def test_events_are_overdue_in_the_order_in_which_they_came() -> None:
    waits = Waits(1.0)
    assert waits.overdue(0.0, 3) == 0
    assert waits.overdue(0.5, 5) == 0
    assert waits.overdue(0.9, 5) == 0
    assert waits.overdue(1.0, 5) == 3
    waits.passed += 3
    assert waits.overdue(1.4, 2) == 0
    waits.passed += 1  # one had its answer
    assert waits.overdue(1.5, 1) == 1
    waits.passed += 1
    assert waits.overdue(9.0, 0) == 0
    assert waits.overdue(9.1, 1) == 0


def slow_world(redis_loss: str = "publish") -> tuple[World, Process]:
    world = World(redis_loss=redis_loss)
    options = SuppressOptions(timeout_ms=100, max_keys_per_call=2, max_operations_per_call=2)
    return world, Process(world, options)


def test_nobody_waits_for_a_slow_redis_and_no_event_overtakes_its_key() -> None:
    world, process = slow_world()
    first = [process.arrive(content) for content in "BC"]
    assert process.execute()  # carries two; the answer does not come
    process.reservations.give_up(process.seconds)
    world.later(60)
    second = [process.arrive(content) for content in "DE"]
    process.reservations.give_up(process.seconds)
    world.later(40)
    assert process.reservations.give_up(process.seconds) == 2
    assert process.lane == first
    assert all(publish.reserved.unreserved for publish in first)
    world.later(60)
    assert process.reservations.give_up(process.seconds) == 2
    assert process.lane == [*first, *second]
    process.reply()  # at last: they went on without it
    assert process.lane == [*first, *second]
    for publish in (*first, *second):
        process.acknowledge(publish, process.append(publish))
    process.exchange()
    assert world.text == "ABCDE"
    assert world.g1.publish_all("C") == "published"
    assert world.g1.publish_all("C") == "unchanged@5"
    assert process.bypassed_count == 4


def test_where_redis_must_be_asked_a_slow_one_is_a_refusal() -> None:
    world, process = slow_world("refuse")
    late = process.arrive("B")
    assert process.execute()
    process.reservations.give_up(process.seconds)
    world.later(100)
    assert process.reservations.give_up(process.seconds) == 1  # so that health says `slow`
    assert process.outcome(late) == "refused"
    process.reply()
    process.exchange()
    assert world.g1.publish_all("A") == "unchanged@0"  # its token is taken back
    assert process.lane == []


def test_an_event_whose_deadline_passed_is_not_published_when_it_is_given_up() -> None:
    world, process = slow_world()
    late = process.arrive("B")
    assert process.execute()
    process.reservations.give_up(process.seconds)
    late.dropped = True
    world.later(100)
    assert process.reservations.give_up(process.seconds) == 0
    process.reply()
    process.exchange()
    assert process.lane == []
    assert world.g1.publish_all("A") == "unchanged@0"


def test_a_failure_while_events_go_past_redis_does_not_hold_up_the_next_ones() -> None:
    class Broken(Process):
        is_broken = False

        def publish(self, publish: Publish) -> None:
            if self.is_broken:
                raise RuntimeError("a bug")
            super().publish(publish)

    world = World()
    process = Broken(world)
    process.arrive("B")
    process.is_broken = True
    with pytest.raises(RuntimeError):
        process.reservations.lost(LOST)
    process.is_broken = False
    later = process.arrive("C")  # while Redis is away the answer comes at once
    assert later.stage is Stage.LANE


def test_what_passes_is_counted_until_it_ends() -> None:
    world = World()
    scope, reservations = world.scope, world.g0.reservations
    publishes = [make_publish(content, scope) for content in "BCD"]
    for publish in publishes:
        publish.digest = None
    assert not reservations.let_pass(scope, 3, world.g0.seconds)  # not announced yet
    world.g0.exchange()
    assert reservations.let_pass(scope, 3, world.g0.seconds)
    assert scope.unreserved.count == 3
    reservations.acknowledged(publishes[:1], 1, world.g0.seconds)
    reservations.ended(publishes[1], True, world.g0.seconds)
    reservations.ended(publishes[2], False, world.g0.seconds)
    for publish in publishes[:2]:  # whoever reports an end twice changes nothing
        reservations.ended(publish, True, world.g0.seconds)
    assert scope.unreserved.count == 0
    assert figures(reservations)["under_way"] == 1  # the unknown one has a token now


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("refuse", [False, True])
def test_what_waits_for_redis_goes_before_what_passes(is_sent: bool, refuse: bool) -> None:
    world = World()
    process, scope = world.g0, world.scope
    world.g0.arrive("0", key="other")
    process.exchange()
    process.lane.clear()
    assert not process.reservations.let_pass(scope, 1, process.seconds)
    process.execute()  # announces it
    waiting = [make_publish(content, scope) for content in "123"]
    for publish in waiting:
        publish.reserved.refuse = refuse
        process.reservations.reserve(publish)
    process.reply()
    if is_sent:
        process.execute()
    assert not process.lane
    assert process.reservations.let_pass(scope, 1, process.seconds)
    assert contents(process.lane) == "123"
    if is_sent:
        process.reply()
    process.exchange()
    assert contents(process.lane) == "123"
    assert process.reservations.is_settled()
    assert process.reservations.waiting() == 0
    process.arrive("4", key="other")
    process.exchange()
    assert contents(process.lane) == "1234"


def test_what_passed_is_announced_again_whoever_looked_before_it_came() -> None:
    world = World()
    process, scope = world.g0, world.scope
    assert not process.reservations.let_pass(scope, 1, process.seconds)
    process.exchange()
    process.reservations.tick(process.seconds)  # nothing has passed yet
    assert process.reservations.let_pass(scope, 1, process.seconds)
    until_s = scope.announced_until_s
    world.now = until_s * 1000 - 1
    process.reservations.tick(process.seconds)  # it is under way still
    process.exchange()
    assert scope.announced_until_s > until_s


def test_what_fails_while_verdicts_are_told_leaves_no_event_waiting_for_ever() -> None:
    class Breaks(Process):
        breaks_at = -1

        def publish(self, publish: Publish) -> None:
            if len(self.lane) == self.breaks_at:
                self.breaks_at = -1
                raise RuntimeError("a bug")
            super().publish(publish)

    world = World()
    process = Breaks(world)
    publishes = [process.arrive(content, key=f"key {content}") for content in "BCDE"]
    assert process.execute()
    process.breaks_at = 2
    with pytest.raises(RuntimeError):
        process.reply()
    process.reservations.lost(LOST)  # as the suppressor does then
    assert [one.stage for one in publishes] == [Stage.LANE] * 4
    assert process.lane == publishes
