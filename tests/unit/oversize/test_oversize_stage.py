"""The oversize stage among fakes: order, one outcome of many records, one settlement."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from headgate.formats.decode import Decoded
from headgate.formats.json_text import KeyReader
from headgate.ingest.gate import Gate, Routes
from headgate.ingest.turn import EventIds
from headgate.model.internal_topics import held_topic
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure, OutcomeName, Reason, Refused
from headgate.model.oversize import SplitRule, StoredBlob
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.publish import RawEvent, Record, Streamed, Ticket
from headgate.model.route import BEHIND, Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState
from headgate.oversize.choose import Tools
from support.cycles import counted_cycles
from support.gateway.fakes import FakeTopics, policy, topic_state
from support.gateway.meters import counted
from support.gateway.room import Room, digest

LIMIT = 3000
LANE = {"max_message_bytes": LIMIT + 1200}
AWAY = Failure(Reason.BLOBS_UNAVAILABLE, "no store", retry_after_s=5)
NO = Failure(Reason.BROKER_REFUSED, "not allowed")
UNKNOWN = Failure(Reason.UNKNOWN, "no answer")
RULE = SplitRule("/options", "/id")


class SlowBlobs:
    """Stores when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, asyncio.Future[StoredBlob]]] = []

    async def put(self, topic: str, value: bytes) -> StoredBlob:
        future: asyncio.Future[StoredBlob] = asyncio.get_running_loop().create_future()
        self.waiting.append((value, future))
        return await future

    def store(self, at: int = 0) -> None:
        value, future = self.waiting.pop(at)
        if not future.done():
            found = sha256(value).hexdigest()
            future.set_result(StoredBlob(f"file:///b/{found}", len(value), found))

    def fail(self) -> None:
        self.waiting.pop(0)[1].set_exception(Refused(AWAY))


class Here:
    """Work for the helper process is done here, or lost as if it had been killed."""

    is_lost = False

    async def ask(self, work: Callable[..., Any], *args: Any) -> Any:
        return None if self.is_lost else work(*args)


class FakeLone:
    def __init__(self, record: Record) -> None:
        self.size = len(record.value or b"") // 4


class OversizeRoom(Room):
    """Topics `claims`, `chunks`, `deals` (suppresses, split) and `packed`, each with a policy."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs, self.helper = SlowBlobs(), Here()
        policies = [
            policy(pattern="claims", key=("/id",), oversize=("claim-check",)),
            policy(pattern="chunks", key=("/id",), oversize=("chunk",), suppress="raw"),
            policy(pattern="deals", key=("/id",), oversize=("split",), split=RULE, suppress="raw"),
            policy(pattern="packed", key=("/id",), oversize=("compress", "notify")),
        ]
        states = [topic_state(each.pattern, **LANE) for each in policies]

        def compile_route(
            chosen: TopicPolicy, state: TopicState, held: TopicState | None = None
        ) -> Route:
            if chosen.suppress == "off":
                return Route(chosen, state, KeyReader.parse(chosen.key), 128, held=held)
            return Route(
                chosen,
                state,
                KeyReader.parse(chosen.key),
                128,
                digest,
                Scope(state.name, b"\1" * 16, 3, b"f"),
            )

        self.topics, self.compile_route = FakeTopics(*states), compile_route
        routes = Routes(PolicyTable(policies), self.topics, compile_route)
        self.tools = Tools(EventIds(b"\2" * 6), self.blobs.put, self.helper, FakeLone, 1 << 20)
        self.build(gate=Gate(routes), tools=self.tools)

    def reload(self, changed: TopicPolicy, *, is_spooled: bool) -> None:
        """Take the new policy of a topic; is_spooled: whether the spool has events of it."""
        names = [changed.pattern, *([held_topic(changed.pattern)] if changed.coalesces else ())]
        topics = FakeTopics(*(topic_state(name, **LANE) for name in names))
        routes = Routes(PolicyTable([changed]), topics, self.compile_route)
        self.build(gate=Gate(routes, is_spooled=lambda _topic: is_spooled), tools=self.tools)

    def decide(self) -> None:
        while self.suppression.queue:
            self.suppression.decide()

    async def settle(self) -> None:
        """Let everything end well."""
        for _ in range(20):
            self.decide()
            while self.blobs.waiting:
                self.blobs.store()
            await idle()
            self.run()

    def values(self) -> list[bytes | None]:
        return [one.record.value for log in self.lanes.logs.values() for one in log]

    def queued(self) -> list[bytes | None]:
        return [one.record.value for queue in self.lanes.queues.values() for one in queue]


async def idle() -> None:
    """Let tasks and threads end."""
    for _ in range(5):
        await asyncio.sleep(0.001)


def big(key: str, size: int = 9000, fill: str = "x") -> bytes:
    return b'{"id":"%s","text":"%s"}' % (key.encode(), fill.encode() * size)


def deal(key: str, options: int = 40, size: int = 200) -> bytes:
    texts = [{"id": f"{key}-{n}", "text": "x" * size} for n in range(options)]
    return json.dumps({"id": key, "options": texts}).encode()


def outcome(ticket: Ticket) -> Any:
    assert ticket.done
    return ticket.answered()[0]


async def test_what_is_small_waits_behind_a_large_event_of_its_key_only() -> None:
    room = OversizeRoom()
    first = room.post("claims", big("a"))
    second = room.post("claims", b'{"id":"a"}')
    other = room.post("claims", b'{"id":"b"}')
    await idle()
    assert room.queued() == [b'{"id":"b"}']
    room.run()
    assert other.done
    assert not first.done
    room.blobs.store()
    await idle()
    room.run()
    assert (outcome(first).oversize, outcome(first).records) == ("claim-check", 1)
    assert outcome(second).offset > outcome(first).offset
    assert outcome(second).oversize is None
    assert counted(room.meter, "oversize") == {("p", "claims", "claim-check"): 1}
    assert room.admission.bytes == room.admission.events == 0


async def test_uploads_of_one_key_may_end_in_any_order() -> None:
    room = OversizeRoom()
    tickets = [room.post("claims", big("a", fill=fill)) for fill in "xyz"]
    await idle()
    for at in (2, 1, 0):
        room.blobs.store(at)
        await idle()
    room.run()
    offsets = [outcome(ticket).offset for ticket in tickets]
    assert offsets == sorted(offsets)


async def test_a_blob_store_that_fails_publishes_nothing_and_holds_nobody_up() -> None:
    room = OversizeRoom()
    failing = room.post("claims", big("a"))
    behind = room.post("claims", b'{"id":"a"}')
    await idle()
    room.blobs.fail()
    await idle()
    room.run()
    assert outcome(failing).failure == AWAY
    assert outcome(behind).name is OutcomeName.PUBLISHED
    assert room.values() == [b'{"id":"a"}']


async def test_chunks_share_one_outcome_and_are_settled_once() -> None:
    room = OversizeRoom()
    ticket = room.post("chunks", big("a"))
    room.decide()
    await idle()
    assert len(room.queued()) > 3
    assert not ticket.done
    room.run()
    (log,) = room.lanes.logs.values()
    assert b"".join(one.record.value or b"" for one in log) == big("a")
    ended = outcome(ticket)
    place = (log[0].record.partition, len(log) - 1)
    assert (ended.name, ended.partition, ended.offset) == (OutcomeName.PUBLISHED, *place)
    assert outcome(ticket).records == len(log)
    assert room.suppression.published[b"a"] == (digest(big("a"), b"application/json"), len(log) - 1)
    assert room.suppression.in_flight[b"a"] == 0
    again = room.post("chunks", big("a"))
    room.decide()
    assert outcome(again).name is OutcomeName.UNCHANGED


@pytest.mark.parametrize("end", [NO, UNKNOWN])
async def test_one_part_that_fails_makes_the_whole_unknown(end: Failure) -> None:
    room = OversizeRoom()
    ticket = room.post("chunks", big("a"))
    room.decide()
    await idle()
    (partition,) = room.lanes.queues
    room.lanes.hand_over(partition, 1)
    room.lanes.acknowledge(partition)
    while room.lanes.queues[partition]:
        room.lanes.hand_over(partition, 2)
        room.lanes.fail(partition, end)
    assert outcome(ticket).failure.reason is Reason.UNKNOWN
    assert [certain for one, certain in room.suppression.ends if one.digest] == [False]


async def test_a_certain_refusal_of_all_parts_is_one_of_the_whole() -> None:
    room = OversizeRoom()
    ticket = room.post("chunks", big("a"))
    room.decide()
    await idle()
    (partition,) = room.lanes.queues
    while room.lanes.queues[partition]:
        room.lanes.hand_over(partition, 2)
        room.lanes.fail(partition, NO)
    assert outcome(ticket).failure == NO
    assert [certain for one, certain in room.suppression.ends if one.digest] == [True]


async def test_a_lane_that_takes_nothing_refuses_the_whole_before_any_part() -> None:
    room = OversizeRoom()
    ticket = room.post("deals", deal("d"))
    room.decide()
    room.lanes.refusing = dict.fromkeys(range(3), NO)
    await idle()
    assert outcome(ticket).failure == NO
    assert room.queued() == []


async def test_an_event_given_up_while_it_climbs_is_not_written_and_lets_others_go_on() -> None:
    room = OversizeRoom()
    ticket = room.post("claims", big("a"))
    behind = room.post("claims", b'{"id":"a"}')
    await idle()
    room.pipeline.expire(ticket)
    assert outcome(ticket).failure.reason is Reason.BLOBS_UNAVAILABLE
    room.run()
    assert behind.done
    room.blobs.store()
    await idle()
    room.run()
    assert room.values() == [b'{"id":"a"}']


async def test_given_up_in_the_lane_no_part_is_handed_over() -> None:
    room = OversizeRoom()
    ticket = room.post("chunks", big("a"))
    room.decide()
    await idle()
    room.pipeline.expire(ticket)
    assert outcome(ticket).failure.reason is Reason.KAFKA_UNAVAILABLE
    room.run()
    assert room.values() == []
    assert room.admission.events == 0


async def test_given_up_in_the_lane_the_elements_keys_can_be_unchanged_again() -> None:
    room = OversizeRoom()
    ticket = room.post("deals", deal("d"))
    room.decide()
    await idle()
    room.decide()  # the elements' own reservations
    assert len(room.queued()) == 40
    room.pipeline.expire(ticket)
    assert outcome(ticket).failure.reason is Reason.KAFKA_UNAVAILABLE
    assert not any(room.suppression.in_flight.values())


async def test_what_was_given_up_while_it_climbed_is_held_no_longer() -> None:
    room = OversizeRoom()
    tickets = [room.post("claims", big(key)) for key in "ab"]
    await idle()
    for ticket in tickets:
        room.pipeline.expire(ticket)
    await idle()
    assert all(future.cancelled() for _, future in room.blobs.waiting)
    assert not room.oversize._fitting


@pytest.mark.parametrize(("topic", "digest_at_the_start"), [("claims", b"d" * 16), ("deals", None)])
async def test_a_topic_that_begins_or_ends_to_suppress_while_a_body_streams(
    topic: str, digest_at_the_start: bytes | None
) -> None:
    room = OversizeRoom()
    value = Streamed(RawEvent(b""), StoredBlob("file:///b/1", 9000, "1" * 64), digest_at_the_start)
    headers = {b"content-type": b"text/plain", b"headgate-key": b"k"}
    ticket = Ticket(topic, "p", "req-1", 0.0, headers, b"", value)
    room.pipeline.take(ticket)
    publish = ticket.publishes[0]
    await room.settle()
    assert outcome(ticket).name is OutcomeName.PUBLISHED
    # Without a scope nothing is compared; where it is, its unknown content must equal nothing.
    assert publish.digest == (None if topic == "claims" else b"")
    assert topic == "claims" or publish.reserved.force


@pytest.mark.parametrize("is_spooled", [False, True], ids=["no-backlog", "backlog"])
@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"oversize": ("claim-check",)}, None),
        ({"oversize": ("claim-check",), "spool": True}, None),
        ({"oversize": ("claim-check",), "kind": "state", "coalesce_quiet_ms": 500}, "coalesces"),
        ({}, "claim-check"),
    ],
    ids=["unchanged", "spool", "coalesce", "no-claim-check"],
)
async def test_reload_while_a_body_streams(
    options: dict[str, Any], cause: str | None, is_spooled: bool
) -> None:
    """The client is one of this API: no reload makes its request one that needs another."""
    room = OversizeRoom()
    room.reload(policy(pattern="claims", key=("/id",), **options), is_spooled=is_spooled)
    value = Streamed(RawEvent(b""), StoredBlob("file:///b/1", 9000, "1" * 64), b"d" * 16)
    headers = {b"content-type": b"text/plain", b"headgate-key": b"k"}
    ticket = Ticket("claims", "p", "req-1", 0.0, headers, b"", value)
    room.pipeline.take(ticket)
    await room.settle()
    end = outcome(ticket)
    if is_spooled and cause is None:
        assert end.failure == BEHIND  # the spool takes single records
    elif cause is None:
        assert end.name is OutcomeName.PUBLISHED
    else:
        assert end.failure.reason is Reason.TOO_LARGE
        assert cause in end.failure.detail


@pytest.mark.parametrize("chosen", [2, None])
async def test_the_parts_of_an_event_whose_topic_grows_stay_where_its_client_chose(
    chosen: int | None,
) -> None:
    room = OversizeRoom()
    value = big("a")
    decoded = Decoded([RawEvent(value, value, partition=chosen)], False)
    ticket = Ticket("chunks", "p", "req-1", 0.0)
    room.pipeline.take(ticket, lambda *_: decoded)
    await idle()
    room.topics.states["chunks"] = room.topics.states["chunks"]._replace(partitions=7)
    await room.settle()
    assert outcome(ticket).name is OutcomeName.PUBLISHED
    landed = {one.record.partition for log in room.lanes.logs.values() for one in log}
    assert partition_for(b"a", 7) != 2
    assert landed == {partition_for(b"a", 7) if chosen is None else chosen}


async def test_after_the_first_hand_over_the_deadline_says_unknown_and_all_goes_on() -> None:
    room = OversizeRoom()
    ticket = room.post("chunks", big("a"))
    room.decide()
    await idle()
    (partition,) = room.lanes.queues
    room.lanes.hand_over(partition, 1)
    room.pipeline.expire(ticket)
    assert outcome(ticket).failure.reason is Reason.UNKNOWN
    room.run()
    assert b"".join(value or b"" for value in room.values()) == big("a")
    assert room.suppression.published[b"a"][0] == digest(big("a"), b"application/json")
    assert room.admission.events == 0


async def test_an_equal_event_follows_one_that_climbs() -> None:
    room = OversizeRoom()
    first, second = room.post("chunks", big("a")), room.post("chunks", big("a"))
    room.decide()
    third = room.post("chunks", big("a"))
    await room.settle()
    results = [outcome(ticket) for ticket in (first, second, third)]
    assert len({one.offset for one in results}) == 1
    assert [one.records > 0 for one in results] == [True, False, False]


async def test_the_manifest_comes_when_all_elements_are_written() -> None:
    room = OversizeRoom()
    ticket = room.post("deals", deal("d"))
    behind = room.post("deals", b'{"id":"d"}')
    room.decide()
    await idle()
    room.decide()  # the elements' own reservations
    assert b'"manifest":1' not in b"".join(value or b"" for value in room.queued())
    assert len(room.queued()) == 40
    for partition in list(room.lanes.queues):
        room.lanes.hand_over(partition, 100)
    handed = list(room.lanes.handed)
    for partition in handed[:-1]:
        room.lanes.acknowledge(partition)
    assert not any(room.lanes.queues.values())
    room.lanes.acknowledge(handed[-1])
    assert (room.queued()[0] or b"").startswith(b'{"manifest":1')
    assert room.queued()[1] == b'{"id":"d"}'
    room.run()
    assert (outcome(ticket).oversize, outcome(ticket).records) == ("split", 41)
    assert outcome(behind).offset == outcome(ticket).offset + 1
    assert room.suppression.published[b"d"][0] == digest(b'{"id":"d"}', b"application/json")
    assert b"d-7" in room.suppression.published  # an equal event of that key is unchanged


async def test_without_all_elements_there_is_no_manifest() -> None:
    room = OversizeRoom()
    ticket = room.post("deals", deal("d"))
    behind = room.post("deals", b'{"id":"d"}')
    room.decide()
    await idle()
    room.decide()
    partitions = list(room.lanes.queues)
    for partition in partitions:
        room.lanes.hand_over(partition, 100)
    room.lanes.fail(partitions[0], NO)
    for partition in partitions[1:]:
        room.lanes.acknowledge(partition)
    assert outcome(ticket).failure.reason is Reason.UNKNOWN
    room.run()
    assert behind.done
    assert b"manifest" not in b"".join(value or b"" for value in room.values())


async def test_a_producer_may_try_again_when_the_helper_process_was_lost() -> None:
    room = OversizeRoom()
    room.helper.is_lost = True
    ticket = room.post("deals", deal("d", size=2000))
    await room.settle()
    failure = outcome(ticket).failure
    assert (failure.reason, failure.retry_after_s) == (Reason.OVERLOADED, 1)
    room.helper.is_lost = False
    again = room.post("deals", deal("d", size=2000))
    await room.settle()
    assert outcome(again).name is OutcomeName.PUBLISHED


async def test_no_rung_that_fits_is_413_and_names_them() -> None:
    room = OversizeRoom()
    ticket = room.post("deals", big("a"))
    behind = room.post("deals", b'{"id":"a"}')
    await room.settle()
    assert outcome(ticket).failure.reason is Reason.TOO_LARGE
    assert "split" in outcome(ticket).failure.detail
    assert ticket.weighing == [(0, big("a"))]
    assert outcome(behind).name is OutcomeName.PUBLISHED


async def test_rungs_are_tried_in_their_order() -> None:
    room = OversizeRoom()
    fits, does_not = room.post("packed", big("a")), room.post("packed", big("b", 20_000))
    await room.settle()
    assert (outcome(fits).oversize, outcome(does_not).oversize) == ("compress", "notify")


async def test_close_refuses_events_in_the_stage_as_draining() -> None:
    room = OversizeRoom()
    ticket = room.post("claims", big("a"))
    await idle()
    await room.oversize.close()
    assert outcome(ticket).failure.reason is Reason.DRAINING
    assert room.admission.events == 0


@pytest.mark.parametrize("seed", range(25))
async def test_in_a_storm_each_event_ends_once_and_each_key_keeps_its_order(seed: int) -> None:
    random_, room = random.Random(seed), OversizeRoom()
    posted: list[tuple[str, str, int, Ticket]] = []
    for number in range(60):
        topic = random_.choice(["claims", "chunks", "deals", "packed"])
        key = random_.choice("ab")
        body = random_.choice([
            b'{"id":"%s","n":%d}' % (key.encode(), number),
            big(key, random_.choice([4000, 9000, 20_000]), str(number % 10)),
            deal(key, random_.randrange(20, 60)),
        ])  # fmt: skip
        posted.append((topic, key, number, room.post(topic, body)))
        await step(random_, room)
        if random_.random() < 0.1:
            victim = random_.choice(posted)[3]
            if not victim.done:
                room.pipeline.expire(victim)
    await room.settle()
    assert all(ticket.done for *_, ticket in posted)
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert len(room.oversize._order) == 0
    assert not room.oversize._plans
    assert not room.oversize._multi
    assert not room.oversize._manifests
    places: dict[tuple[str, str], list[int]] = {}
    for topic, key, _, ticket in posted:
        one = outcome(ticket)
        if one.name is OutcomeName.PUBLISHED and one.records:
            places.setdefault((topic, key), []).append(one.offset)
    assert all(offsets == sorted(offsets) for offsets in places.values())


async def step(random_: random.Random, room: OversizeRoom) -> None:
    """Something moves, or not."""
    for _ in range(random_.randrange(4)):
        what = random_.random()
        partition = random_.randrange(3)
        if what < 0.25:
            room.suppression.decide()
        elif what < 0.4 and room.blobs.waiting:
            room.blobs.store(random_.randrange(len(room.blobs.waiting)))
        elif what < 0.45 and room.blobs.waiting:
            room.blobs.fail()
        elif what < 0.7:
            room.lanes.hand_over(partition, random_.randrange(1, 9))
        elif what < 0.9:
            room.lanes.acknowledge(partition)
        elif what < 0.95:
            room.lanes.fail(partition, random_.choice([NO, UNKNOWN]))
        else:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)


@pytest.mark.parametrize("topic", ["claims", "chunks", "deals", "packed"])
async def test_what_is_large_leaves_no_cycle(topic: str) -> None:
    """Its values would stay in memory until the collector looks, which is seldom."""
    room = OversizeRoom()
    with counted_cycles("headgate.model") as left:
        for number in range(3):
            room.post(
                topic, deal(f"d-{number}") if topic == "deals" else big("a", fill="xyz"[number])
            )
            await room.settle()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(room.lanes, "refusal", lambda *_: AWAY)
            room.post(topic, deal("e") if topic == "deals" else big("e"))
            await room.settle()
        room.lanes.logs.clear()  # they hold what was published
    assert not left


async def given_up(room: OversizeRoom, ticket: Ticket, partitions: list[int]) -> None:
    room.pipeline.expire(ticket)


async def closed(room: OversizeRoom, ticket: Ticket, partitions: list[int]) -> None:
    await room.oversize.close()


async def refused(room: OversizeRoom, ticket: Ticket, partitions: list[int]) -> None:
    for partition in partitions:
        room.lanes.hand_over(partition, 100)
        room.lanes.fail(partition, NO)


async def lost(room: OversizeRoom, ticket: Ticket, partitions: list[int]) -> None:
    for partition in partitions:
        room.lanes.hand_over(partition, 1)
    room.pipeline.expire(ticket)  # with one record on its way
    for partition in partitions:
        room.lanes.hand_over(partition, 100)
        room.lanes.fail(partition, UNKNOWN)


@pytest.mark.parametrize("end", [given_up, closed, refused, lost])
@pytest.mark.parametrize("reaches", ["the blob store", "its verdict", "the lane"])
@pytest.mark.parametrize("topic", ["claims", "chunks", "deals", "packed"])
async def test_what_is_large_and_not_published_leaves_no_cycle(
    topic: str,
    reaches: str,
    end: Callable[[OversizeRoom, Ticket, list[int]], Awaitable[None]],
) -> None:
    room = OversizeRoom()
    with counted_cycles("headgate") as left:
        ticket = room.post(topic, deal("d") if topic == "deals" else big("a"))
        if reaches != "the blob store":
            room.decide()
            await idle()
        if reaches == "the lane":
            room.decide()  # the elements' own reservations
            while room.blobs.waiting:
                room.blobs.store()
            await idle()
        await end(room, ticket, list(room.lanes.queues))
        room.pipeline.expire(ticket)  # whatever is left
        await room.settle()
        assert ticket.done
        del ticket
        room.lanes.logs.clear()
        room.lanes.queues.clear()
        room.suppression.ends.clear()
    assert not left
