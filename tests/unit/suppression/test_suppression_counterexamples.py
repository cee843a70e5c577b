"""Counterexamples of docs/design/suppression-protocol.md, on the real reservations and rules.

In each, the older protocol answered the last event `unchanged` though other content lay on top of
the log; here it must be published (or its answer must be harmless).
"""

from headgate.model.publish import Stage
from headgate.model.suppression import Scope
from support.gateway.suppression_world import LIFE_MS, QUARANTINE_MS, Process, World, make_scope


def assert_published(process: Process, content: str) -> None:
    publish = process.claim(content)
    assert publish.stage is Stage.LANE, process.outcome(publish)


def test_the_benefit_without_faults() -> None:
    world = World(warm=False)
    world.g0.talk(world.scope)
    world.later(QUARANTINE_MS)
    told = [world.g0.publish_all(content) for content in "AABBABB"]
    expected = ["published", "unchanged@0", "published", "unchanged@1"]
    assert told == [*expected, "published", "published", "unchanged@3"]
    assert world.g1.publish_all("B") == "unchanged@3"


def test_01_a_process_dies_between_append_and_settle() -> None:
    world = World()
    lost = world.g0.claim("B")
    world.g0.append(lost)
    world.g0.die()
    assert_published(world.g1, "A")  # the token blocks
    world.g1.lane.clear()
    world.later(LIFE_MS + 1)
    world.g1 = world.g1.die()
    assert_published(world.g1, "A")  # an expired token is an unknown write: h is gone


def test_02_one_expired_token_is_not_purged_while_another_lives() -> None:
    world = World()
    b = world.g0.claim("B")
    world.later(LIFE_MS / 2)
    a = world.g1.claim("A")
    offset_of_a = world.g1.append(a)
    world.g0.append(b)
    world.g0.die()
    world.later(LIFE_MS / 2 + 1)  # the token of B has expired, that of A has not
    c = world.g1.claim("C")
    world.g1.acknowledge(a, offset_of_a)
    world.g1.exchange()
    world.g1.fail(c, certain=True)
    world.g1.exchange()
    assert world.text == "AAB"
    assert_published(world.g1, "A")


def test_03_nobody_joins_an_event_whose_claim_is_sent_or_that_is_handed_over() -> None:
    world = World()
    first = world.g0.arrive("B")
    world.g0.execute()
    racing = world.g1.claim("C")
    world.g1.append(racing)
    late = world.g0.arrive("B")
    assert late.leader is None
    world.g0.reply()
    world.g0.hand_over(first)
    assert world.g0.arrive("B").leader is late  # which waits for its reservation
    world.g0.exchange()
    assert late.stage is Stage.LANE


def test_03_equal_events_join_at_the_door_of_the_lane() -> None:
    world = World()
    first = world.g0.arrive("B")
    world.g0.execute()
    second = world.g0.arrive("B")
    third = world.g0.arrive("B")
    assert second.leader is None
    assert third.leader is second
    world.g0.reply()
    world.g0.exchange()
    assert [second.leader, third.leader] == [first, first]
    world.g0.acknowledge(first, world.g0.append(first))
    assert world.g0.outcome(third) == "published"
    world.g0.exchange()
    assert world.text == "AB"
    assert world.g1.publish_all("B") == "unchanged@1"  # no token is left over


def test_04_redis_restarts_empty_and_a_late_settlement_finds_no_token() -> None:
    world = World()
    b = world.g0.claim("B")
    offset = world.g0.append(b)
    world.g0.acknowledge(b, offset)  # the settlement waits
    world.restart_redis()
    world.g1.reconnect()
    c = world.g0.arrive("C")
    assert c.reserved.unreserved
    world.g0.acknowledge(c, world.g0.append(c))
    world.later(QUARANTINE_MS + 1)
    world.g0.reconnect()  # settles B and C, in no order that matters
    assert world.text == "ABC"
    assert_published(world.g0, "B")


def test_04b_two_processes_settle_after_the_restart() -> None:
    world = World()
    a, b = world.g1.claim("A"), world.g0.claim("B")
    offset_of_a, offset_of_b = world.g1.append(a), world.g0.append(b)
    world.g1.acknowledge(a, offset_of_a)
    world.g0.acknowledge(b, offset_of_b)
    world.restart_redis()
    world.g0.reconnect(exchange=False)
    world.g1.reconnect()  # settles the lower offset first
    world.later(QUARANTINE_MS + 1)
    assert world.text == "AAB"
    assert_published(world.g1, "A")


def test_05_tokens_registered_again_are_not_trusted() -> None:
    world = World()
    a, b = world.g1.claim("A"), world.g0.claim("B")
    offset_of_a, offset_of_b = world.g1.append(a), world.g0.append(b)
    world.g0.acknowledge(b, offset_of_b)
    world.restart_redis()
    world.g1.reconnect()  # registers A
    world.g1.acknowledge(a, offset_of_a)
    world.g1.exchange()
    world.later(QUARANTINE_MS + 1)
    assert world.text == "AAB"
    assert_published(world.g1, "A")


def test_05_tokens_claimed_in_quarantine_are_not_trusted() -> None:
    world = World()
    world.restart_redis()
    world.g0.reconnect()
    world.g1.reconnect()
    a = world.g1.claim("A")
    offset = world.g1.append(a)
    world.later(QUARANTINE_MS + 1)
    world.g1.acknowledge(a, offset)
    world.g1.exchange()
    assert_published(world.g1, "A")


def test_06_a_claim_without_a_reply_deletes_nothing_of_others() -> None:
    world = World()
    b = world.g0.claim("B")
    offset_of_b = world.g0.append(b)
    c = world.g1.arrive("C")
    world.g1.execute()
    world.g1.cut()  # the reply is lost: C goes out unreserved
    assert c.reserved.unreserved
    world.g1.acknowledge(c, world.g1.append(c))
    world.g1.reconnect()
    world.g0.acknowledge(b, offset_of_b)
    world.g0.exchange()
    assert world.text == "ABC"
    assert_published(world.g0, "B")


def test_06_a_blind_publish_under_way_at_the_reconnect_blocks() -> None:
    world = World()
    world.g1.cut()
    c = world.g1.arrive("C")
    world.g1.hand_over(c)
    world.g1.reconnect()
    assert_published(world.g0, "A")


def test_06_a_blind_publish_that_was_acknowledged_is_settled() -> None:
    world = World()
    world.g1.cut()
    c = world.g1.arrive("C")
    world.g1.acknowledge(c, world.g1.append(c))
    world.g1.reconnect()
    assert world.text == "AC"
    assert_published(world.g0, "A")


def test_07_a_flush_makes_a_new_nonce_and_a_quarantine() -> None:
    world = World()
    c = world.g0.claim("C")
    world.g0.hand_over(c)
    world.values.clear()  # FLUSHALL
    assert world.g1.publish_all("B") == "published"
    assert world.g1.publish_all("B") == "published"  # in quarantine
    # Meanwhile g0 talks to the namespace in use, as its tick makes it, and registers C.
    world.later(QUARANTINE_MS / 2)
    assert world.g0.reservations.tick(world.g0.seconds)
    world.g0.exchange()
    world.later(QUARANTINE_MS / 2 + 1)
    assert world.g1.publish_all("B") == "published"
    world.g0.append(c)
    assert world.text == "ABBBC"
    assert_published(world.g1, "B")


def test_09_a_set_refused_in_the_middle_is_unknown() -> None:
    world = World()
    b = world.g0.claim("B")
    world.g0.append(b)
    world.g0.fail(b, certain=False)
    world.g0.exchange()
    assert_published(world.g1, "A")


def test_10_an_acknowledgement_without_an_offset_leaves_the_token() -> None:
    world = World()
    a, b = world.g1.claim("A"), world.g0.claim("B")
    offset_of_a = world.g1.append(a)
    world.g0.append(b)
    world.g0.acknowledge(b, -1)
    world.g0.exchange()
    world.g1.acknowledge(a, offset_of_a)
    world.g1.exchange()
    assert world.text == "AAB"
    assert_published(world.g1, "A")
    world.later(LIFE_MS + 1)
    assert_published(world.g1.die(), "A")


def test_11_a_publish_of_the_old_topic_is_registered_in_the_new_namespace() -> None:
    world = World()
    b = world.g0.claim("B")
    world.g0.hand_over(b)
    old, new = world.scope, make_scope(2)
    world.log.clear()  # deleted and created again
    world.scope = new
    for process in (world.g0, world.g1):
        process.reservations.scope_changed(old, new)
        process.exchange()
    world.g1.talk(new)
    world.later(QUARANTINE_MS + 1)
    assert world.g1.publish_all("A") == "published"
    world.g0.append(b)
    assert world.text == "AB"
    assert_published(world.g1, "A")


def test_12_a_publish_that_outlives_the_quarantine_was_registered() -> None:
    world = World()
    b = world.g0.claim("B")
    world.g0.hand_over(b)
    world.restart_redis()
    world.g0.reconnect()
    world.g1.reconnect()
    world.g1.talk(world.scope)
    world.later(QUARANTINE_MS + 1)
    assert world.g1.publish_all("A") == "published"
    world.g0.append(b)
    assert world.text == "AAB"
    assert_published(world.g1, "A")


def test_13_a_follower_of_a_published_leader_is_published() -> None:
    world = World()
    b = world.g0.claim("B")
    world.g0.hand_over(b)
    world.g0.fail(b, certain=False)
    c = world.g0.claim("C")
    follower = world.g0.arrive("C")
    assert follower.leader is c
    world.g0.acknowledge(c, world.g0.append(c))
    assert world.g0.outcome(follower) == "published"


def test_recreated_topic_is_noticed_by_an_offset_at_the_floor() -> None:
    world = World()
    for content in "BCD":
        world.g0.publish_all(content)
    world.log.clear()
    b = world.g0.claim("B")
    assert b.reserved.floor == 3
    before = _nonce(world, world.scope)
    world.g0.acknowledge(b, world.g0.append(b))
    world.g0.exchange()
    assert _nonce(world, world.scope) != before


def test_a_slower_racing_writer_is_no_recreated_topic() -> None:
    world = World()
    b, c = world.g0.claim("B"), world.g1.claim("C")
    offset_of_b, offset_of_c = world.g0.append(b), world.g1.append(c)
    before = _nonce(world, world.scope)
    world.g1.acknowledge(c, offset_of_c)
    world.g1.exchange()
    world.g0.acknowledge(b, offset_of_b)
    world.g0.exchange()
    assert _nonce(world, world.scope) == before
    assert world.g0.publish_all("C") == "unchanged@2"


def _nonce(world: World, scope: Scope) -> bytes:
    return world.values[scope.incarnation].value[:16]


def test_14_a_topic_is_recreated_while_a_process_has_events_of_it_on_disk() -> None:
    world = World()
    old, new = world.scope, make_scope(2)
    world.g0.reservations.hold(old)  # B is on its disk, and it cannot ask Kafka
    world.g0.exchange()
    world.scope = new  # what g1 has read
    world.log.clear()
    world.g1.talk(new)
    for _ in range(12):
        world.later(QUARANTINE_MS / 8)
        for one in (world.g0, world.g1):
            one.reservations.tick(one.seconds)
            one.exchange()
        assert world.g1.publish_all("A") == "published"  # also after the quarantine of its birth
    made = make_scope(2)
    world.g0.reservations.scope_changed(old, made)  # it has read the topics
    world.g0.exchange()
    world.log.append("B")
    world.g0.reservations.release(old)
    assert made.spooled.count == 0
    assert world.g1.publish_all("A") == "published"
    for _ in range(20):
        world.later(QUARANTINE_MS / 8)
        for one in (world.g0, world.g1):
            one.reservations.tick(one.seconds)
            one.exchange()
    assert world.g1.publish_all("A") == "published"  # A is not known: it was not trusted until now
    assert world.g1.publish_all("A").startswith("unchanged")  # type: ignore[union-attr]
