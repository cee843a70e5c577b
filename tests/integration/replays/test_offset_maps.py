"""Maps of what is asked for are kept, and no more of them than fits."""

from __future__ import annotations

import pytest

from headgate.backends.kafka.options import ClusterOptions
from headgate.replays.maps import OffsetMaps
from support.process.stack import RunningBroker

pytestmark = pytest.mark.kafka


async def test_maps_that_are_empty_are_forgotten_too(kafka: RunningBroker, topic_name: str) -> None:
    """Whoever may look may ask of any partition of any topic that a policy's pattern matches."""
    maps = OffsetMaps(ClusterOptions(kafka.bootstrap), max_segments=1000)
    found = await maps.of(topic_name, range(500))
    assert len(found) == len(maps) == 500  # what is asked for now is answered
    await maps.of(f"{topic_name}-other", range(3))
    assert 3 <= len(maps) < 50
