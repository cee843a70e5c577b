"""What the reservations of one process send, keep, and answer; the faults are played by hand."""

from __future__ import annotations

import asyncio

import pytest

from headgate.model.publish import Stage
from headgate.redis.script import StoreError
from headgate.suppression.options import SuppressOptions
from support.doubles.suppression_rules import KeyEntry, run
from support.gateway.suppression_world import (
    LIFE_MS,
    QUARANTINE_MS,
    Process,
    World,
    contents,
    figures,
)


@pytest.fixture
def world() -> World:
    return World()


def small(world: World, **options: float) -> Process:
    """A process with other bounds."""
    spans = {"token_ttl_ms": LIFE_MS, "quarantine_ms": QUARANTINE_MS}
    return Process(world, SuppressOptions(**{**spans, **options}))  # type: ignore[arg-type]


def test_one_call_takes_all_that_waits_in_order_of_arrival(world: World) -> None:
    for content, key in [("1", "x"), ("2", "k"), ("3", "x"), ("4", "y"), ("5", "k")]:
        world.g0.arrive(content, key=key)
    world.g0.execute()
    world.g0.reply()
    assert contents(world.g0.lane) == "12345"


def test_order_of_a_key_survives_calls_and_the_loss_of_redis(world: World) -> None:
    world.g0.arrive("1")
    world.g0.execute()
    world.g0.arrive("2")
    world.g0.cut()
    world.g0.arrive("3")
    world.g0.reconnect(exchange=False)
    world.g0.arrive("4")
    world.g0.exchange()
    assert contents(world.g0.lane) == "1234"
    assert [publish.reserved.unreserved for publish in world.g0.lane] == [True, True, True, False]


def test_keys_of_a_call_are_bounded(world: World) -> None:
    process = small(world, max_keys_per_call=10)
    for number in range(25):
        process.arrive("A", key=f"key-{number}")
    sizes = []
    while (outgoing := process.reservations.next_call(process.seconds)) is not None:
        call = outgoing.call()
        sizes.append(len(call.entries))
        process._on_its_way = None
        identity = world.redis_process.to_bytes(16, "big")
        reply = run(world.values, call, identity, int(world.now))
        process.reservations.apply_reply(outgoing, call, reply, process.seconds)
    assert sizes == [10, 10, 5]


def test_registrations_come_before_any_claim(world: World) -> None:
    process = small(world, max_keys_per_call=10)
    in_flight = [process.arrive("A", key=f"key-{number}") for number in range(15)]
    process.exchange()
    assert all(publish.stage is Stage.LANE for publish in in_flight)
    process.cut()
    process.reconnect(exchange=False)
    process.arrive("B", key="new")
    first = process.reservations.next_call(process.seconds)
    assert first is not None
    assert (len(first.call().entries), first.reserved) == (10, [])


def test_a_claim_takes_the_settlement_of_its_key_along(world: World) -> None:
    process = small(world, max_keys_per_call=4)
    publishes = [process.arrive("B", key=f"key-{number}") for number in range(8)]
    process.exchange()
    for publish in publishes:
        process.acknowledge(publish, process.append(publish))
    again = process.arrive("B", key="key-7")  # its settlement is the last in the queue
    process.execute()
    process.reply()
    assert process.outcome(again) == "unchanged@8"


def test_settlements_of_a_lost_call_are_sent_again(world: World) -> None:
    publish = world.g0.claim("B")
    world.g0.acknowledge(publish, world.g0.append(publish))
    before = dict(world.values)
    world.g0.execute()
    world.values = before  # as if the call had never come
    world.g0.cut()
    world.g0.reconnect()
    assert world.g1.publish_all("B") == "unchanged@1"


def test_forced_events_are_published_and_join_nobody(world: World) -> None:
    first = world.g0.arrive("A", force=True)
    second = world.g0.arrive("A", force=True)
    world.g0.exchange()
    assert [first.stage, second.stage] == [Stage.LANE, Stage.LANE]
    for publish in (first, second):
        world.g0.acknowledge(publish, world.g0.append(publish))
    world.g0.exchange()
    assert world.g0.publish_all("A") == "unchanged@2"


def test_nobody_joins_a_dropped_event(world: World) -> None:
    first = world.g0.claim("B")
    first.dropped = True
    second = world.g0.claim("B")
    assert second.leader is None
    assert second.stage is Stage.LANE


@pytest.mark.parametrize("content", ["A", "B"])  # unchanged, and not
def test_an_event_dropped_while_redis_was_asked_leaves_nothing_behind(
    world: World, content: str
) -> None:
    first = world.g0.arrive(content)
    world.g0.execute()
    first.dropped = True
    world.g0.reply()
    world.g0.exchange()
    assert world.g0.lane == []
    assert world.g0.outcome(first) is None
    assert world.g1.publish_all("A") == "unchanged@0"
    assert not world.g0.reservations._arrivals.latest


def test_refuse_answers_without_publishing() -> None:
    world = World(redis_loss="refuse")
    waiting = world.g0.arrive("B")
    asked_alone = world.g0.execute()
    world.g0.cut()
    late = world.g0.arrive("B")
    assert asked_alone
    assert [world.g0.outcome(one) for one in (waiting, late)] == ["refused", "refused"]
    assert world.g0.bypassed_count == 0
    world.g0.reconnect()
    assert world.g1.publish_all("A") == "unchanged@0"  # the lost claim's token is gone


@pytest.mark.parametrize("loses", ["reserve", "unchanged"])
def test_a_new_incarnation_of_another_process_refuses_nothing(loses: str) -> None:
    """Redis is healthy: the events ask again, in their order, and no claim leaves a token."""
    world = World(redis_loss="refuse")
    first = world.g0.arrive("A" if loses == "unchanged" else "B")
    second = world.g0.arrive("C")
    world.g1.reservations.drop(world.scope)
    world.g1.exchange()
    world.g0.exchange()
    assert [world.g0.outcome(one) for one in (first, second)] == [None, None]
    assert world.g0.lane == [first, second]
    for publish in (first, second):
        world.g0.acknowledge(publish, world.g0.append(publish))
    world.g0.exchange()
    world.later(QUARANTINE_MS)
    assert world.g1.publish_all("C") == "published"  # nothing from the quarantine is trusted
    assert world.g1.publish_all("C") == "unchanged@3"
    assert world.g0.bypassed_count == 0


def test_events_of_a_key_keep_their_order_where_only_some_may_go_past_redis() -> None:
    """After a reload, say, which changed what the loss of Redis means for the topic."""
    world = World(redis_loss="refuse")
    first = world.g0.arrive("B")
    world.refuse = False
    second = world.g0.arrive("C")
    world.g1.reservations.drop(world.scope)
    world.g1.exchange()
    world.g0.exchange()
    assert world.g0.lane == [first, second]


def test_what_asks_again_is_refused_after_its_time() -> None:
    world = World(redis_loss="refuse")
    publish = world.g0.arrive("B")
    world.g1.reservations.drop(world.scope)
    world.g1.exchange()
    world.g0.reservations.give_up(world.g0.seconds)
    world.g0.execute()
    world.g0.reply()
    world.g0.reservations.give_up(world.g0.seconds)
    assert world.g0.outcome(publish) is None
    world.later(SuppressOptions().timeout_ms + 1)
    world.g0.reservations.give_up(world.g0.seconds)
    assert world.g0.outcome(publish) == "refused"


def test_bypassed_events_are_counted(world: World) -> None:
    world.g0.arrive("1")
    world.g0.arrive("2", key="other")
    world.g0.cut()
    world.g0.arrive("3")
    assert world.g0.bypassed_count == 3


def test_too_many_blind_publishes_drop_the_namespace(world: World) -> None:
    process = small(world, unreserved_max=3)
    process.talk(world.scope)
    process.cut()
    for number in range(5):
        publish = process.arrive("B", key=f"key-{number}")
        process.acknowledge(publish, process.append(publish))
    process.reservations.tick(process.seconds)
    process.reconnect()
    assert world.g1.publish_all("A") == "published"  # a new incarnation, in quarantine


def test_tokens_are_renewed_before_half_their_life_is_over(world: World) -> None:
    publish = world.g0.claim("B")
    entry = world.scope.entry(b"k")
    tick_ms = SuppressOptions(token_ttl_ms=LIFE_MS, quarantine_ms=QUARANTINE_MS).tick_s * 1000
    for _ in range(int(3 * LIFE_MS / tick_ms)):
        world.later(tick_ms)
        if world.g0.reservations.tick(world.g0.seconds):
            world.g0.exchange()
        nonce = world.values[world.scope.incarnation].value[:16]
        (deadline, trusted) = KeyEntry(world.values[entry].value, nonce).tokens[
            publish.reserved.token
        ]
        assert deadline - world.now >= LIFE_MS / 2
        assert trusted


def test_namespaces_in_use_are_talked_to_within_a_third_of_the_quarantine(world: World) -> None:
    options = {"token_ttl_ms": 100 * LIFE_MS, "quarantine_ms": QUARANTINE_MS}
    process, tick_ms = small(world, **options), SuppressOptions(**options).tick_s * 1000  # type: ignore[arg-type]
    process.claim("B")
    last = world.now
    for _ in range(60):
        world.later(tick_ms)
        process.reservations.tick(process.seconds)
        if process.execute():
            process.reply()
            last, gap = world.now, world.now - last
            assert gap <= QUARANTINE_MS / 3
    assert world.now - last <= QUARANTINE_MS / 3


def test_an_unknown_end_blocks_for_a_life_once_nothing_of_it_can_land(world: World) -> None:
    publish = world.g0.claim("B")
    world.g0.hand_over(publish)
    world.later(LIFE_MS / 2)
    world.g0.fail(publish, certain=False)
    world.g0.exchange()
    world.later(LIFE_MS * 0.9)
    nonce = world.values[world.scope.incarnation].value[:16]
    tokens = KeyEntry(world.values[world.scope.entry(b"k")].value, nonce).tokens
    assert tokens[publish.reserved.token][0] > world.now  # renewed when it ended
    for _ in range(20):  # it may land however late: its token is renewed
        world.later(LIFE_MS / 5)
        world.g0.reservations.tick(world.g0.seconds)
        world.g0.exchange()
        assert world.g1.claim("A").stage is Stage.LANE
        world.g1.fail(world.g1.lane[0], certain=True)
        world.g1.exchange()
    later = world.g0.claim("C")  # the producer's successor writes, which fences what it left
    world.g0.acknowledge(later, world.g0.append(later))
    world.later(LIFE_MS + 1)
    world.g0.reservations.tick(world.g0.seconds)
    world.g0.exchange()
    assert figures(world.g0.reservations)["under_way"] == 0
    world.later(LIFE_MS + 1)
    assert world.g1.publish_all("A") == "published"
    assert world.g1.publish_all("A") == "unchanged@2"


async def test_forget_clears_the_key_and_ends_with_the_call(world: World) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    world.g0.reservations.forget((world.scope, world.scope.entry(b"k"), done))
    world.g0.exchange()
    assert done.done()
    assert world.g1.publish_all("A") == "published"
    assert world.g1.publish_all("A") == "unchanged@1"


async def test_forget_fails_when_redis_goes_away(world: World) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()
    on_its_way: asyncio.Future[None] = loop.create_future()
    world.g0.reservations.forget((world.scope, None, on_its_way))
    world.g0.execute()
    world.g0.reservations.forget((world.scope, None, waiting))
    world.g0.cut()
    for one in (waiting, on_its_way):
        with pytest.raises(StoreError):
            await one


def test_followers_share_the_leaders_unchanged(world: World) -> None:
    leader, follower = world.g0.arrive("A"), world.g0.arrive("A")
    assert follower.leader is leader
    world.g0.exchange()
    assert world.g0.outcome(follower) == "unchanged@0"


def test_nothing_is_left_behind_by_a_busy_day(world: World) -> None:
    for number in range(300):
        world.g0.publish_all("ABBC"[number % 4])
    reservations = world.g0.reservations
    assert not reservations._arrivals.latest
    assert not reservations._arrivals.equal_before
    assert not reservations._in_flight.unregistered
    assert figures(reservations) == {"waiting": 0, "under_way": 0, "unsettled": 0}
