"""What an owner makes of a commit that an owner of another version left."""

from __future__ import annotations

import pytest

from support.scenarios.coalescer_sim import Process, World


def settled(world: World) -> list[bytes | None]:
    """An owner does what there is to do, and dies. What O has then."""
    process = Process(world, len(world.transactions))
    for _ in range(60):
        process.resume()
        world.now += 20
        world.write_markers()
    process.die()
    return [one.content for one in world.visible()]


@pytest.mark.parametrize(
    ("metadata", "contents"),
    [
        ("2 of-a-later-version", [b"A", b"A"]),
        ("", [b"A"]),  # set by Kafka's tools
        (None, [b"A"]),  # as it was
    ],
)
def test_metadata_that_nobody_can_read_may_say_that_something_is_unreserved(
    metadata: str | None, contents: list[bytes]
) -> None:
    """Rule 12: then what Redis knows is not relied on."""
    world = World()
    world.hold("a", "A")
    assert settled(world) == [b"A"]
    if metadata is not None:
        world.group = world.group._replace(metadata=metadata)
    world.hold("a", "A")
    assert settled(world) == contents
    assert world.violations == []
