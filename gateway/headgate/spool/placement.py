"""By which partition count events were placed: a topic may have grown since."""

from collections.abc import Iterable

from headgate.core.publish import Publish


def count_of(publish: Publish) -> int:
    """The partition count by which it was placed."""
    if publish.reservation is not None and publish.reservation.partitions:
        return publish.reservation.partitions
    assert publish.common is not None  # it came with a request
    return publish.common.route.lane.partitions


def by_count(publishes: Iterable[Publish]) -> list[list[Publish]]:
    """Parts of it, in order, each placed by one count."""
    parts = list[list[Publish]]()
    for publish in publishes:
        if not parts or count_of(parts[-1][0]) != count_of(publish):
            parts.append([])
        parts[-1].append(publish)
    return parts
