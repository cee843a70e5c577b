"""Partition of an event that waited while its topic changed.

A topic that was deleted and created again may have any partition count. The partition of an event
is chosen by the count at its arrival. After each wait the count is checked again.
"""

from headgate.core.keys import partition_for
from headgate.core.publish import Publish
from headgate.core.suppression import Reservation
from headgate.core.topics.topic import TopicState


def count_of(publish: Publish) -> int:
    """Return the partition count that was used to choose the event's partition."""
    if publish.placed_by:
        return publish.placed_by
    if publish.reservation is not None and publish.reservation.partitions:
        return publish.reservation.partitions
    assert publish.common is not None  # the event belongs to a request
    return publish.common.route.lane.partitions


def place_again(publish: Publish, state: TopicState) -> bool:
    """Move the event to the current partition of its key.

    A partition that the client chose stays.

    Returns:
        Whether the partition count has changed since the event was placed.
    """
    count = state.partitions
    if count_of(publish) == count:
        return False
    record, reservation = publish.record, publish.reservation
    publish.placed_by = count
    if not publish.placed:
        record.partition = place(record.key, record.partition, count)
    if reservation is not None:
        if publish.digest is None:  # events without a reservation share this object
            publish.reservation = Reservation(reservation.scope, count)
        else:
            reservation.partitions = count
    return True


def place(key: bytes | None, partition: int, count: int) -> int:
    """Return the partition of a key; an event without a key stays if its partition exists."""
    return partition % count if key is None else partition_for(key, count)
