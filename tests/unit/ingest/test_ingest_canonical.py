"""Canonical comparison with a scanner: whichever way an event takes, its key's order stays."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable

import pytest

from headgate.formats.decode import scanner_for
from headgate.formats.json_text import KeyReader
from headgate.ingest.gate import Gate, Routes
from headgate.model.content import INLINE_BYTES, Comparison, ContentCheck, Fallback
from headgate.model.outcome import Reason
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.publish import Publish, Ticket
from headgate.model.route import Route, Scanner
from headgate.model.topics import TopicState
from support.gateway.fakes import policy
from support.gateway.held_helper import HeldHelper
from support.gateway.meters import counted
from support.gateway.plain_scanner import NDJSON, PlainScanner
from support.gateway.room import Room

IS_COMPILED = os.environ.get("EXPECT_COMPILED") == "1"
COMPARISON = Comparison(b"rules", ("/at",), 4_000_000)


class World:
    """`deals` is compared by its values. Turns and the helper go on when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.helper = HeldHelper()
        self.room = room = Room()
        deals = policy(pattern="deals", key=("/id",), suppress="canonical")
        self._policies = PolicyTable([deals])
        self._compares_values = True
        self._routes = Routes(self._policies, room.topics, self._route)
        room.build(gate=Gate(self._routes), helper=self.helper, schedule=self.calls.append)

    def compare_bytes(self) -> None:
        """A reload: from now on the topic's events are compared by their bytes."""
        self._compares_values = False
        self._routes.replace(self._policies)

    def _route(self, chosen: TopicPolicy, state: TopicState) -> Route:
        if not self._compares_values:
            return Route(
                chosen, state, KeyReader.parse(chosen.key), 128, COMPARISON.raw, self.room.scope
            )
        orders = ContentCheck(None, COMPARISON)
        scanner = scanner_of(chosen, state)
        given = (
            chosen,
            state,
            KeyReader.parse(chosen.key),
            128,
            COMPARISON.raw,
            self.room.scope,
            orders,
        )
        return Route(*given, scanner=scanner)

    def post(self, *documents: bytes) -> Ticket:
        return self.room.post("deals", b"\n".join(documents), content_type=NDJSON)

    def end_turn(self) -> None:
        calls, self.calls[:] = self.calls[:], []
        for call in calls:
            call()

    def reserved(self) -> list[int]:
        """The numbers of the events that Redis is asked about, in order."""
        return [number_of(publish) for publish in self.room.suppression.queue]


def scanner_of(chosen: TopicPolicy, state: TopicState) -> Scanner:
    found = scanner_for(chosen, state, 128, COMPARISON)
    return PlainScanner(chosen, state, 128, COMPARISON) if found is None else found


def number_of(publish: Publish) -> int:
    return int(json.loads(publish.record.value or b"")["n"])


def small(number: int, key: str = "k") -> bytes:
    """The scanner makes its digest."""
    return b'{"id":"%b","n":%d}' % (key.encode(), number)


def odd(number: int, key: str = "k") -> bytes:
    """It has no canonical form."""
    return b'{"id":"%b","n":%d,"x":-0}' % (key.encode(), number)


def large(number: int, key: str = "k") -> bytes:
    """It goes to the helper process."""
    return b'{"id":"%b","n":%d,"x":"%b"}' % (key.encode(), number, b"x" * INLINE_BYTES)


async def test_what_the_scanner_digests_goes_on_at_the_end_of_the_turn() -> None:
    world = World()
    world.post(small(1), small(2, "m"))
    world.post(small(3))
    assert world.reserved() == []
    world.end_turn()
    assert world.reserved() == [1, 2, 3]
    for publish in world.room.suppression.queue:
        expected = COMPARISON.digest(publish.record.value, b"application/json")
        assert (publish.digest, None) == expected
    assert counted(world.room.meter, "canonical_fallbacks") == {}


async def test_a_small_event_does_not_overtake_a_large_one_of_its_key() -> None:
    """Not in its own request, not in a later one; other keys go on."""
    world = World()
    world.post(large(1), small(2))
    world.post(small(3))
    world.post(small(4, "m"))
    world.end_turn()
    assert world.reserved() == [4]
    await world.helper.answer()
    world.end_turn()
    assert world.reserved() == [4, 1, 2, 3]
    world.post(small(5))
    world.end_turn()
    assert world.reserved() == [4, 1, 2, 3, 5]


async def test_at_the_deadline_the_helper_process_is_overloaded() -> None:
    world = World()
    ticket = world.post(large(1))
    world.end_turn()
    world.room.pipeline.expire(ticket)
    (outcome,) = ticket.outcomes
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.OVERLOADED


async def test_a_large_event_is_not_overtaken_where_a_reload_ends_the_comparison() -> None:
    world = World()
    world.post(small(1), large(2))
    world.compare_bytes()
    world.post(small(3))
    world.post(small(4, "m"))
    world.end_turn()
    assert world.reserved() == [1, 4]
    await world.helper.answer()
    world.end_turn()
    assert world.reserved() == [1, 4, 2, 3]


@pytest.mark.parametrize("other", [odd, large])
async def test_nothing_overtakes_a_small_event_that_waits_for_the_turns_end(
    other: Callable[[int], bytes],
) -> None:
    world = World()
    world.post(small(1))
    world.post(other(2))
    while world.helper.asked:
        await world.helper.answer()
    world.end_turn()
    assert world.reserved() == [1, 2]


async def test_one_odd_event_of_a_batch_is_counted_and_keeps_its_place() -> None:
    world = World()
    world.post(small(1), odd(2), small(3))
    world.end_turn()
    assert world.reserved() == [1, 2, 3]
    assert counted(world.room.meter, "canonical_fallbacks") == {("deals", Fallback.NUMBER): 1}


async def test_scanned_and_decoded_bodies_compare_alike() -> None:
    world = World()
    world.post(b'{"id":"k","n":1,"x":"a/b","at":1}')
    world.end_turn()
    world.room.run()
    key = {"headgate_key": b"k"}  # with it the body is read in the ordinary way
    again = world.room.post("deals", b'{ "x":"a\\/b", "at":2, "n":1, "id":"k"}', **key)
    world.end_turn()
    world.room.run()
    assert again.outcomes[0] is not None
    assert again.outcomes[0].name == "unchanged"


@pytest.mark.parametrize("seed", range(40))
async def test_order_in_any_course(seed: int) -> None:
    world, rng = World(), random.Random(seed)
    sent: dict[str, list[int]] = {"k": [], "m": [], "o": []}
    number = 0
    for _ in range(60):
        kind = rng.random()
        if kind < 0.6:
            documents = []
            for _ in range(rng.choice([1, 1, 2, 5])):
                key, number = rng.choice([*sent]), number + 1
                make = rng.choice([small, small, small, odd, large]) if kind < 0.3 else small
                documents.append(make(number, key))
                sent[key].append(number)
            world.post(*documents)
        elif kind < 0.8:
            world.end_turn()
        elif world.helper.asked:
            await world.helper.answer(rng.randrange(len(world.helper.asked)))
    while world.helper.asked:
        await world.helper.answer(rng.randrange(len(world.helper.asked)))
    await asyncio.sleep(0)
    world.end_turn()
    for key, numbers in sent.items():
        queue = [one for one in world.room.suppression.queue if one.record.key == key.encode()]
        assert [number_of(one) for one in queue] == numbers


@pytest.mark.skipif(not IS_COMPILED, reason="about C, which is not compiled")
def test_the_scanner_is_the_compiled_one() -> None:
    state = Room().topics.states["deals"]
    assert not isinstance(scanner_of(policy(key=("/id",)), state), PlainScanner)
