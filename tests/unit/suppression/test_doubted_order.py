"""What Redis says is doubted while a call is on its way: events of a key keep their order."""

from __future__ import annotations

from headgate.model.publish import Publish, Stage
from headgate.suppression.rules import Agreement
from support.doubles.suppression_rules import KeyEntry
from support.gateway.suppression_world import World, make_publish


def doubt(agreement: Agreement) -> None:
    agreement.until_s = float("-inf")


def claimed(world: World, contents: str) -> list[Publish]:
    """All in one call, whose answer is doubted."""
    reservations = world.g0.reservations
    publishes = [make_publish(content, world.scope) for content in contents]
    for publish in publishes:
        reservations.reserve(publish)
    assert world.g0.execute()
    doubt(reservations._agreement)
    world.g0.reply()
    return publishes


def test_an_event_does_not_overtake_one_of_its_key_that_must_ask_again() -> None:
    world = World()
    old, new = claimed(world, "AB")
    assert (old.stage, new.stage) == (Stage.QUEUED, Stage.QUEUED)
    world.g0.exchange()
    assert world.g0.lane == [old, new]


def test_its_first_token_does_not_stay() -> None:
    world = World()
    claimed(world, "AB")
    world.g0.exchange()
    value = world.values[world.scope.entry(b"k")].value
    assert len(KeyEntry(value, value[:16]).tokens) == 2
